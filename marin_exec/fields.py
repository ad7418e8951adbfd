"""Declarations that stand on the fields of a config or result dataclass.

Every config field counts towards a step's identity unless its annotation says otherwise, on the class, where it is seen:

    @dataclass(frozen=True, kw_only=True)
    class FuzzyConfig:
        documents: InputPath
        bands: int = 26
        num_workers: Annotated[int, runtime] = 2            # never in the digest
        seed: Annotated[int, added_default(0)] = 0          # not in the digest while it is 0: old digests stay
        rows: Annotated[int, renamed_from("num_rows")] = 11 # digested under its old name
"""

import dataclasses
import typing
from dataclasses import dataclass
from typing import Annotated, Any


@dataclass(frozen=True)
class _Runtime:
    """Marks a config field that cannot change what a step writes (worker counts, batch sizes, log paths)."""


@dataclass(frozen=True)
class _Measured:
    """Marks a result field that differs between equal runs (seconds, bytes of memory): kept, but not in the output digest."""


runtime = _Runtime()
measured = _Measured()


@dataclass(frozen=True)
class added_default:
    """A field added after steps of its kind had run: while it has this value, the digest is as if it did not exist."""

    value: Any


@dataclass(frozen=True)
class renamed_from:
    """The field's name when steps of its kind first ran; the digest keeps using it."""

    name: str


@dataclass(frozen=True)
class _Dependency:
    """Marks a field meant to hold a step, `step / "sub/path"`, a milestone, or a literal path."""


# At run time the step function receives a plain path string here; an experiment writes a Step.
InputPath = Annotated[Any, _Dependency()]


def field_annotations(cls: type) -> dict[str, Any]:
    """Returns each dataclass field's resolved annotation, `Annotated` kept, by field name."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def marker(annotation: Any, kind_of_marker: type) -> Any | None:
    """Returns the first marker of that class in an `Annotated` annotation, or None."""
    for value in getattr(annotation, "__metadata__", ()):
        if isinstance(value, kind_of_marker):
            return value
    return None


def is_runtime(annotation: Any) -> bool:
    return marker(annotation, _Runtime) is not None


def is_measured(annotation: Any) -> bool:
    return marker(annotation, _Measured) is not None


def is_input_path(annotation: Any) -> bool:
    return marker(annotation, _Dependency) is not None
