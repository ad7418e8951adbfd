"""How several things are named in one line of a message."""

from collections.abc import Sequence


def some_of(names: Sequence[str], most: int) -> str:
    """Returns the first names, separated by commas, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
