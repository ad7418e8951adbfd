"""Checks of what is chosen, when it is chosen."""

from typing import Any


def check_at_least(chosen: Any, low: float, *fields: str) -> None:
    """Checks numeric fields of a dataclass; a field that is None is not checked.

    Raises:
        ValueError: a value is below `low`, or no number; the message names class, field and value.
    """
    for field in fields:
        value = getattr(chosen, field)
        if value is not None and not value >= low:
            raise ValueError(f"{type(chosen).__name__}.{field}: {value!r}; at least {low:g} is needed")
