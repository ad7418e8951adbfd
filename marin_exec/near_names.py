"""What a person may have meant by a name that is not there."""

import difflib
from collections.abc import Iterable

from marin_exec.wording import some_of

MOST_NEAR = 5
MOST_LISTED = 10


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns a question with the names that look like it; if none does, some that there are; "" if there are none."""
    names = sorted(set(known))
    near = difflib.get_close_matches(name, names, n=MOST_NEAR, cutoff=0.6)
    if near:
        return f"did you mean {', '.join(near)}?"
    return f"there are {some_of(names, MOST_LISTED)}." if names else ""
