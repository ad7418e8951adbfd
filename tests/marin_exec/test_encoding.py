"""What is encoded, what is refused, and that equal and only equal values have equal trees."""

import collections
import copy
import dataclasses
import datetime
import enum
import math
import pickle
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from marin_exec.encoding import canonical_bytes, digest_of_tree, digest_of_value, encode
from marin_exec.errors import ConfigError
from marin_exec.fields import added_default, renamed_from, runtime


@dataclass(frozen=True, kw_only=True)
class Config:
    value: Any = None


# --- equal values ---------------------------------------------------------------------------------------------------


def test_digest_of_strings_built_at_run_time_equals_that_of_literals():
    built = ["bert "[:-1], "".join(["be", "rt"]), sys.intern("bert")]
    assert digest_of_value(built) == digest_of_value(["bert"] * 3)


def test_digest_of_aliased_parts_equals_that_of_copies():
    shared = [1, 2]
    scalar = np.float32(0.5)
    assert digest_of_value([shared, shared]) == digest_of_value([[1, 2], [1, 2]])
    assert digest_of_value({"a": scalar, "b": scalar}) == digest_of_value({"a": np.float32(0.5), "b": np.float32(0.5)})


def test_digest_of_dict_in_other_insertion_order_is_equal():
    assert digest_of_value({"a": 1, "b": 2}) == digest_of_value({"b": 2, "a": 1})


_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.floats(),
    st.text(max_size=3).filter(lambda text: text.isprintable()),
    st.binary(max_size=3),
    st.dates(),
    st.sampled_from([Path("a"), Path("b"), 0.0, -0.0, 1.0, "1", b"1", True]),
)
_keys = st.one_of(st.booleans(), st.integers(-3, 3), st.text("ab1", max_size=2), st.none(), st.binary(max_size=1))
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(_keys, inner, max_size=3),
        st.frozensets(_keys, max_size=3),
        st.builds(Config, value=inner),
    ),
    max_leaves=8,
)


def _strictly_equal(a: Any, b: Any) -> bool:
    """Equality that also wants equal types everywhere, written without the encoder's help."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_strictly_equal, a, b))
    if isinstance(a, dict):
        typed_a, typed_b = ({(type(key), key): value for key, value in each.items()} for each in (a, b))
        return typed_a.keys() == typed_b.keys() and all(_strictly_equal(typed_a[key], typed_b[key]) for key in typed_a)
    if isinstance(a, frozenset):
        return {(type(each), each) for each in a} == {(type(each), each) for each in b}
    if isinstance(a, Config):
        return _strictly_equal(a.value, b.value)
    return a == b


@settings(max_examples=300)
@given(_values, _values)
def test_trees_are_equal_exactly_where_values_and_types_are(a, b):
    assert (encode(a, "a") == encode(b, "b")) == _strictly_equal(a, b)
    assert (digest_of_value(a) == digest_of_value(b)) == _strictly_equal(a, b)


@settings(max_examples=150)
@given(_values)
def test_digest_after_pickle_and_deepcopy_is_equal(value):
    assert digest_of_value(pickle.loads(pickle.dumps(value))) == digest_of_value(value)
    assert digest_of_value(copy.deepcopy(value)) == digest_of_value(value)


# --- unequal values -------------------------------------------------------------------------------------------------


def test_digests_of_look_alikes_differ():
    class Number(enum.Enum):
        ONE = 1

    Other = dataclasses.make_dataclass("Other", [("value", Any, None)], frozen=True)
    alike = [
        *(1, 1.0, True, "1", b"1", [1], (1,), {1}, {1: 1}, {"1": 1}, {True: 1}, Number.ONE, Path("1"), 1 + 0j),
        *(np.int64(1), np.int32(1), np.array(1), np.array([1]), np.array([[1]]), np.float32(1)),
        *(None, "None", "", [], (), {}, set(), b"", [None], [[]], ["none"]),
        *(np.dtype("int64"), "int64", Config(value=1), Other(1), {"value": 1}),
    ]
    digests = [digest_of_value(each) for each in alike]
    assert len(set(digests)) == len(alike)


def test_digest_of_difference_at_depth_fifty_changes():
    def nested(innermost: int) -> Any:
        value: Any = innermost
        for _ in range(50):
            value = Config(value={"x": [value]})
        return value

    assert digest_of_value(nested(1)) != digest_of_value(nested(2))


def test_digest_of_a_tree_in_another_domain_differs():
    assert digest_of_tree(["int", "1"], "marin-a/1") != digest_of_tree(["int", "1"], "marin-b/1")


def test_long_bytes_differ_from_their_own_digest_text():
    long = bytes(100)
    tree = encode(long, "value")
    assert digest_of_value(long) != digest_of_value(tree[1].encode())
    assert len(canonical_bytes(tree)) < 200


def test_strings_that_json_would_confuse_are_refused_or_differ():
    assert encode("\U0001f600", "value") == ["str", "\U0001f600"]
    with pytest.raises(ConfigError, match="not valid Unicode"):
        encode("\ud83d\ude00", "value")  # two surrogates, which ASCII JSON writes exactly like the one character


def test_aware_and_naive_times_are_kept_apart_and_zone_names_do_not_count():
    moment = datetime.datetime(2026, 12, 1, 12)
    zoned = moment.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=1), "CET"))
    unnamed = moment.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
    assert digest_of_value(zoned) == digest_of_value(unnamed)
    assert digest_of_value(moment) != digest_of_value(moment.replace(tzinfo=datetime.UTC))
    assert digest_of_value(moment) != digest_of_value(moment.date())


# --- numpy ----------------------------------------------------------------------------------------------------------


def test_array_layout_and_byte_order_do_not_count():
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    for same in (np.asfortranarray(array), array.astype(">i4"), np.repeat(array, 2, axis=1)[:, ::2]):
        assert digest_of_value(same) == digest_of_value(array)


def test_array_shape_dtype_and_content_count():
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    for other in (array.reshape(3, 2), array.astype(np.int64), array.view(np.float32), array + 1, array.tolist()):
        assert digest_of_value(other) != digest_of_value(array)


def test_array_negative_zero_and_nan_payload_count():
    nan = np.array([0x7FC00001], dtype=np.uint32).view(np.float32)
    assert digest_of_value(np.array([0.0])) != digest_of_value(np.array([-0.0]))
    assert digest_of_value(nan) != digest_of_value(np.array([np.nan], dtype=np.float32))


def test_dtype_spelled_as_class_or_dtype_is_one():
    assert digest_of_value(np.float32) == digest_of_value(np.dtype("float32")) == digest_of_value(np.dtype("<f4"))


@pytest.mark.parametrize(
    "value",
    [
        np.array([object()]),
        np.dtype([("a", "i4")]),
        np.zeros(2, dtype=[("a", "i4")]),
        np.floating,
        np.longdouble(1),
        np.ma.masked_array([1, 2], [True, False]),
    ],
)
def test_numpy_value_without_one_meaning_is_refused(value):
    with pytest.raises(ConfigError, match=r"^value "):
        digest_of_value(value)


# --- refusals -------------------------------------------------------------------------------------------------------


class Plain:
    """An object without any state: everything of its kind would look the same."""


class Text(str):
    pass


@pytest.mark.parametrize(
    "value",
    [
        lambda x: x,
        len,
        Plain,
        Plain(),
        Plain().__init__,
        (n for n in [1]),
        iter([1]),
        types,
        object(),
        Text("a"),
        bytearray(b"a"),
        range(3),
        collections.OrderedDict(a=1),
        collections.Counter("aab"),
        types.MappingProxyType({"a": 1}),
        float,
    ],
)
def test_value_without_encoding_is_refused_with_its_path(value):
    config = Config(value={"a b": [1, Config(value=(value,))]})
    with pytest.raises(ConfigError) as caught:
        encode(config, "step x: config")
    message = str(caught.value)
    assert message.startswith("step x: config.value['a b'][1].value[0] is ")
    assert "allowed are None, bool, int" in message


def test_open_file_is_refused(tmp_path):
    with open(tmp_path / "file", "w") as file, pytest.raises(ConfigError, match="TextIOWrapper"):
        encode(Config(value=file), "config")


def test_timestamp_subclass_with_hidden_state_is_refused():
    class Timestamp(datetime.datetime):
        nanosecond = 5

    with pytest.raises(ConfigError, match="Timestamp"):
        encode(Config(value=Timestamp(2026, 1, 1)), "config")


def test_cycle_is_refused():
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ConfigError, match="refers to itself"):
        encode(loop, "config.loop")


def test_nesting_beyond_the_limit_is_refused_and_below_is_not():
    value: Any = 1
    for _ in range(150):
        value = [value]
    assert len(digest_of_value(value)) == 64
    for _ in range(100):
        value = [value]
    with pytest.raises(ConfigError, match="deeper than 200"):
        digest_of_value(value)


# --- fields ---------------------------------------------------------------------------------------------------------


def _fields(value: Any) -> dict[str, Any]:
    return dict(encode(value, "config")[2])


def test_field_order_does_not_count():
    first = dataclasses.make_dataclass("Same", [("a", int, 1), ("b", int, 2)])
    second = dataclasses.make_dataclass("Same", [("b", int, 2), ("a", int, 1)])
    assert encode(first(), "x") == encode(second(), "x")


def test_class_name_counts_and_a_subclass_does_not_inherit_the_tag():
    @dataclass(frozen=True)
    class Base:
        __identity_tag__ = "base/1"
        a: int = 1

    @dataclass(frozen=True)
    class Derived(Base):
        pass

    assert encode(Base(), "x")[1] == "base/1"
    assert encode(Derived(), "x")[1] == "Derived"


def test_runtime_field_is_not_in_the_tree():
    @dataclass(frozen=True)
    class Workers:
        a: int = 1
        workers: Annotated[int, runtime] = 2

    assert encode(Workers(), "x") == encode(Workers(workers=9), "x")
    assert _fields(Workers()).keys() == {"a"}


def test_added_default_leaves_old_digests_while_it_is_equal_in_type_too():
    old = dataclasses.make_dataclass("C", [("a", int, 1)])
    new = dataclasses.make_dataclass("C", [("a", int, 1), ("b", Annotated[float, added_default(0)], 0.0)])
    assert encode(new(), "x") == encode(old(), "x")
    assert encode(new(b=-0.0), "x") != encode(old(), "x")  # equal for ==, another value for this encoder
    assert encode(new(b=1.0), "x") != encode(old(), "x")
    listed = dataclasses.make_dataclass("C", [("a", int, 1), ("b", Annotated[Any, added_default([1])], None)])
    assert encode(listed(b=[1]), "x") == encode(old(), "x")


def test_renamed_field_keeps_its_digest():
    old = dataclasses.make_dataclass("C", [("num_rows", int, 1)])
    new = dataclasses.make_dataclass("C", [("rows", Annotated[int, renamed_from("num_rows")], 1)])
    assert encode(new(), "x") == encode(old(), "x")


def test_renamed_field_whose_old_name_is_taken_is_refused():
    both = dataclasses.make_dataclass("C", [("b", int, 1), ("a", Annotated[int, renamed_from("b")], 1)])
    with pytest.raises(ConfigError, match="digested as 'b'"):
        encode(both(), "config")
