"""The typed result of a step as JSON, its measured fields apart."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from marin_exec.errors import StepFailed
from marin_exec.fields import field_annotations, is_measured


def split_result(result: Any) -> tuple[Any, dict[str, Any], str | None]:
    """Returns a result as plain JSON values, without and with only its measured fields, and the name of its class.

    Args:
        result: a dataclass, or plain JSON values; dataclasses, lists, tuples and dicts may be nested. A float that is
            not finite has no JSON form and becomes "NaN", "Infinity" or "-Infinity".

    Returns:
        The result without fields annotated `measured`; those fields by path, e.g. {"phases[0].seconds": 1.5}; the class
        name, or None for plain values.

    Raises:
        StepFailed: a value is neither; the message names the field.
    """
    measured: dict[str, Any] = {}
    type_name = type(result).__name__ if _is_dataclass(result) else None
    return _convert(result, "", measured), measured, type_name


def plain_result(result: Any) -> Any:
    """Returns a result as plain JSON values, measured fields included: what `map_shards` and `milestones` hand back.

    Raises:
        StepFailed: a value has no JSON form; the message names the field.
    """
    return _convert(result, "", None)


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _convert(value: Any, where: str, measured: dict[str, Any] | None) -> Any:
    """`measured` collects measured fields, which are then left out; None leaves them in."""
    if value is None or isinstance(value, bool):
        return value
    # The exact built-in types, so that enums of str or int and numpy's float64 become what they stand for.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _finite(float(value))
    if _is_dataclass(value):
        return _convert_fields(value, where, measured)
    if isinstance(value, (list, tuple)):
        return [_convert(each, f"{where}[{index}]", measured) for index, each in enumerate(value)]
    if isinstance(value, Mapping):
        return {_key(key, where): _convert(each, f"{where}[{key!r}]", measured) for key, each in value.items()}
    raise StepFailed(
        f"{_shown(where)}: got {value!r:.80} of type "
        f"{type(value).__module__}.{type(value).__qualname__}; a dataclass, list, dict, str, int, float, bool or "
        "None is needed. Convert it before returning, e.g. with int(), float() or .tolist()"
    )


def _convert_fields(value: Any, where: str, measured: dict[str, Any] | None) -> dict[str, Any]:
    annotations = field_annotations(type(value))
    converted = {}
    for field in dataclasses.fields(value):
        path = f"{where}.{field.name}" if where else field.name
        if measured is not None and is_measured(annotations[field.name]):
            measured[path] = _convert(getattr(value, field.name), path, None)
        else:
            converted[field.name] = _convert(getattr(value, field.name), path, measured)
    return converted


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise StepFailed(
            f"{_shown(where)}: a dict has the key {key!r} of type {type(key).__name__}; keys must be str. "
            "Convert it before returning"
        )
    return str.__str__(key)


def _finite(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _shown(where: str) -> str:
    return f"result{where}" if where[:1] in ("", "[") else f"result.{where}"
