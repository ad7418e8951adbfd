import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from steps.splitmix import GOLDEN_GAMMA, finalise


def reference(state):
    """SplitMix64's output function in plain integers."""
    mask = (1 << 64) - 1
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & mask
    return state ^ (state >> 31)


def test_finalise_gives_the_published_first_values_of_seed_zero():
    states = np.arange(1, 4, dtype=np.uint64) * GOLDEN_GAMMA
    assert [hex(each) for each in finalise(states).tolist()] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]


@given(values=st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_finalise_equals_plain_integers_and_leaves_its_input_alone(values):
    given_values = np.array(values, dtype=np.uint64)
    assert finalise(given_values).tolist() == [reference(each) for each in values]
    assert given_values.tolist() == values
