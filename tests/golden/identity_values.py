"""The values behind tests/golden/identity.json: name -> a function of no argument that builds the value anew.

Run as a program it prints {name: digest}; numpy values only where numpy is there. `--add` writes digests of new names
into the table and refuses to touch old ones: a digest that changes orphans every store there is.
"""

import datetime
import enum
import importlib.util
import json
import pathlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from marin_exec.encoding import digest_of_value
from marin_exec.fields import InputPath, added_default, renamed_from, runtime
from marin_exec.identity import identify
from marin_exec.kinds import kind
from marin_exec.step import Step, topological

TABLE = pathlib.Path(__file__).with_name("identity.json")


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Shade(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    LOW = "low"


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Point(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float = 0.1
    names: tuple[str, ...] = ("a", "b")


@dataclass(frozen=True, kw_only=True)
class Twin:
    rate: float = 0.1
    names: tuple[str, ...] = ("a", "b")


@dataclass(frozen=True, kw_only=True)
class Tagged:
    __identity_tag__ = "tagged/1"
    rate: float = 0.1


@dataclass
class Mutable:
    xs: list[int] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Outer:
    inner: Inner = Inner()
    colour: Colour = Colour.RED
    weights: dict[str, float] = field(default_factory=dict)
    path: pathlib.Path | None = None
    workers: Annotated[int, runtime] = 2
    seed: Annotated[int, added_default(0)] = 0
    rows: Annotated[int, renamed_from("num_rows")] = 11


def _nested(depth: int, innermost: Any) -> Any:
    for _ in range(depth):
        innermost = [innermost]
    return innermost


_HOUR = datetime.timedelta(hours=1)

VALUES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "bool/true": lambda: True,
    "bool/false": lambda: False,
    "int/0": lambda: 0,
    "int/1": lambda: 1,
    "int/-1": lambda: -1,
    "int/2**64": lambda: 2**64,
    "int/10**5000": lambda: 10**5000,
    "float/0": lambda: 0.0,
    "float/-0": lambda: -0.0,
    "float/1": lambda: 1.0,
    "float/0.1": lambda: 0.1,
    "float/0.1+0.2": lambda: 0.1 + 0.2,
    "float/0.3": lambda: 0.3,
    "float/smallest": lambda: 5e-324,
    "float/1e308": lambda: 1e308,
    "float/nan": lambda: float("nan"),
    "float/inf": lambda: float("inf"),
    "float/-inf": lambda: float("-inf"),
    "complex/1+2j": lambda: 1 + 2j,
    "str/empty": lambda: "",
    "str/1": lambda: "1",
    "str/True": lambda: "True",
    "str/None": lambda: "None",
    "str/bert": lambda: "".join(["b", "ert"]),
    "str/accent composed": lambda: "\u00e9",
    "str/accent decomposed": lambda: "e\u0301",
    "str/beyond the BMP": lambda: "\U0001f600",
    "str/control characters": lambda: "a\0b\n\x7f",
    "bytes/empty": lambda: b"",
    "bytes/1": lambda: b"1",
    "bytes/long": lambda: bytes(range(256)) * 4,
    "list/empty": list,
    "list/1": lambda: [1],
    "list/float": lambda: [1.0],
    "list/nested": lambda: [[1], [2, [3]]],
    "list/split otherwise": lambda: [[1, 2], [[3]]],
    "list/50 deep a": lambda: _nested(50, "a"),
    "list/50 deep b": lambda: _nested(50, "b"),
    "tuple/empty": lambda: (),
    "tuple/1": lambda: (1,),
    "named_tuple": lambda: Point(1, 2),
    "tuple/as the named one": lambda: (1, 2),
    "set/empty": set,
    "set/strings": lambda: {"alpha", "beta", "gamma", "delta"},
    "set/mixed": lambda: frozenset({1, "1", 2.5, None, (1, "a"), b"x"}),
    "set/of sets": lambda: {frozenset({"a", "b"}), frozenset({"c"})},
    "dict/empty": dict,
    "dict/int key": lambda: {1: "a"},
    "dict/str key": lambda: {"1": "a"},
    "dict/bool key": lambda: {True: "a"},
    "dict/enum key": lambda: {Colour.RED: "a"},
    "dict/many": lambda: {"b": 1, "a": {"y": [1], "x": ()}, "c": None},
    "list/of pairs as the dict": lambda: [("1", "a")],
    "enum/colour red": lambda: Colour.RED,
    "enum/colour green": lambda: Colour.GREEN,
    "enum/shade red": lambda: Shade.RED,
    "str/red": lambda: "red",
    "enum/int 1": lambda: Level.LOW,
    "enum/str low": lambda: Word.LOW,
    "enum/flags": lambda: Access.READ | Access.WRITE,
    "path/relative": lambda: pathlib.Path("a/b"),
    "path/absolute": lambda: pathlib.PurePosixPath("/a/b"),
    "str/as the path": lambda: "a/b",
    "date": lambda: datetime.date(2026, 12, 1),
    "datetime/naive": lambda: datetime.datetime(2026, 12, 1),
    "datetime/UTC": lambda: datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC),
    "datetime/one hour east": lambda: datetime.datetime(2026, 12, 1, 1, tzinfo=datetime.timezone(_HOUR)),
    "datetime/first": lambda: datetime.datetime.min.replace(tzinfo=datetime.timezone(_HOUR)),
    "time/naive": lambda: datetime.time(12, 30),
    "time/UTC": lambda: datetime.time(12, 30, tzinfo=datetime.UTC),
    "timedelta/1.5 h": lambda: datetime.timedelta(hours=1.5),
    "timedelta/negative": lambda: datetime.timedelta(microseconds=-1),
    "data/inner": lambda: Inner(),
    "data/twin": lambda: Twin(),
    "data/int for float": lambda: Inner(rate=1),  # type: ignore[arg-type]
    "data/tagged": lambda: Tagged(),
    "data/mutable": lambda: Mutable([1, 2]),
    "data/outer": lambda: Outer(),
    "data/outer changed": lambda: Outer(
        inner=Inner(rate=0.2),
        colour=Colour.GREEN,
        weights={"b": 1.0, "a": 0.5},
        path=pathlib.Path("x"),
        seed=3,
        rows=12,
    ),
}

if importlib.util.find_spec("numpy") is not None:  # other Pythons on the machine check all but these
    import numpy

    VALUES |= {
        "dtype/float32": lambda: numpy.dtype("float32"),
        "dtype/float64": lambda: numpy.float64,
        "dtype/big-endian": lambda: numpy.dtype(">f4"),
        "dtype/datetime": lambda: numpy.dtype("datetime64[ns]"),
        "scalar/float32": lambda: numpy.float32(0.1),
        "scalar/float64": lambda: numpy.float64(0.1),
        "scalar/int64": lambda: numpy.int64(1),
        "scalar/bool": lambda: numpy.bool_(True),
        "scalar/day": lambda: numpy.datetime64("2026-12-01"),
        "array/2x3": lambda: numpy.arange(6, dtype=numpy.int32).reshape(2, 3),
        "array/3x2": lambda: numpy.arange(6, dtype=numpy.int32).reshape(3, 2),
        "array/int64": lambda: numpy.arange(6, dtype=numpy.int64).reshape(2, 3),
        "array/no dimension": lambda: numpy.array(1, dtype=numpy.int64),
        "array/empty": lambda: numpy.zeros((0, 3), dtype=numpy.float32),
    }


@dataclass(frozen=True, kw_only=True)
class StepConfig:
    inputs: tuple[InputPath, ...] = ()
    by_name: dict[str, Any] = field(default_factory=dict)
    rate: float = 0.5
    workers: Annotated[int, runtime] = 2


@kind("golden/step", version=1)
def _golden_step(config: StepConfig, out: Any) -> None:
    raise NotImplementedError("it is only identified")


_LEAF = Step("leaf", _golden_step, StepConfig())
_MIDDLE = Step("middle", _golden_step, StepConfig(inputs=(_LEAF, _LEAF / "sub/path")))

STEPS: dict[str, Step] = {
    "step/no config": Step("bare", _golden_step),
    "step/leaf": _LEAF,
    "step/two inputs": _MIDDLE,
    "step/of a step of a step": Step("top", _golden_step, StepConfig(by_name={"a": _MIDDLE, "b": (Inner(), _LEAF)})),
    "step/milestone": Step("early", _golden_step, StepConfig(inputs=(_LEAF.milestone("checkpoints/step-10"),))),
    "step/path of that name": Step("late", _golden_step, StepConfig(inputs=(_LEAF / "checkpoints/step-10",))),
}


def digests() -> dict[str, str]:
    values = {name: digest_of_value(build()) for name, build in VALUES.items()}
    order = topological(list(STEPS.values()))
    identities = identify(order)
    return values | {name: identities[id(step)].digest for name, step in STEPS.items()}


def add_new_names() -> None:
    kept = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    found = digests()
    changed = [name for name in kept.keys() & found.keys() if kept[name] != found[name]]
    if changed:
        raise SystemExit(
            f"refused: {sorted(changed)} have other digests than in the table; every store would be orphaned"
        )
    TABLE.write_text(json.dumps({**kept, **found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if "--add" in sys.argv[1:]:
        add_new_names()
    else:
        print(json.dumps(digests()))
