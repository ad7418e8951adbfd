"""Where the blocks of a run lie and what each holds: the one account that drawing and counting both go by.

A phase begins at its fraction of the run, to the sequence, and is cut into whole blocks; what is left at its end is one
shorter block. The sequences of a shorter block are given out by largest remainder, so what a run draws of each component
depends on sizes alone, never on the seed.

Shapes: C components, P phases.
"""

from dataclasses import dataclass

import numpy as np

from marin_exec import ConfigError
from steps.mix.allocation import largest_remainder


@dataclass(frozen=True, eq=False)
class Stretch:
    """Consecutive blocks of one size and content."""

    first_block: int
    """Number of its first block in the run."""
    start: int
    """Place of its first sequence in the run."""
    size: int
    """Sequences in each block."""
    counts: np.ndarray
    """int64[C]: sequences of each component in each block; they add up to `size`."""
    drawn_before: np.ndarray
    """int64[C]: sequences that all blocks before it take."""


@dataclass(frozen=True, eq=False)
class RunBlocks:
    """All blocks of a run."""

    stretches: tuple[Stretch, ...]
    """In order; none is empty."""
    draws: np.ndarray
    """int64[C]: sequences that the whole run takes of each component."""

    def of_block(self, block: int) -> Stretch:
        """Returns the stretch that holds a block."""
        return next(each for each in reversed(self.stretches) if each.first_block <= block)

    def of_place(self, place: int) -> Stretch:
        """Returns the stretch that holds a sequence of the run."""
        return next(each for each in reversed(self.stretches) if each.start <= place)


def phase_lengths(phase_starts: tuple[float, ...], num_sequences: int) -> np.ndarray:
    """Returns the sequences of each phase, int64[P], which add up to the run's.

    Args:
        phase_starts: fractions of the run, the first 0, rising.
        num_sequences: sequences of the whole run.

    Raises:
        ConfigError: the run is so short that a phase would have no sequence.
    """
    lengths = np.diff([*(round(fraction * num_sequences) for fraction in phase_starts), num_sequences])
    if np.any(lengths < 1):
        raise ConfigError(
            f"phases start at {list(phase_starts)} of a run of {num_sequences} sequences: a phase would have none. Give "
            f"the run more steps, or the mixture fewer phases"
        )
    return lengths.astype(np.int64)


def run_blocks(
    counts: np.ndarray,
    rounded_down: np.ndarray,
    phase_starts: tuple[float, ...],
    num_sequences: int,
) -> RunBlocks:
    """Returns the blocks of a run.

    Args:
        counts: int64[C, P], sequences of each component in a whole block; columns have one sum, the block's size.
        rounded_down: bool[C], components at their cap on epochs, which a shorter block does not round up.
        phase_starts: fractions of the run.
        num_sequences: sequences of the whole run.

    Raises:
        ConfigError: a phase would have no sequence.
    """
    block_size = int(counts[:, 0].sum())
    stretches: list[Stretch] = []
    block, start, drawn = 0, 0, np.zeros(len(counts), dtype=np.int64)
    for phase, length in enumerate(phase_lengths(phase_starts, num_sequences).tolist()):
        whole, rest = divmod(length, block_size)
        column = counts[:, phase]
        remainder = largest_remainder(column / block_size, rest, ~rounded_down & (column > 0))
        for number, size, content in ((whole, block_size, column), (min(rest, 1), rest, remainder)):
            if number:
                stretches.append(Stretch(block, start, size, content, drawn))
                block, start, drawn = block + number, start + number * size, drawn + number * content
    return RunBlocks(tuple(stretches), drawn)
