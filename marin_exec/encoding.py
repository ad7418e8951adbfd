"""The canonical encoding of config values: a typed tree of JSON lists, and its SHA-256.

Every value is `[tag, ...]`, so `1`, `1.0`, `True`, `"1"`, `[1]` and `(1,)` are six trees. Equal values have equal trees
in every process, Python and numpy version, time zone, locale and PYTHONHASHSEED: nothing here reads a repr, a pickle,
an `id()` or an iteration order. What has no encoding is refused, naming the field; nothing is ever left out.

This module imports on any Python from 3.11 on and without numpy; numpy values are known only where numpy is loaded.
docs/concepts.md has the rules for users; tests/golden/identity.json holds them fixed.
"""

import dataclasses
import datetime
import enum
import functools
import hashlib
import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

from marin_exec.coercion import coerce
from marin_exec.config_values import MAX_DEPTH, annotations_of, is_named_tuple, short, too_deep
from marin_exec.errors import ConfigError
from marin_exec.fields import added_default, is_runtime, marker, renamed_from
from marin_exec.step import references

Tree = list[Any]
Special = Callable[[Any, str], Tree | None]
"""Given a value and where it is: its tree if it is one of the caller's own (a step), else None."""

_ALLOWED = (
    "None, bool, int, float, complex, str, bytes, enum members, paths, dates and times, dtypes, numpy scalars and "
    "arrays, list, tuple, set, dict, and dataclasses of these"
)
_LONGEST_BYTES = 64  # longer ones stand in the tree by their digest: trees are kept in records
_DECIMAL_BITS = 1024  # Python refuses to print very long ints in decimal
_CANONICAL = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), sort_keys=True, allow_nan=False)


def canonical_bytes(tree: Any) -> bytes:
    """Returns the one JSON text of a tree: ASCII, no spaces, keys sorted."""
    return _CANONICAL.encode(tree).encode("ascii")


def digest_of_tree(tree: Any, domain: str) -> str:
    """Returns the SHA-256 (64 hex digits) of a tree; trees of different domains (record types) never share a digest."""
    return digest_of_bytes(canonical_bytes(tree), domain)


def digest_of_bytes(canonical: bytes, domain: str) -> str:
    """Returns the digest of a tree, given its canonical bytes."""
    return hashlib.sha256(domain.encode("utf-8") + b"\0" + canonical).hexdigest()


def digest_of_value(value: Any) -> str:
    """Returns the digest of any config value on its own, e.g. for keys of shards.

    Raises:
        ConfigError: the value, or something in it, has no canonical encoding.
    """
    return digest_of_tree(encode(coerce(value, Any, "value"), "value"), "marin-value/1")


def encode(value: Any, where: str, special: Special | None = None) -> Tree:
    """Returns the canonical tree of a value that `marin_exec.coercion` has been over.

    Args:
        value: the value; dataclass fields declared runtime are skipped.
        where: what to call the value in messages, e.g. "step dedup/fuzzy: config".
        special: encodes values of the caller's own; everything it declines must be encodable here.

    Raises:
        ConfigError: something in it has no canonical encoding; the message names the dotted path of the field.
    """
    try:
        return _encode(value, where, special, 0)
    except RecursionError:
        raise too_deep(where) from None


def _encode(value: Any, where: str, special: Special | None, depth: int) -> Tree:
    scalar = _SCALARS.get(type(value))
    if scalar is not None:
        return scalar(value, where)
    if depth > MAX_DEPTH:
        raise too_deep(where)
    if special is not None:
        tree = special(value, where)
        if tree is not None:
            return tree
    container = _CONTAINERS.get(type(value))
    if container is not None:
        return container(value, where, special, depth + 1)
    if isinstance(value, enum.Enum):
        name = "|".join(sorted(str(each.name) for each in value)) if isinstance(value, enum.Flag) else value.name
        return ["enum", _tag(type(value)), name, _encode(value.value, f"{where}.value", special, depth + 1)]
    if isinstance(value, pathlib.PurePath):
        return ["path", _text(value.as_posix(), where)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _dataclass(value, where, special, depth + 1)
    if is_named_tuple(value):
        items = zip(value._fields, value, strict=True)
        fields = [[name, _encode(each, f"{where}.{name}", special, depth + 1)] for name, each in items]
        return ["named_tuple", _tag(type(value)), fields]
    tree = _numpy_value(value, where)
    if tree is None:
        raise _refusal(value, where)
    return tree


def _refusal(value: Any, where: str) -> ConfigError:
    if isinstance(value, type):
        what = "a class"
    elif callable(value):
        what = "a callable"
    else:
        what = f"a {type(value).__module__}.{type(value).__qualname__}"
    return ConfigError(
        f"{where} is {what} ({short(value)}), which has no canonical encoding; allowed are {_ALLOWED}. "
        "Give plain values that say what is meant, or declare the field runtime if it cannot change the output"
    )


def _tag(cls: type) -> str:
    """The name a class has in digests: its own `__identity_tag__`, or its bare name. A subclass does not inherit it."""
    return vars(cls).get("__identity_tag__", cls.__name__)


def _text(value: str, where: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError(
            f"{where} is {ascii(value)[:100]}, which is not valid Unicode (a lone surrogate); "
            "give text that UTF-8 can hold, or bytes"
        ) from None
    return value


def _int(value: int) -> str:
    return str(value) if value.bit_length() <= _DECIMAL_BITS else hex(value)


def _bytes(value: bytes, where: str) -> Tree:
    if len(value) <= _LONGEST_BYTES:
        return ["bytes", value.hex()]
    return ["bytes", "sha256:" + hashlib.sha256(value).hexdigest(), str(len(value))]


def _zone(value: Any) -> str:
    """The offset from UTC in seconds; "" for naive times, which name no instant and are kept apart."""
    offset = value.utcoffset()
    return "" if offset is None else str(offset // datetime.timedelta(microseconds=1)) + "us"


def _datetime(value: datetime.datetime, where: str) -> Tree:
    """Wall time and offset, which together are the UTC instant and the offset. The zone's name does not count."""
    zone = _zone(value)
    fold = "" if zone or not value.fold else " fold"
    return ["datetime", value.replace(tzinfo=None, fold=0).isoformat(timespec="microseconds") + fold, zone]


def _time(value: datetime.time, where: str) -> Tree:
    fold = " fold" if value.fold else ""
    return ["time", value.replace(tzinfo=None, fold=0).isoformat(timespec="microseconds") + fold, _zone(value)]


_SCALARS: dict[type, Callable[[Any, str], Tree]] = {
    type(None): lambda value, where: ["none"],
    bool: lambda value, where: ["bool", "true" if value else "false"],
    int: lambda value, where: ["int", _int(value)],
    float: lambda value, where: ["float", value.hex()],  # exact; "nan", "inf", "-inf", "-0x0.0p+0" are distinct
    complex: lambda value, where: ["complex", value.real.hex(), value.imag.hex()],
    str: lambda value, where: ["str", _text(value, where)],
    bytes: _bytes,
    datetime.date: lambda value, where: ["date", value.isoformat()],
    datetime.datetime: _datetime,
    datetime.time: _time,
    datetime.timedelta: lambda value, where: ["timedelta", str(value // datetime.timedelta(microseconds=1)) + "us"],
}


def _sequence(value: Any, where: str, special: Special | None, depth: int) -> Tree:
    items = [_encode(each, f"{where}[{n}]", special, depth) for n, each in enumerate(value)]
    return ["list" if type(value) is list else "tuple", items]


def _set(value: Any, where: str, special: Special | None, depth: int) -> Tree:
    return ["set", sorted((_encode(each, where + "{}", special, depth) for each in value), key=canonical_bytes)]


def key_order(encoded_key: Tree) -> tuple[str, int, bytes]:
    """Sorts encoded dict keys: ints by value, everything else by canonical bytes."""
    number = int(encoded_key[1], 0) if encoded_key[0] == "int" else 0
    return encoded_key[0], number, canonical_bytes(encoded_key)


def _dict(value: dict[Any, Any], where: str, special: Special | None, depth: int) -> Tree:
    items = []
    for key, each in value.items():
        encoded_key = _encode(key, f"{where} key {short(key)}", None, depth)
        items.append([encoded_key, _encode(each, f"{where}[{short(key)}]", special, depth)])
    return ["dict", sorted(items, key=lambda item: key_order(item[0]))]


_CONTAINERS: dict[type, Callable[..., Tree]] = {
    list: _sequence,
    tuple: _sequence,
    set: _set,
    frozenset: _set,
    dict: _dict,
}


def _refuse_references(value: Any, where: str) -> None:
    """Raises ConfigError if a value that is to be skipped refers to a step, however deep."""
    held = next(references(value), None)
    if held is not None:
        raise ConfigError(
            f"{where} is declared runtime and holds {held.step!r}; what a step reads is identity, so the field must not "
            "be runtime"
        )


@functools.cache
def _fields(cls: type) -> tuple[tuple[str, str | None, Any], ...]:
    """Returns for each field of a dataclass its name, its name in digests (None: runtime), and its annotation if that
    is an `added_default`."""
    found = []
    for name, annotation in annotations_of(cls).items():
        renamed = marker(annotation, renamed_from)
        digested_name = None if is_runtime(annotation) else name if renamed is None else renamed.name
        found.append((name, digested_name, annotation if marker(annotation, added_default) is not None else None))
    return tuple(found)


def _dataclass(value: Any, where: str, special: Special | None, depth: int) -> Tree:
    fields: dict[str, Tree] = {}
    for name, digested_name, added in _fields(type(value)):
        if digested_name is None:
            _refuse_references(getattr(value, name), f"{where}.{name}")
            continue
        tree = _encode(getattr(value, name), f"{where}.{name}", special, depth)
        if added is not None and tree == _default_tree(added, f"{where}.{name}", special, depth):
            continue
        if digested_name in fields:
            raise ConfigError(
                f"{where}.{name}: two fields of {type(value).__name__} are digested as {digested_name!r}; "
                "a field may take over an old name only when no other field has it"
            )
        fields[digested_name] = tree
    return ["data", _tag(type(value)), [[name, fields[name]] for name in sorted(fields)]]


def _default_tree(annotation: Any, where: str, special: Special | None, depth: int) -> Tree:
    """Returns the tree of the value with which a field that was added later is as if it did not exist."""
    where = f"{where} (its added_default)"
    added = marker(annotation, added_default)
    assert added is not None
    return _encode(coerce(added.value, annotation, where), where, special, depth)


_BY_MACHINE = ("float96", "float128", "complex192", "complex256", "longdouble", "clongdouble")
_NO_ONE_DTYPE = {
    *("generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact", "floating", "complexfloating"),
    *("flexible", "character", "void"),
}


def _numpy_value(value: Any, where: str) -> Tree | None:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(value, numpy.dtype):
        return ["dtype", _dtype_name(value, where)]
    if isinstance(value, type):
        # np.float32 and jnp.bfloat16 are classes, and the usual way to write a dtype; np.floating is not one dtype
        concrete = issubclass(value, numpy.generic) and value.__name__ not in _NO_ONE_DTYPE
        dtype = numpy.dtype(value) if concrete else getattr(value, "dtype", None)
        return ["dtype", _dtype_name(dtype, where)] if isinstance(dtype, numpy.dtype) else None
    if isinstance(value, numpy.generic) or type(value) is numpy.ndarray:
        array = numpy.asarray(value)
        name = _dtype_name(array.dtype, where)
        if array.dtype.hasobject or name in _BY_MACHINE:
            return None  # pointers, and floats whose bytes differ by machine
        if array.dtype.str[0] == ">":
            array, name = array.astype(array.dtype.newbyteorder("<")), name.removesuffix(">")
        data = numpy.ascontiguousarray(array).tobytes()
        if isinstance(value, numpy.generic):
            return ["scalar", name, data.hex()]
        return ["array", name, [str(size) for size in array.shape], hashlib.sha256(data).hexdigest()]
    return None


def _dtype_name(dtype: Any, where: str) -> str:
    """A dtype by name, with ">" for big-endian ones; names of structured dtypes do not tell them apart."""
    if dtype.names is not None or dtype.subdtype is not None or dtype.name == "void" or dtype.name.startswith("void"):
        raise ConfigError(f"{where} has the structured dtype {short(dtype)}; a plain one such as float32 is needed")
    return dtype.name + (">" if dtype.str[0] == ">" else "")
