import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_exec import ConfigError
from steps.mix.blocks import phase_lengths, run_blocks


@given(
    starts=st.lists(st.floats(0.05, 0.95), max_size=3, unique=True),
    run=st.integers(200, 5_000),
    size=st.integers(5, 300),
    seed=st.integers(0, 1_000),
)
@settings(max_examples=60)
def test_run_blocks_cover_the_run_once_and_hold_each_phase_s_shares(starts, run, size, seed):
    fractions = (0.0, *sorted(starts))
    try:
        lengths = phase_lengths(fractions, run)
    except ConfigError:  # two of the fractions fall on one sequence
        return
    random = np.random.default_rng(seed)
    counts = np.stack([random.multinomial(size, np.ones(5) / 5) for _ in fractions], axis=1)
    blocks = run_blocks(counts, np.zeros(5, dtype=bool), fractions, run)
    place, number, drawn = 0, 0, np.zeros(5, dtype=np.int64)
    ends = np.cumsum(lengths)
    while place < run:  # walk it block by block
        stretch = blocks.of_place(place)
        assert blocks.of_block(number) is stretch
        assert number == stretch.first_block + (place - stretch.start) // stretch.size
        assert stretch.counts.sum() == stretch.size
        assert np.array_equal(drawn, stretch.drawn_before + (number - stretch.first_block) * stretch.counts)
        phase = int(np.searchsorted(ends, place, side="right"))
        assert place + stretch.size <= ends[phase]  # no block reaches into another phase
        assert np.all(np.abs(stretch.counts - counts[:, phase] * stretch.size / size) < 1)
        place, number, drawn = place + stretch.size, number + 1, drawn + stretch.counts
    assert place == run and np.array_equal(drawn, blocks.draws)


def test_run_blocks_component_at_its_cap_is_not_rounded_up():
    counts = np.array([[5], [5]])
    down = np.array([True, False])
    assert run_blocks(counts, down, (0.0,), 13).draws.tolist() == [6, 7]
    assert run_blocks(counts, ~down, (0.0,), 13).draws.tolist() == [7, 6]


@pytest.mark.parametrize(("starts", "run"), [((0.0, 0.8), 2), ((0.0, 0.5, 0.51), 20)])
def test_phase_lengths_phase_without_a_sequence_is_refused(starts, run):
    with pytest.raises(ConfigError, match="a phase would have none"):
        phase_lengths(starts, run)
