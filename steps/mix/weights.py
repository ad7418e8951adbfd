"""mix/weights: how much of each cell training sees in each phase, and how often it sees it."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np

from marin_exec import ConfigError, InputPath, Out, added_default, kind
from steps.config_checks import check_choice, check_number
from steps.mix.layout import Layout, check_budgets, lay_out
from steps.mix.mixture import MIXTURE_FILE, TAIL, Mixture, write_mixture
from steps.mix.weights_file import read_weights
from steps.tokenize.store import CellEntry, TokenIndex, read_index

_CELL_QUALITY = re.compile(r"c\d+q(\d+)")
_MAX_BLOCK = 65_536


@dataclass(frozen=True, kw_only=True)
class Proportional:
    """Weights by what there is: tokens ** size_exponent * (quality bucket + 1) ** quality_exponent, normalised."""

    size_exponent: float = 1.0
    """1 samples each token equally often, 0 each cell."""
    quality_exponent: float = 0.0
    """0 ignores quality; with 1, bucket 4 counts five times as much as bucket 0."""

    def __post_init__(self) -> None:
        check_number(self, "size_exponent", "quality_exponent", low=-100, high=100)


@dataclass(frozen=True, kw_only=True)
class WeightTable:
    """Weights as written, by cell name; every cell of the token store must be named, with 0 to leave one out."""

    weights: dict[str, float]
    """Not negative; normalised to sum 1."""
    token_store: Annotated[str | None, added_default(None)] = None
    """Fingerprint of the store that the weights were made for (`fingerprint` in the result of tokenize/cache): another one
    is refused. None checks the names of the cells alone."""

    def __post_init__(self) -> None:
        bad = {name: weight for name, weight in self.weights.items() if not 0 <= weight < math.inf}
        if bad or not any(self.weights.values()):
            raise ConfigError(
                f"WeightTable.weights: {bad or 'all are 0'}; finite weights from 0 up are needed, not all 0"
            )


@dataclass(frozen=True, kw_only=True)
class StoredWeights:
    """Weights that a step wrote for this token store, as a weight search does; for another store they are refused."""

    weights: InputPath
    """Weights file: `candidate / "weights.json"`, or `designs / "design-003.json"`."""
    phase: int = 0
    """Which of the phases in the file, counted from 0."""

    def __post_init__(self) -> None:
        check_number(self, "phase", low=0)


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A part of the run with its own weights."""

    rule: Proportional | WeightTable | StoredWeights
    """How the weights come about."""
    start_fraction: float = 0.0
    """Where in the run it starts; the first phase at 0."""

    def __post_init__(self) -> None:
        check_number(self, "start_fraction", low=0, below=1)


@dataclass(frozen=True, kw_only=True)
class WeightsConfig:
    tokens: InputPath
    """Token store of the training cells (tokenize/cache)."""
    sequence_length: int
    """Tokens that a training sequence predicts."""
    budgets_tokens: tuple[int, ...]
    """Token budgets of the runs that will use the mixture: every rung and the hero."""
    phases: tuple[Phase, ...] = (Phase(rule=Proportional()),)
    """In order of start_fraction."""
    block_sequences: int = 1024
    """Sequences a mixture block; weights become multiples of its inverse."""
    min_sequences: int = 16
    """Cells with fewer sequences than this join the tail."""
    max_epochs: float = 8.0
    """Most often that any component may be seen in any of the budgets."""
    over_cap: Literal["error", "water_fill"] = "error"
    """What to do above max_epochs: refuse, or hold those components at it and share the rest out in proportion."""

    def __post_init__(self) -> None:
        starts = [phase.start_fraction for phase in self.phases]
        if not starts or starts[0] != 0 or any(b <= a for a, b in pairwise(starts)):
            raise ConfigError(f"WeightsConfig.phases start at {starts}; the first must be 0, each above the one before")
        check_budgets(self)
        check_number(self, "sequence_length", "min_sequences", "block_sequences", low=1)
        check_number(self, "block_sequences", below=_MAX_BLOCK)
        check_number(self, "max_epochs", above=0)
        check_choice(self, "over_cap", ("error", "water_fill"))


@dataclass(frozen=True)
class WeightsResult:
    cells: int
    components: int
    tail_cells: int
    """Cells that were too small to stand alone."""
    tokens: int
    """In all cells."""
    unused_cells: list[str]
    """Cells with weight 0 in every phase."""
    capped: list[str]
    rounded_to_zero: list[str]
    largest_exposure: float
    """Epochs of the most repeated component under the largest budget."""
    smallest_exposure: float
    """Epochs of the least seen component that has weight, under the largest budget."""
    exposure_by_component: dict[str, float]
    """Epochs under the largest budget."""


@kind("mix/weights", version=2)
def mixture_weights(config: WeightsConfig, out: Out) -> WeightsResult:
    """Writes mixture.json for a token store.

    Raises:
        ConfigError: a table does not name exactly the store's cells, or a component is above max_epochs and water-filling
            may not or cannot bring it down.
    """
    index = read_index(config.tokens)
    raw = np.stack([phase_weights(phase.rule, index) for phase in config.phases])
    mixture = lay_out(layout_of(config), index, raw)
    write_mixture(out.file(MIXTURE_FILE), mixture)
    return _result(mixture, index.cells, out)


def layout_of(config: WeightsConfig) -> Layout:
    """Returns what of the config decides how weights become a mixture."""
    return Layout(
        sequence_length=config.sequence_length,
        budgets_tokens=tuple(config.budgets_tokens),
        phase_starts=tuple(each.start_fraction for each in config.phases),
        block_sequences=config.block_sequences,
        min_sequences=config.min_sequences,
        max_epochs=config.max_epochs,
        over_cap=config.over_cap,
    )


def _result(mixture: Mixture, cells: Sequence[CellEntry], out: Out) -> WeightsResult:
    largest = mixture.budgets_tokens.index(max(mixture.budgets_tokens))
    seen = {each.name: each.exposures[largest] for each in mixture.components if any(each.counts)}
    if mixture.rounded_to_zero:
        out.progress(f"no sequence a block in some phase for {', '.join(mixture.rounded_to_zero)}: not seen there")
    in_use = {cell for each in mixture.components for cell in each.cells if any(each.weights)}
    return WeightsResult(
        cells=len(cells),
        components=len(mixture.components),
        tail_cells=sum(len(each.cells) for each in mixture.components if each.name == TAIL),
        tokens=sum(cell.tokens for cell in cells),
        unused_cells=[cell.name for cell in cells if cell.name not in in_use],
        capped=list(mixture.capped),
        rounded_to_zero=list(mixture.rounded_to_zero),
        largest_exposure=max(seen.values()),
        smallest_exposure=min(seen.values()),
        exposure_by_component=seen,
    )


def phase_weights(rule: Proportional | WeightTable | StoredWeights, index: TokenIndex) -> np.ndarray:
    """Returns the weights that a rule gives the C cells of a store: float64[C], sum 1.

    Raises:
        ConfigError: the rule does not fit the store's cells.
        StepFailed: stored weights were made for another store.
    """
    names = [cell.name for cell in index.cells]
    if isinstance(rule, StoredWeights):
        stored = read_weights(rule.weights, index)
        if rule.phase >= len(stored):
            raise ConfigError(f"StoredWeights.phase: {rule.phase}; {rule.weights} has phases 0 to {len(stored) - 1}")
        weights = stored[rule.phase]
    elif isinstance(rule, WeightTable):
        weights = _table_weights(rule, index, names)
    else:
        weights = np.array([cell.tokens for cell in index.cells], dtype=np.float64) ** rule.size_exponent
        if rule.quality_exponent:
            weights *= np.array([_bucket(name) + 1.0 for name in names]) ** rule.quality_exponent
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not np.isfinite(total) or np.any(weights < 0) or total <= 0:
        bad = [name for name, weight in zip(names, weights, strict=True) if not weight >= 0]
        raise ConfigError(f"weights must be finite, not negative, and not all 0; wrong for {bad or 'all cells'}")
    return weights / total


def _table_weights(rule: WeightTable, index: TokenIndex, names: list[str]) -> np.ndarray:
    if rule.token_store is not None and rule.token_store != index.fingerprint:
        raise ConfigError(
            f"WeightTable.token_store: {rule.token_store[:16]}; the token store is {index.fingerprint[:16]}. The table was "
            f"made for other cells, even where names are the same: make one for this store"
        )
    missing, unknown = sorted(set(names) - set(rule.weights)), sorted(set(rule.weights) - set(names))
    if missing or unknown:
        raise ConfigError(
            f"the weight table lacks cells {missing} and names cells {unknown} that the token store has not; name "
            f"every cell of the store, with 0 to leave one out"
        )
    return np.array([rule.weights[name] for name in names], dtype=np.float64)


def _bucket(name: str) -> int:
    found = _CELL_QUALITY.fullmatch(name)
    if not found:
        raise ConfigError(f"cell {name!r} has no quality bucket in its name (cNNqQ); quality_exponent must be 0")
    return int(found[1])
