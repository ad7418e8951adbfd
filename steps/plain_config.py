"""A config as plain values for what a step writes about itself: equal runs write equal bytes, old and new ones alike."""

import dataclasses
import types
import typing
from typing import Any

from marin_exec import added_default
from marin_exec.fields import field_annotations, marker


def plain_config(config: Any) -> dict[str, Any]:
    """Returns a config dataclass as a dict, without the fields that count for nothing: those at their `added_default`.

    A field that is added to a config later so does not change what runs without it have written, as it does not change
    their identity. Fields that are dataclasses themselves are made plain likewise.
    """
    plain = {}
    for name, annotation in field_annotations(type(config)).items():
        value = getattr(config, name)
        added = marker(annotation, added_default)
        if added is None or value != added.value:
            plain[name] = plain_config(value) if dataclasses.is_dataclass(value) else value
    return plain


def from_plain[C](cls: type[C], plain: dict[str, Any]) -> C:
    """Returns the config of class `cls` that `plain_config` was given; fields that are not there have their defaults."""
    hints = typing.get_type_hints(cls)
    return cls(**{name: _value(hints.get(name), value) for name, value in plain.items()})


def _value(hint: Any, value: Any) -> Any:
    options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    if isinstance(value, dict):
        nested = [each for each in options if dataclasses.is_dataclass(each)]
        return from_plain(nested[0], value) if nested else value  # type: ignore[arg-type]  # a class, not a value
    if isinstance(value, list) and any(typing.get_origin(each) is tuple for each in options):
        return tuple(value)  # JSON has lists only
    return value
