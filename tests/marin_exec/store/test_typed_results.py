"""Typed results as JSON, with measured fields apart and unsupported values refused by name."""

import enum
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marin_exec import StepFailed, measured
from marin_exec.store import plain_result, split_result


class Colour(enum.StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Phase:
    name: str
    seconds: Annotated[float, measured]


@dataclass(frozen=True)
class Result:
    documents: int
    seconds: Annotated[float, measured]
    phases: list[Phase] = field(default_factory=list)
    by_name: dict[str, Phase] = field(default_factory=dict)
    extra: Any = None


RESULT = Result(3, 1.5, [Phase("read", 0.5), Phase("write", 1.0)], {"x": Phase("x", 0.25)}, (1, None, True))


def test_measured_fields_are_split_off_at_every_depth() -> None:
    result, apart, type_name = split_result(RESULT)
    assert result == {
        "documents": 3,
        "phases": [{"name": "read"}, {"name": "write"}],
        "by_name": {"x": {"name": "x"}},
        "extra": [1, None, True],
    }
    assert apart == {"seconds": 1.5, "phases[0].seconds": 0.5, "phases[1].seconds": 1.0, "by_name['x'].seconds": 0.25}
    assert type_name == "Result"


def test_plain_result_keeps_measured_fields_in_place() -> None:
    assert plain_result(RESULT)["seconds"] == 1.5 and plain_result(RESULT)["phases"][1] == {
        "name": "write",
        "seconds": 1,
    }


@pytest.mark.parametrize("value", [None, True, 3, "x", [1, [2]], {"a": {"b": 1.5}}])
def test_plain_values_are_kept_as_they_are(value: Any) -> None:
    assert split_result(value) == (value, {}, None)


def test_subclasses_of_plain_types_become_what_they_stand_for() -> None:
    class Number(enum.IntEnum):
        ONE = 1

    result, _, _ = split_result([Colour.RED, Number.ONE, np.float64(0.5)])
    assert result == ["red", 1, 0.5] and [type(each) for each in result] == [str, int, float]


def test_floats_that_are_not_finite_become_words_so_that_any_json_reader_can_read_them() -> None:
    assert plain_result([math.nan, math.inf, -math.inf]) == ["NaN", "Infinity", "-Infinity"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=6,
)


@given(values)
def test_any_plain_result_survives_strict_json(value: Any) -> None:
    plain = plain_result(value)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Result(1, 1.0, extra={1, 2}), r"^result\.extra: got \{1, 2\} of type builtins\.set"),
        (Result(1, 1.0, extra=[{"a": Path("x")}]), r"^result\.extra\[0\]\['a'\]: .*pathlib\._?\w*\.?PosixPath"),
        (Result(1, np.int64(3)), r"^result\.seconds: got .* of type numpy\.int64"),
        (Result(1, 1.0, phases=[Phase("x", b"1")]), r"^result\.phases\[0\]\.seconds: got b'1'"),  # type: ignore[arg-type]
        ([np.zeros(2)], r"^result\[0\]: .*numpy\.ndarray"),
        (object(), r"^result: got <object"),
        ({"a": {1: 2}}, r"^result\['a'\]: a dict has the key 1 of type int"),
        (Result, r"^result: got <class"),
    ],
)
def test_value_without_a_json_form_is_refused_by_field(value: Any, message: str) -> None:
    with pytest.raises(StepFailed, match=message):
        split_result(value)
