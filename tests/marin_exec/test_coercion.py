"""What each declared type takes, what it makes of it, and how a refusal reads."""

import collections.abc
import dataclasses
import datetime
import enum
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional, Protocol, TypeVar

import numpy as np
import pytest

from marin_exec.coercion import coerce
from marin_exec.encoding import encode
from marin_exec.errors import ConfigError
from marin_exec.fields import InputPath, runtime
from marin_exec.step import Step


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


class Level(enum.IntEnum):
    HIGH = 3


class Word(enum.StrEnum):
    LOW = "low"


class Pair(NamedTuple):
    low: float
    high: float


@dataclass(frozen=True)
class Sub:
    rate: float = 0.5


class Sized(Protocol):
    size: int


Seconds = NewType("Seconds", float)
type Names = tuple[str, ...]
T = TypeVar("T")

STEP = Step("some/step", lambda config, out: None)


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        (1, float, 1.0),
        (2**53, float, float(2**53)),
        (np.float64(0.5), float, 0.5),
        (np.int32(3), int, 3),
        (np.int32(3), float, 3.0),
        (np.bool_(True), bool, True),
        (np.str_("a"), str, "a"),
        (Level.HIGH, int, 3),
        (Word.LOW, str, "low"),
        (Word.LOW, Word, Word.LOW),
        (bytearray(b"a"), bytes, b"a"),
        ("a/b", Path, Path("a/b")),
        (PurePosixPath("a"), Path, PurePosixPath("a")),
        ([1, 2], tuple[int, ...], (1, 2)),
        ([1, "a"], tuple[int, str], (1, "a")),
        ((1, 2), list[float], [1.0, 2.0]),
        ([1], tuple, (1,)),
        ([1], collections.abc.Sequence[int], (1,)),
        ({1, 2}, frozenset[float], frozenset({1.0, 2.0})),
        (frozenset({"a"}), set[Path], {Path("a")}),
        ({"a": [1]}, dict[str, tuple[float, ...]], {"a": (1.0,)}),
        ({"a": 1}, collections.abc.Mapping[Path, float], {Path("a"): 1.0}),
        (1, float | None, 1.0),
        (None, float | None, None),
        (1, int | float, 1),
        (1, float | int, 1),
        ("a", Path | str, "a"),
        ([1], tuple[int, ...] | list[int], [1]),
        (None, Optional[Sub], None),  # noqa: UP045 - the old spelling is another class
        ("fast", Literal["fast", "slow"], "fast"),
        (1, Seconds, 1.0),
        (["a"], Names, ("a",)),
        (1, Annotated[float, runtime], 1.0),
        (Pair(1, 2), Pair, Pair(1.0, 2.0)),
        (Pair(1, 2), tuple[float, float], Pair(1.0, 2.0)),
        ("float32", np.dtype, np.dtype("float32")),
        (np.float32, np.dtype, np.dtype("float32")),
        (Path("a/b"), InputPath, "a/b"),
        ([Sub(rate=1)], Any, [Sub(rate=1.0)]),
        ({"a": (Sub(rate=1),)}, Any, {"a": (Sub(rate=1.0),)}),
        (1, T, 1),
        (1, object, 1),
        (Sub(), Sized, Sub()),
    ],
)
def test_value_is_brought_to_its_type(value, annotation, expected):
    found = coerce(value, annotation, "config.x")
    assert encode(found, "x") == encode(expected, "x")
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "annotation", "message"),
    [
        ("x", int, "config.x is 'x' (str); int is needed"),
        (True, int, "config.x is True (bool); int is needed"),
        (True, float, "config.x is True (bool); float is needed"),
        (3.0, int, "config.x is 3.0 (float); int is needed"),
        (1, bool, "config.x is 1 (int); bool is needed"),
        (2**53 + 1, float, "float is needed"),
        (10**400, float, "a number that a float holds exactly is needed"),
        (None, int, "config.x is None (NoneType); int is needed"),
        (1, None, "None is needed"),
        (Path("a"), str, "str is needed"),
        (b"a", str, "str is needed"),
        ("fast", Mode, "config.x is 'fast' (str); Mode.FAST or Mode.SLOW is needed"),
        ("medium", Literal["fast", "slow"], "'fast' or 'slow' is needed"),
        (True, Literal[1], "1 is needed"),
        ("ab", tuple[str, ...], "a tuple is needed"),
        ("ab", list[str], "a list is needed"),
        ({1}, list[int], "a list is needed"),
        ([1], set[int], "a set is needed"),
        ([1, 2, 3], tuple[int, int], "a tuple of 2 items is needed"),
        ([1, "a"], list[int], "config.x[1] is 'a' (str); int is needed"),
        ({"a": 1}, dict[int, int], "config.x key 'a' is 'a' (str); int is needed"),
        ({"a": "b"}, dict[str, int], "config.x['a'] is 'b' (str); int is needed"),
        ([("a", 1)], dict[str, int], "a dict is needed"),
        ("a", int | None, "config.x is 'a' (str); int or None is needed"),
        ([1, "a"], list[int] | None, "config.x[1] is 'a' (str); int is needed"),
        (datetime.datetime(2026, 1, 1), datetime.date, "date is needed"),
        (1, Sub, "Sub is needed"),
        (Sub(rate="a"), Sub | None, "config.x.rate is 'a' (str); float is needed"),
        (3, InputPath, "a step, step / 'sub/path', or a path is needed"),
        ("no such type", np.dtype, "a dtype is needed"),
    ],
)
def test_value_of_a_wrong_type_is_refused_with_path_value_and_need(value, annotation, message):
    with pytest.raises(ConfigError) as caught:
        coerce(value, annotation, "config.x")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "annotation", [int, str, float | None, tuple[int, ...], InputPath, Sub, Literal["a"], Any, Mode]
)
@pytest.mark.parametrize("reference", [STEP, STEP / "sub", STEP.milestone("checkpoints/step-1")])
def test_step_in_a_field_of_any_type_passes_through(annotation, reference):
    assert coerce(reference, annotation, "config.x") is reference


def test_step_inside_typed_containers_passes_through():
    assert coerce([{"a": (STEP, 1)}], list[dict[str, tuple[float, ...]]], "x") == [{"a": (STEP, 1.0)}]


def test_value_that_fits_is_the_same_object():
    value = {"a": [(1, 2.0), Sub()], "b": {"c": frozenset({1})}}
    assert coerce(value, dict[str, Any], "x") is value


def test_dataclass_with_coerced_fields_leaves_the_original_alone():
    @dataclass
    class Mutable:
        rates: tuple[float, ...] = ()
        derived: list[float] = field(init=False)

        def __post_init__(self) -> None:
            self.derived = [1]

    original = Mutable(rates=[1])  # type: ignore[arg-type]
    found = coerce(original, Mutable, "config")
    assert (found.rates, found.derived) == ((1.0,), [1.0])
    assert (original.rates, original.derived) == ([1], [1])
    assert type(found.derived[0]) is float


def test_frozen_slotted_dataclass_is_coerced():
    @dataclass(frozen=True, slots=True)
    class Slotted:
        rate: float

    assert repr(coerce(Slotted(1), Slotted, "x").rate) == "1.0"


def test_annotation_that_does_not_resolve_is_named():
    broken = dataclasses.make_dataclass("Broken", [("x", "NoSuchName", 1)])
    with pytest.raises(ConfigError, match=r"Broken: its annotations do not resolve .*NoSuchName"):
        coerce(broken(), Any, "config")


def test_field_that_was_never_set_is_named():
    @dataclass
    class Late:
        x: int = field(init=False)

    with pytest.raises(ConfigError, match=r"config\.x was never set"):
        coerce(Late(), Any, "config")


def test_cycle_in_untyped_value_is_refused():
    loop: dict[str, Any] = {}
    loop["self"] = loop
    with pytest.raises(ConfigError, match="refers to itself"):
        coerce(loop, Any, "config.loop")


def test_cycle_through_optional_dataclasses_is_refused():
    @dataclass
    class Node:
        child: Any = None
        name: str = "n"

    node = Node()
    node.child = [node]
    with pytest.raises(ConfigError, match="refers to itself"):
        coerce(node, Node | None, "config.node")
