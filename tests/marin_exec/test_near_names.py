"""Names that are offered for one that is not there."""

import pytest

from marin_exec.near_names import did_you_mean

STEPS = [f"ladder/width-{width}" for width in range(64, 80)]


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("tokenz", ["tokens", "hero", "tokens"], "did you mean tokens?"),
        ("xyz", ["hero", "tokens"], "there are hero, tokens."),
        ("xyz", STEPS, f"there are {', '.join(STEPS[:10])} and 6 more."),
        ("xyz", [], ""),
    ],
)
def test_names_that_look_alike_are_offered_else_those_there_are(name, known, said):
    assert did_you_mean(name, known) == said
