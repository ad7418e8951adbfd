"""Checks of config values when a config is made, so that a wrong value is refused before anything runs.

Each names class and field, the value got, and what is allowed. A value of another type is left to the engine, which
checks types when it works out the step's identity and says where the value stands.
"""

from collections.abc import Iterable
from typing import Any

from marin_exec import ConfigError


def check_number(
    config: Any,
    *fields: str,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> None:
    """Checks numeric fields against bounds; a field that is None is not checked.

    Args:
        config: a config dataclass.
        fields: names of its fields.
        low: smallest value allowed.
        high: largest value allowed.
        above: values must be larger than this.
        below: values must be smaller than this.

    Raises:
        ConfigError: a value is outside.
    """
    for field in fields:
        value = getattr(config, field)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        inside = (
            (low is None or value >= low)
            and (high is None or value <= high)
            and (above is None or value > above)
            and (below is None or value < below)
            and value == value  # not a NaN
        )
        if not inside:
            bounds = (("at least", low), ("at most", high), ("above", above), ("below", below))
            allowed = " and ".join(f"{word} {bound:,}" for word, bound in bounds if bound is not None)
            raise ConfigError(f"{type(config).__name__}.{field}: {value!r}; a value {allowed} is needed")


def check_choice(config: Any, field: str, allowed: tuple[str, ...]) -> None:
    """Checks a text field against the values it may have.

    Raises:
        ConfigError: it has another.
    """
    value = getattr(config, field)
    if isinstance(value, str) and value not in allowed:
        raise ConfigError(
            f"{type(config).__name__}.{field}: {value!r}; one of {', '.join(map(repr, allowed))} is needed"
        )


def source_names(sources: Iterable[Any]) -> list[str]:
    """Returns the names of those values that have one: of every `NamedInput`."""
    return [source.name for source in sources if isinstance(getattr(source, "name", None), str)]


def check_sources(config: Any, field: str) -> None:
    """Checks a tuple of `NamedInput`: at least one, each with a name of its own that can be a folder's in an output.

    Raises:
        ConfigError: there is none, a name occurs twice, or one has an empty part, "." or ".." in it.
    """
    value, where = getattr(config, field), f"{type(config).__name__}.{field}"
    if not isinstance(value, (tuple, list)):
        return
    names = source_names(value)
    if not value:
        raise ConfigError(f"{where} is empty; at least one NamedInput is needed")
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"{where} holds {repeated} more than once; each source needs a name of its own")
    if wrong := [name for name in names if not {"", ".", ".."}.isdisjoint(name.split("/"))]:
        raise ConfigError(
            f"{where} holds a source named {wrong[0]!r}; names are folders in outputs: neither empty, nor with an empty, '.' "
            f"or '..' part"
        )
