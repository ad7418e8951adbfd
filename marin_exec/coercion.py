"""Brings config values to the types their fields declare, so that equal meanings have equal digests.

Only changes that lose nothing are made (`1` for a float field, a list for a tuple field, `"a"` for a `Path` field, a
numpy scalar for a Python one). Anything else is a `ConfigError` that names the field. Steps pass through in any field.

A value that needs no change comes back as the same object: unions rely on it, and nothing is copied for nothing.
"""

import collections.abc
import dataclasses
import datetime
import enum
import pathlib
import sys
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union

from marin_exec.config_values import MAX_DEPTH, annotations_of, is_named_tuple, rebuilt, short, too_deep
from marin_exec.errors import ConfigError
from marin_exec.fields import is_input_path
from marin_exec.step import Step, StepPath

_SEQUENCES = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_UNTYPED = (Any, object, None, typing.Self)


class _Mismatch(Exception):
    """A value that a type does not take; a union tries its next member."""

    def __init__(self, where: str, value: Any, needed: str):
        super().__init__(where)
        self.where, self.value, self.needed = where, value, needed


def coerce(value: Any, annotation: Any, where: str) -> Any:
    """Returns the value as its annotation has it, nested values and nested dataclasses included.

    Args:
        value: any config value; steps and step paths pass through wherever they stand.
        annotation: a resolved annotation, `Annotated` kept.
        where: what to call the value in messages, e.g. "step dedup/fuzzy: config.bands".

    Raises:
        ConfigError: the value is not of the type and cannot be brought to it without loss.
    """
    try:
        return _coerce(value, annotation, where, 0)
    except _Mismatch as error:
        raise ConfigError(
            f"{error.where} is {short(error.value)} ({type(error.value).__name__}); {error.needed} is needed"
        ) from None
    except RecursionError:
        raise too_deep(where) from None


def _coerce(value: Any, annotation: Any, where: str, depth: int) -> Any:
    if type(value) is annotation and annotation in _SCALARS:
        return value
    if depth > MAX_DEPTH:
        raise too_deep(where)
    if isinstance(value, (Step, StepPath)):
        return value
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        if is_input_path(annotation):
            return _input_path(value, where)
        return _coerce(value, annotation.__origin__, where, depth)
    if annotation in _UNTYPED or isinstance(annotation, (typing.TypeVar, str)):
        if annotation is None and value is not None:
            raise _Mismatch(where, value, "None")
        return _untyped(value, where, depth)
    if origin in (Union, types.UnionType):
        return _union(value, annotation, where, depth)
    if origin is Literal:
        if not any(type(each) is type(value) and each == value for each in annotation.__args__):
            raise _Mismatch(where, value, " or ".join(short(each) for each in annotation.__args__))
        return value
    if isinstance(annotation, typing.NewType):
        return _coerce(value, annotation.__supertype__, where, depth)
    if hasattr(annotation, "__value__"):  # `type Name = ...`, spelled so that Python 3.11 can import this module
        return _coerce(value, annotation.__value__, where, depth)
    if origin is typing.Final:
        return _coerce(value, annotation.__args__[0], where, depth)
    return _by_class(value, origin or annotation, typing.get_args(annotation), where, depth)


def _by_class(value: Any, cls: Any, args: tuple[Any, ...], where: str, depth: int) -> Any:
    if cls in _SCALARS:
        return _SCALARS[cls](value, cls, where)
    if not isinstance(cls, type):
        return _untyped(value, where, depth)
    if cls is tuple:
        return _tuple(value, args, where, depth)
    if cls in _SEQUENCES:
        return _sequence(value, cls, args[0] if args else Any, where, depth)
    if cls in (dict, collections.abc.Mapping, collections.abc.MutableMapping):
        return _mapping(value, args or (Any, Any), where, depth)
    if cls in (set, frozenset, collections.abc.Set):
        return _set(value, cls, args[0] if args else Any, where, depth)
    if issubclass(cls, pathlib.PurePath):
        if isinstance(value, pathlib.PurePath):
            return value
        if type(value) is str:
            return pathlib.Path(value)
        raise _Mismatch(where, value, "a path")
    numpy = sys.modules.get("numpy")
    if numpy is not None and cls is numpy.dtype and (isinstance(value, (str, type)) or hasattr(value, "dtype")):
        try:
            return numpy.dtype(value)
        except TypeError:
            raise _Mismatch(where, value, "a dtype") from None
    try:
        fits = isinstance(value, cls)
    except TypeError:  # a protocol that cannot be checked at run time says nothing about the value
        fits = True
    if not fits:
        members = [str(each) for each in cls] if issubclass(cls, enum.Enum) else [cls.__name__]
        raise _Mismatch(where, value, " or ".join(members))
    return _untyped(value, where, depth)


def _input_path(value: Any, where: str) -> str:
    if isinstance(value, pathlib.PurePath):
        return value.as_posix()
    if type(value) is not str:
        raise _Mismatch(where, value, "a step, step / 'sub/path', or a path")
    return value


def _number(value: Any, cls: type, where: str) -> Any:
    """Takes what equals the value in the wanted type; bool never stands for a number, nor a float for an int."""
    if type(value) is cls:
        return value
    if isinstance(value, enum.Enum) and isinstance(value, cls):
        return value.value
    numpy = sys.modules.get("numpy")
    plain = value.item() if numpy is not None and isinstance(value, numpy.generic) else value
    if type(plain) is int and cls is float:
        try:
            plain = float(plain) if int(float(plain)) == plain else plain
        except OverflowError:
            raise _Mismatch(where, value, "a number that a float holds exactly") from None
    if type(plain) is not cls:
        raise _Mismatch(where, value, cls.__name__)
    return plain


def _exactly(value: Any, cls: type, where: str) -> Any:
    if type(value) is not cls:
        raise _Mismatch(where, value, "None" if cls is type(None) else cls.__name__)
    return value


def _bytes(value: Any, cls: type, where: str) -> bytes:
    return bytes(value) if type(value) is bytearray else _number(value, cls, where)


_SCALARS: dict[Any, Any] = {
    **dict.fromkeys((bool, int, float, complex, str), _number),
    **dict.fromkeys((datetime.datetime, datetime.date, datetime.time, datetime.timedelta, type(None)), _exactly),
    bytes: _bytes,
}


def _items(values: Any, types_of: Any, where: str, depth: int) -> tuple[list[Any], bool]:
    """Coerces items one by one; also says whether any of them changed."""
    items = [
        _coerce(each, annotation, f"{where}[{n}]", depth + 1)
        for n, (each, annotation) in enumerate(zip(values, types_of, strict=True))
    ]
    return items, any(a is not b for a, b in zip(items, values, strict=True))


def _tuple(value: Any, args: tuple[Any, ...], where: str, depth: int) -> Any:
    if not isinstance(value, (list, tuple)):
        raise _Mismatch(where, value, "a tuple")
    if len(args) == 2 and args[1] is Ellipsis:
        args = args[:1] * len(value)
    elif not args:
        args = (Any,) * len(value)
    elif len(args) != len(value):
        raise _Mismatch(where, value, f"a tuple of {len(args)} items")
    items, changed = _items(value, args, where, depth)
    if is_named_tuple(value):
        return type(value)(*items) if changed else value
    return value if type(value) is tuple and not changed else tuple(items)


def _sequence(value: Any, cls: type, item: Any, where: str, depth: int) -> Any:
    """Lists for list fields; tuples for abstract ones, so that a list and a tuple written there are one value."""
    if not isinstance(value, (list, tuple)):
        raise _Mismatch(where, value, "a list")
    target = list if cls is list else tuple
    items, changed = _items(value, (item,) * len(value), where, depth)
    return value if type(value) is target and not changed else target(items)


def _mapping(value: Any, args: tuple[Any, ...], where: str, depth: int) -> Any:
    if not isinstance(value, Mapping):
        raise _Mismatch(where, value, "a dict")
    new, changed = {}, type(value) is not dict
    for key, each in value.items():
        new_key = _coerce(key, args[0], f"{where} key {short(key)}", depth + 1)
        new[new_key] = _coerce(each, args[1], f"{where}[{short(key)}]", depth + 1)
        changed |= new_key is not key or new[new_key] is not each
    return new if changed else value


def _set(value: Any, cls: type, item: Any, where: str, depth: int) -> Any:
    if not isinstance(value, (set, frozenset)):
        raise _Mismatch(where, value, "a set")
    target = set if cls is set else frozenset
    items = [_coerce(each, item, f"{where}{{{short(each)}}}", depth + 1) for each in value]
    return value if type(value) is target and all(map(lambda a, b: a is b, items, value)) else target(items)


def _union(value: Any, annotation: Any, where: str, depth: int) -> Any:
    """The first member that takes the value as it is, else the first that takes it after a change."""
    results, refusals = [], []
    for member in annotation.__args__:
        try:
            result = _coerce(value, member, where, depth)
        except _Mismatch as refusal:
            refusals.append(refusal)
            continue
        if result is value:
            return value
        results.append(result)
    if results:
        return results[0]
    deepest = max(refusals, key=lambda refusal: len(refusal.where))
    if deepest.where != where:  # one member took the value's outer form: what is wrong inside is the better message
        raise deepest
    raise _Mismatch(where, value, " or ".join(dict.fromkeys(refusal.needed for refusal in refusals)))


def _untyped(value: Any, where: str, depth: int) -> Any:
    """Where no type is declared, containers are kept; dataclasses in them still have types of their own."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _dataclass(value, where, depth)
    if is_named_tuple(value):
        hints = typing.get_type_hints(type(value), include_extras=True)
        items = {
            name: _coerce(getattr(value, name), hints.get(name, Any), f"{where}.{name}", depth + 1)
            for name in value._fields
        }
        return value if all(items[name] is getattr(value, name) for name in items) else value._replace(**items)
    if type(value) is list:
        return _sequence(value, list, Any, where, depth)
    if type(value) is tuple:
        return _tuple(value, (), where, depth)
    if type(value) is dict:
        return _mapping(value, (Any, Any), where, depth)
    return value


def _dataclass(value: Any, where: str, depth: int) -> Any:
    changed = {}
    for name, annotation in annotations_of(type(value)).items():
        old = getattr(value, name, _MISSING)
        if old is _MISSING:
            raise ConfigError(f"{where}.{name} was never set; give the field a value in __post_init__ or a default")
        new = _coerce(old, annotation, f"{where}.{name}", depth + 1)
        if new is not old:
            changed[name] = new
    try:
        return rebuilt(value, changed)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{where}: {type(value).__name__} cannot be made again with other {', '.join(changed)}: {error}"
        ) from error


_MISSING = object()
