"""Identity trees as people read them, and where two of them differ."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from marin_exec import Step, kind
from marin_exec.encoding import encode
from marin_exec.identity import dependency_references, differences, flatten, identify
from marin_exec.step import topological
from marin_exec.trees import Difference, with_content


@dataclass(frozen=True, kw_only=True)
class Config:
    a: Any = None
    b: Any = 26


@kind("test-trees/plain", version=3)
def plain(config: Config, out: Any) -> None:
    """Is only identified."""


@kind("test-trees/plain", version=4)
def plain_four(config: Config, out: Any) -> None:
    """Is only identified."""


def unversioned(config: Config, out: Any) -> None:
    """Is only identified."""


INPUT = Step("input", plain, Config())


def tree_of(config: Any, fn: Any = plain) -> dict[str, Any]:
    step = Step("x", fn, config)
    return identify(topological([step]))[id(step)].tree


def bare(node: Any) -> dict[str, Any]:
    return {"format": "f", "kind": "k", "version": 1, "source": None, "config": node}


def test_flatten_gives_dotted_paths_and_readable_values():
    digest = identify([INPUT])[id(INPUT)].digest[:16]
    value = {
        "rate": 0.8,
        "a b": [True, None, "x", b"\x01"],
        3: Path("p/q"),
        "none": (),
        "steps": [INPUT, INPUT / "sub/path", INPUT.milestone("m")],
    }
    assert flatten(tree_of(Config(a=value))) == {
        "config.a[3]": "p/q",
        "config.a['a b'][0]": "True",
        "config.a['a b'][1]": "None",
        "config.a['a b'][2]": "'x'",
        "config.a['a b'][3]": "bytes(01)",
        "config.a.none": "()",
        "config.a.rate": "0.8",
        "config.a.steps[0]": f"step {digest}",
        "config.a.steps[1]": f"step {digest}/sub/path",
        "config.a.steps[2]": f"step {digest}/m (milestone)",
        "config.b": "26",
        "kind.name": "test-trees/plain",
        "kind.version": "3",
    }


def test_dependency_references_are_found_in_every_container():
    digest = identify([INPUT])[id(INPUT)].digest
    value = [INPUT, (INPUT / "s",), {"k": {INPUT.milestone("m"), 1}}, Config(a=INPUT), "no step", set()]
    found = dependency_references(tree_of(Config(a=value)))
    assert set(found.values()) == {digest}
    assert list(found)[:2] == ["config.a[0]", "config.a[1][0]"]
    assert len(found) == 4
    assert dependency_references(tree_of(Config())) == {}


def test_differences_name_field_old_and_new():
    old, new = tree_of(Config(a=0.9, b=[1, 2])), tree_of(Config(a=0.8, b=[1, 3, 4]))
    assert differences(old, new) == [
        Difference("config.a", "0.9", "0.8"),
        Difference("config.b[1]", "2", "3"),
        Difference("config.b[2]", None, "4"),
    ]


def test_differences_are_in_path_order_with_indices_as_numbers():
    old, new = tree_of(Config(a=[0] * 12)), tree_of(Config(a=[1] * 12, b=27))
    assert [each.path for each in differences(old, new)] == [*(f"config.a[{n}]" for n in range(12)), "config.b"]


def test_differences_of_kind_and_source_are_paths_of_their_own():
    found = {each.path: (each.old, each.new) for each in differences(tree_of(Config()), tree_of(Config(), plain_four))}
    assert found == {"kind.version": ("3", "4")}
    found = {each.path: each for each in differences(tree_of(Config()), tree_of(Config(), unversioned))}
    assert found.keys() == {"kind.name", "kind.version", "source"}
    assert found["kind.version"].new is None
    assert found["source"].old is None


def test_differences_of_a_dependency_show_both_digests():
    other = Step("input", plain, Config(b=1))
    (found,) = differences(tree_of(Config(a=INPUT / "s")), tree_of(Config(a=other / "s")))
    assert found.path == "config.a"
    assert found.old == f"step {identify([INPUT])[id(INPUT)].digest[:16]}/s"
    assert found.new == f"step {identify([other])[id(other)].digest[:16]}/s"


def test_differences_of_a_renamed_class_are_said_and_its_fields_compared():
    @dataclass
    class Other:
        a: Any = None
        b: Any = 27

    assert differences(tree_of(Config()), tree_of(Other())) == [
        Difference("config (class)", "Config", "Other"),
        Difference("config.b", "26", "27"),
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (1, "1"),
        (1, 1.0),
        ([1], (1,)),
        ("x" * 200 + "a", "x" * 200 + "b"),
        (Path("a"), "a"),
        ({"a": 1}, {"b": 1}),
        ({1, 2}, {1, 3}),
        ([], ()),
        (bytes(100), bytes(101)),
    ],
)
def test_difference_is_shown_by_two_different_texts(old, new):
    found = differences(bare(encode(old, "x")), bare(encode(new, "x")))
    assert found
    assert all(each.old != each.new for each in found)


_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.floats(width=16), st.text(max_size=2)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.integers(-2, 12), st.text("ab]", max_size=2)), inner, max_size=3),
        st.builds(Config, a=inner, b=inner),
    ),
    max_leaves=8,
)


@settings(max_examples=300)
@given(_values, _values)
def test_differences_are_none_exactly_where_trees_are_equal(old, new):
    a, b = bare(encode(old, "x")), bare(encode(new, "x"))
    found = differences(a, b)
    assert bool(found) == (a != b)
    assert all(each.old != each.new for each in found)
    assert len({each.path for each in found}) == len(found)
    back = differences(b, a)
    assert {(each.path, each.new, each.old) for each in back if "(class)" not in each.path} >= {
        (each.path, each.old, each.new) for each in found if each.old is None
    }


def test_with_content_replaces_every_dependency_wherever_it_stands():
    other = Step("other", plain, Config(a=1))
    digests = {step.name: identify([step])[id(step)].digest for step in (INPUT, other)}
    value = {
        "tuple": (INPUT, [INPUT / "sub"]),
        "set": {INPUT, other},
        "milestone": INPUT.milestone("m"),
        "inner": Config(a=other),
        "plain": ["step", digests["input"], "", None],
    }
    tree = tree_of(Config(a=value))["config"]
    held = {(digests["input"], None): "c1", (digests["other"], None): "c2", (digests["input"], "m"): "c3"}
    replaced = with_content(tree, held)
    text = json.dumps(replaced)
    assert [text.count(f'["content", "{content}"') for content in held.values()] == [3, 2, 1]
    assert text.count('["step", ') == 0 and '["str", "step"]' in text, "plain values that look like one stay"
    swapped = {key: {"c1": "c2", "c2": "c1"}.get(content, content) for key, content in held.items()}
    assert with_content(tree, swapped) != replaced
    only_set = tree_of(Config(a={INPUT, other}))["config"]
    assert with_content(only_set, held) == with_content(only_set, swapped), "a set has no order"
