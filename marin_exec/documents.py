"""JSON codecs of the frozen dataclasses that the store keeps. Nothing here touches a filesystem.

A document (`Record`, `Head`; `Piece` and `Root` in the store package) carries the number of its format. Unknown keys
are ignored and missing ones take their default, so a field may be added without a new number; a newer number is
refused, because it means that a reader like this one would misunderstand the file.

A plan of 10,000 finished steps decodes 20,000 documents, so decoding is made for speed: what a field needs is worked
out once a class, a value of the exact type is taken as it is, and objects are filled without their `__init__`.
"""

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

from marin_exec.errors import StoreError

FORMAT = 1

_PLAIN = (str, int, bool, float, dict)


@dataclass(frozen=True, slots=True)
class _Field:
    """How a field is read from JSON."""

    name: str
    plain: tuple[type, ...]
    """The exact types whose values need no decoding."""
    decode: Callable[[Any], Any] | None
    """Checks any other value and converts it, or raises ValueError; None takes every value as it is."""
    default: Callable[[], Any] | None
    """Gives the value of a field that is not there; None if it must be."""


@functools.cache
def _fields(cls: type) -> tuple[_Field, ...]:
    assert not hasattr(cls, "__post_init__"), f"{cls}: decoding calls no __init__, so nothing would call __post_init__"
    hints = typing.get_type_hints(cls)
    return tuple(
        _Field(each.name, _plain(hints[each.name]), _decoder(hints[each.name]), _default(each))
        for each in dataclasses.fields(cls)
    )


def _default(field: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    return None if field.default is dataclasses.MISSING else lambda: field.default


def _plain(annotation: Any) -> tuple[type, ...]:
    members = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    return tuple(each for each in members if each in (*_PLAIN, types.NoneType))


def _decoder(annotation: Any) -> Callable[[Any], Any] | None:
    """Returns a function that checks a JSON value against a field's type and converts it; see `_Field.decode`."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any:
        return None
    if origin is types.UnionType:
        (inner,) = (each for each in arguments if each is not types.NoneType)
        return functools.partial(_optional, _decoder(inner))
    if origin is Literal:
        return functools.partial(_one_of, arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return functools.partial(_items, arguments[0], _decoder(arguments[0]))
    if origin is tuple:
        return functools.partial(_row, [_decoder(each) for each in arguments])
    if origin is dict:
        return functools.partial(_checked, dict)
    if dataclasses.is_dataclass(annotation):
        return functools.partial(_decode, annotation)
    return functools.partial(_checked, annotation)


def _optional(decode: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if value is None or decode is None else decode(value)


def _items(item: Any, decode: Callable[[Any], Any] | None, values: Any) -> tuple[Any, ...]:
    _checked(list, values)
    if decode is None or (item in _PLAIN and all(type(each) is item for each in values)):
        return tuple(values)
    return tuple([decode(each) for each in values])


def _row(decoders: list[Callable[[Any], Any] | None], values: Any) -> tuple[Any, ...]:
    _checked(list, values)
    return tuple(each if f is None else f(each) for f, each in zip(decoders, values, strict=True))


def _one_of(allowed: tuple[Any, ...], value: Any) -> Any:
    if value not in allowed:
        raise ValueError(f"got {value!r}; one of {allowed} is needed")
    return value


def _checked(wanted: type, value: Any) -> Any:
    if wanted is float and type(value) is int:
        return float(value)
    if type(value) is not wanted:  # bool is an int to isinstance
        raise ValueError(f"got {value!r:.80}; {wanted.__name__} is needed")
    return value


def _decode(cls: type, data: Any) -> Any:
    _checked(dict, data)
    new = object.__new__(cls)  # the __init__ of a frozen class takes longer than all that is done here
    values = new.__dict__
    for field in _fields(cls):
        name = field.name
        if name not in data:
            values[name] = _absent(cls, field, data)
            continue
        value = data[name]
        if field.decode is not None and type(value) not in field.plain:
            try:
                value = field.decode(value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        values[name] = value
    return new


def _absent(cls: type, field: _Field, data: dict[str, Any]) -> Any:
    if field.default is None:
        missing = sorted(each.name for each in _fields(cls) if each.default is None and each.name not in data)
        raise ValueError(f"keys are missing: {missing}")
    return field.default()


def _json_value(value: Any) -> Any:
    if isinstance(value, Part):
        return value.to_json()
    if type(value) is tuple:
        return [_json_value(each) for each in value]
    return value


class Part:
    """Base of the dataclasses that stand inside a document."""

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values; `from_json` gives back an equal object."""
        return {field.name: _json_value(getattr(self, field.name)) for field in _fields(type(self))}

    @classmethod
    def from_json(cls, data: Any, where: str = "(no path)") -> Self:
        """Returns the object that `to_json` described; unknown keys are ignored.

        Args:
            data: what a JSON parser returned.
            where: the file's path, for messages.

        Raises:
            StoreError: the data is damaged, or of a newer format.
        """
        found = data.get("format") if isinstance(data, dict) else None
        if type(found) is int and found > FORMAT:
            raise StoreError(
                f"{where}: written in format {found}; this version reads formats up to {FORMAT}. "
                "Upgrade marin-exec to read it"
            )
        try:
            return _decode(cls, data)
        except ValueError as error:
            raise StoreError(f"{where}: damaged {cls.__name__}: {error}") from None


class Document(Part):
    """Base of what is a file of its own."""

    def to_bytes(self) -> bytes:
        return json.dumps(self.to_json(), separators=(",", ":")).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Self:
        """Returns the object in a file's bytes.

        Raises:
            StoreError: the bytes are not JSON, or damaged, or of a newer format; the message names `where`.
        """
        try:
            value = json.loads(data.decode("utf-8"))
        except ValueError as error:  # UnicodeDecodeError is one too
            raise StoreError(f"{where}: damaged {cls.__name__}: not JSON ({error})") from None
        return cls.from_json(value, where)
