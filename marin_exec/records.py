"""What the store keeps about a step, as frozen dataclasses with JSON codecs. Nothing here touches a filesystem.

A document (`Head`, `Record`; `Piece` and `Root` in the store package) carries the number of its format. Unknown keys
are ignored and missing ones take their default, so a field may be added without a new number; a newer number is
refused, because it means that a reader like this one would misunderstand the file.
"""

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from marin_exec.errors import StoreError

FORMAT = 1


def _json_value(value: Any) -> Any:
    if isinstance(value, Part):
        return value.to_json()
    if type(value) is tuple:
        return [_json_value(each) for each in value]
    return value


@functools.cache
def _field_names(cls: type) -> tuple[str, ...]:
    return tuple(each.name for each in dataclasses.fields(cls))


@functools.cache
def _decoders(cls: type) -> tuple[tuple[str, type | None, Callable[[Any], Any]], ...]:
    """Returns for each field its name, the exact type that needs no decoding, if there is one, and the decoder."""
    hints = typing.get_type_hints(cls)
    plain = (str, int, bool, float, dict)
    return tuple(
        (each.name, hints[each.name] if hints[each.name] in plain else None, _decoder(hints[each.name]))
        for each in dataclasses.fields(cls)
    )


@functools.cache
def _required(cls: type) -> frozenset[str]:
    missing = dataclasses.MISSING
    return frozenset(
        each.name for each in dataclasses.fields(cls) if each.default is missing and each.default_factory is missing
    )


def _decoder(annotation: Any) -> Callable[[Any], Any]:
    """Returns a function that checks a JSON value against a field's type and converts it; it raises ValueError."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any:
        return lambda value: value
    if origin is types.UnionType:
        (inner,) = (_decoder(each) for each in arguments if each is not types.NoneType)
        return lambda value: None if value is None else inner(value)
    if origin is Literal:
        return functools.partial(_one_of, arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        each_decoder = _decoder(arguments[0])
        return lambda value: tuple(each_decoder(each) for each in _checked(list, value))
    if origin is tuple:
        decoders = [_decoder(each) for each in arguments]
        return lambda value: tuple(f(each) for f, each in zip(decoders, _checked(list, value), strict=True))
    if origin is dict:
        return functools.partial(_checked, dict)
    if dataclasses.is_dataclass(annotation):
        return functools.partial(_decode, annotation)
    return functools.partial(_checked, annotation)


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
    missing = _required(cls) - data.keys()
    if missing:
        raise ValueError(f"keys are missing: {sorted(missing)}")
    values = {}
    for name, plain, decode in _decoders(cls):  # plans read thousands of records, so most fields take the short way
        if name in data:
            value = data[name]
            if type(value) is not plain:
                try:
                    value = decode(value)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None
            values[name] = value
    return cls(**values)


class Part:
    """Base of the dataclasses that stand inside a document."""

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values; `from_json` gives back an equal object."""
        return {name: _json_value(getattr(self, name)) for name in _field_names(type(self))}

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
            value = json.loads(data)
        except ValueError as error:  # UnicodeDecodeError is one too
            raise StoreError(f"{where}: damaged {cls.__name__}: not JSON ({error})") from None
        return cls.from_json(value, where)


@dataclass(frozen=True)
class FileEntry(Part):
    """One file of an output."""

    path: str
    """Relative to the attempt's directory, with "/"."""
    size_bytes: int
    checksum: str
    """The algorithm and the digest, e.g. "xxh3-128:99aa06d3014798d86001c324468d497f"."""


@dataclass(frozen=True, kw_only=True)
class DependencyRecord(Part):
    """What a step was given of another one, as bound when its lease was taken."""

    name: str
    kind: str
    digest: str
    """The other step's whole digest."""
    sub_paths: tuple[str, ...] = ()
    """The parts of its output that the config refers to; () means the whole output."""
    milestone: str | None = None
    path: str
    """The directory that was read, relative to the store's prefix."""
    output_digest: str
    run_id: str


@dataclass(frozen=True, kw_only=True)
class Record(Document):
    """The facts of one attempt that was committed. Never rewritten."""

    format: int = FORMAT
    digest: str
    name: str
    """The step's display name when it ran."""
    kind: str
    kind_version: int | None
    identity: Any
    """The JSON tree that the digest stands for."""
    attempt: int
    chain: int
    """The first of the attempts whose pieces this one took up; the attempt itself if it took up none."""
    run_id: str
    output_path: str
    """Relative to the store's prefix."""
    files: tuple[FileEntry, ...]
    output_digest: str
    result: Any = None
    """The typed result as JSON, without its measured fields."""
    result_type: str | None = None
    measured: dict[str, Any] = field(default_factory=dict)
    """The result's measured fields by their path in it, e.g. {"phases[0].seconds": 1.5}."""
    dependencies: tuple[DependencyRecord, ...] = ()
    after: tuple[DependencyRecord, ...] = ()
    """What the attempt waited for, as bound when it began."""
    first_after: tuple[DependencyRecord, ...] = ()
    """The same, as bound by the first attempt of the chain."""
    see: tuple[tuple[str, str], ...] = ()
    """Name and digest of related steps."""
    started: str
    """UTC, ISO 8601; so is `finished`."""
    finished: str
    seconds: float
    resources: Any = None
    source: Any = None
    """{"digest": ..., "functions": ...}: the code that ran."""
    provenance: Any = None
    pieces: Any = None
    """How many shards and milestones were made and how many taken up."""
    milestones: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Head(Document):
    """The one mutable object of a step: who holds it, and which attempt is its result."""

    format: int = FORMAT
    state: Literal["held", "done", "free"]
    attempt: int
    """The last attempt number ever given."""
    chain: int
    """The chain of that attempt."""
    holder: str = ""
    """Random token of whoever holds the lease, or held it last. Containers share hosts and pids, so those don't do."""
    beat: int = 0
    """Raised by each renewal."""
    current: int | None = None
    """The attempt whose record is the step's result; kept while a forced rerun is held."""
    previous_holder: str = ""
    """The holder in the head that the claim replaced, and its state: so that one who ended its lease and was overtaken
    before it got the answer learns that it did end it, and one who was taken over learns that."""
    previous_state: str = ""
    note: str = ""
    """Why the step was set free, e.g. "cancelled"."""
    host: str = ""
    """For display only, like `pid`."""
    pid: int = 0
