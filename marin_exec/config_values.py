"""What coercion, encoding and resolving all need to know of config values: their fields, their limits, how to show them."""

import dataclasses
import functools
import reprlib
from collections.abc import Mapping
from typing import Any

from marin_exec.errors import ConfigError
from marin_exec.fields import field_annotations

MAX_DEPTH = 200
"""Deeper configs are refused: they are cycles, or data that belongs in a file."""

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def short(value: Any) -> str:
    """Returns a value's repr, cut to a length that suits a message."""
    return _SHORT.repr(value)


def too_deep(where: str) -> ConfigError:
    return ConfigError(
        f"{where[:200]}... is nested deeper than {MAX_DEPTH} levels, or refers to itself; "
        "keep the config flat, or put the data in a file and give its path"
    )


@functools.cache
def annotations_of(cls: type) -> dict[str, Any]:
    """Returns the resolved annotations of a dataclass's fields, worked out once a class.

    Raises:
        ConfigError: an annotation names something that is not there at run time.
    """
    try:
        return field_annotations(cls)
    except (NameError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"config class {cls.__module__}.{cls.__qualname__}: its annotations do not resolve ({error}); "
            "import what they name at run time, at the top of the module"
        ) from error


def is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def rebuilt(value: Any, changed: Mapping[str, Any]) -> Any:
    """Returns a dataclass instance with some fields changed: `dataclasses.replace`, and `init=False` fields too."""
    if not changed:
        return value
    init = {field.name for field in dataclasses.fields(value) if field.init}
    new = dataclasses.replace(value, **{name: each for name, each in changed.items() if name in init})
    for name in changed.keys() - init:
        object.__setattr__(new, name, changed[name])
    return new
