"""mix/designs: a swarm of mixtures around the proportional one, for proxy runs to learn from.

    design-NNN.json    weights of one design (steps/mix/weights_file.py); number 0 is the proportional mixture itself

A design depends on the token store, the seed and its number alone, so that a larger swarm holds the smaller one.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from marin_exec import ConfigError, InputPath, Out, kind
from steps.config_checks import check_number
from steps.mix.search.sampling import sample_mixture
from steps.mix.weights import Proportional, phase_weights
from steps.mix.weights_file import cell_weights, write_weights
from steps.tokenize.store import read_index


@dataclass(frozen=True, kw_only=True)
class DesignsConfig:
    tokens: InputPath
    """Token store of the training cells (tokenize/cache)."""
    num_designs: int
    """Mixtures, the proportional one among them."""
    phase_starts: tuple[float, ...] = (0.0, 0.8)
    """Fraction of the run at which each phase starts."""
    lowest_concentration: float = 8.0
    """Of the Dirichlet draws: with 8, a cell of share 0.1 varies by 0.1; lower is wilder."""
    highest_concentration: float = 128.0
    """With 128, a cell of share 0.1 varies by 0.026."""
    linked_share: float = 0.5
    """Share of the designs whose later phases are drawn around the phase before; in the others each stands alone."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_number(self, "num_designs", low=2)
        check_number(self, "lowest_concentration", "highest_concentration", above=0)
        check_number(self, "linked_share", low=0, high=1)
        check_number(self, "seed", low=0)
        check_phase_starts(self)
        if self.lowest_concentration > self.highest_concentration:
            raise ConfigError(
                f"DesignsConfig.lowest_concentration: {self.lowest_concentration}, above the highest, "
                f"{self.highest_concentration}"
            )


@dataclass(frozen=True, kw_only=True)
class DesignsResult:
    designs: int
    cells: int
    phases: int
    linked: int
    """Designs whose later phases are near the phase before."""
    mean_distance: float
    """Mean over designs and phases of the total variation distance from proportional: the share of the run that moves."""


def check_phase_starts(config: Any) -> None:
    """Raises ConfigError unless the `phase_starts` of a config begin at 0 and rise, below 1."""
    starts = config.phase_starts
    if not starts or starts[0] != 0 or not all(a < b for a, b in pairwise([*starts, 1.0])):
        raise ConfigError(
            f"{type(config).__name__}.phase_starts: {starts}; the first must be 0, each above the one before, the last below 1"
        )


def design_file(number: int) -> str:
    """Returns the name of a design's file, e.g. "design-003.json"."""
    return f"design-{number:03d}.json"


@kind("mix/designs", version=1)
def mixture_designs(config: DesignsConfig, out: Out) -> DesignsResult:
    """Writes the designs.

    Raises:
        StepFailed: there is no token store.
    """
    index = read_index(config.tokens)
    proportional = np.stack([phase_weights(Proportional(), index)] * len(config.phase_starts))
    concentrations = (config.lowest_concentration, config.highest_concentration)
    distances, linked = [], 0
    for number in range(config.num_designs):
        weights = proportional
        if number:
            random = np.random.default_rng([config.seed, number])
            near = random.random() < config.linked_share
            weights = sample_mixture(random, proportional, concentrations, near)
            distances.append(np.abs(weights - proportional).sum() / 2 / len(weights))
            linked += near
        write_weights(out.file(design_file(number)), cell_weights(index, config.phase_starts, weights))
    return DesignsResult(
        designs=config.num_designs,
        cells=len(index.cells),
        phases=len(config.phase_starts),
        linked=linked,
        mean_distance=float(np.mean(distances)),
    )
