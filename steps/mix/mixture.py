"""What mix/weights writes and the training order reads: components, their sequences a block, their exposure."""

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from marin_exec import StepFailed
from steps.files import read_bytes, write_json
from steps.mix.blocks import RunBlocks, run_blocks

MIXTURE_FILE = "mixture.json"
FORMAT = "mixture/2"
TAIL = "tail"


@dataclass(frozen=True, kw_only=True)
class Component:
    """One thing that sequences are drawn from: a cell, or the tail of cells too small to stand alone."""

    name: str
    cells: tuple[str, ...]
    """Cells of the token store, concatenated in this order."""
    tokens: int
    sequences: int
    """Sequences of sequence_length tokens that an epoch has."""
    weights: tuple[float, ...]
    """Share of the sequences in each phase, before rounding to the block."""
    counts: tuple[int, ...]
    """Sequences in each whole block of each phase; what the order uses."""
    exposures: tuple[float, ...]
    """Epochs under each of the mixture's budgets: what runs of that many tokens draw, whatever their seed."""


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """A mixture over the cells of one token store."""

    token_store: str
    """Fingerprint of the token store that it is for; with any other it is refused."""
    sequence_length: int
    block_sequences: int
    """Sequences in a block; the counts of each phase add up to this."""
    phase_starts: tuple[float, ...]
    """Fraction of the run at which each phase starts, to the sequence; the first is 0."""
    budgets_tokens: tuple[int, ...]
    """Token budgets that the cap on epochs was checked for."""
    max_epochs: float
    components: tuple[Component, ...]
    """In order of name, the tail last."""
    capped: tuple[str, ...]
    """Components whose weight was lowered to keep to max_epochs."""
    rounded_down: tuple[str, ...]
    """Components that one more sequence could take above max_epochs: they are never rounded up."""
    rounded_to_zero: tuple[str, ...]
    """Components with a weight too small for one sequence a block in some phase: they are not seen in it. So are those
    of so little weight that have not one whole sequence."""


def blocks_of(mixture: Mixture, num_sequences: int) -> RunBlocks:
    """Returns the blocks of a run of that many sequences.

    Raises:
        ConfigError: the run is so short that a phase would have no sequence.
    """
    counts = np.array([each.counts for each in mixture.components], dtype=np.int64)
    down = np.array([each.name in mixture.rounded_down for each in mixture.components])
    return run_blocks(counts, down, mixture.phase_starts, num_sequences)


def write_mixture(full_path: str, mixture: Mixture) -> None:
    """Writes the mixture as JSON."""
    write_json(full_path, {"format": FORMAT, **asdict(mixture)})


def read_mixture(path: str) -> Mixture:
    """Returns the mixture in the output directory `path` of a mix/weights step.

    Raises:
        StepFailed: there is none, it is of another format, or its counts do not add up to the block.
    """
    where = f"{path.rstrip('/')}/{MIXTURE_FILE}"
    try:
        body: dict[str, Any] = json.loads(read_bytes(where))
    except FileNotFoundError as error:
        raise StepFailed(f"{where}: not there; the output of a mix/weights step is needed") from error
    if (found := body.pop("format", None)) != FORMAT:
        raise StepFailed(f"{where}: format {found!r}; this code reads {FORMAT!r}. Run mix/weights again")
    body = {name: _frozen(value) for name, value in body.items()}
    body["components"] = tuple(
        Component(**{name: _frozen(value) for name, value in each.items()}) for each in body["components"]
    )
    mixture = Mixture(**body)
    for phase in range(len(mixture.phase_starts)):
        total = sum(each.counts[phase] for each in mixture.components)
        if total != mixture.block_sequences:
            raise StepFailed(
                f"{where}: phase {phase} has {total} sequences a block where {mixture.block_sequences} are due"
            )
    return mixture


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
