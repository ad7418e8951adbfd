"""Graphs of steps that are large, deep, shared or wrong: each is walked in time, or refused by name."""

from dataclasses import dataclass
from typing import Any

import pytest
from inprocess import World

from marin_exec import ConfigError, InputPath, Out, Step, kind
from marin_exec.plan import leaves
from marin_exec.step import references, topological


@dataclass(frozen=True)
class Config:
    value: Any = None
    inputs: tuple[InputPath, ...] = ()


@kind("graph/work", version=1)
def work(config: Config, out: Out) -> int:
    return 1


@kind("graph/boom", version=1)
def boom(config: Config, out: Out) -> int:
    raise ValueError("boom")


def test_config_that_contains_itself_is_refused_with_step_and_type(tmp_path):
    endless: list[Any] = []
    endless.append([endless])
    with pytest.raises(ConfigError, match="step endless: config: a list in it contains itself"):
        World(tmp_path).plan(Step("endless", work, Config(value=endless)))


def test_step_that_needs_itself_through_a_list_changed_later_is_refused_with_the_circle(tmp_path):
    inputs: list[Any] = []
    first = Step("first", work, Config(value=inputs))
    inputs.append(Step("second", work, Config(inputs=(first,))))
    with pytest.raises(ConfigError, match=r"step first: needs itself .first needs second needs first."):
        World(tmp_path).plan(first)


def test_after_a_step_that_is_itself_downstream_is_refused_with_the_circle(tmp_path):
    inputs: list[Any] = []
    first = Step("first", work, Config(value=inputs))
    below = Step("below", work, Config(inputs=(first,)))
    inputs.append(Step("middle", work, Config(), after=(below,)))
    with pytest.raises(ConfigError, match="below needs first needs middle needs below"):
        World(tmp_path).plan(below, first)


def test_references_deep_config_is_walked_without_recursion():
    value: Any = Step("inner", work)
    for _ in range(20_000):
        value = [value]
    assert [ref.step.name for ref in references(value)] == ["inner"]


def test_references_shared_parts_are_walked_once():
    value: Any = (Step("inner", work),)
    for _ in range(60):  # 2**60 paths lead to the step
        value = (value, value)
    assert [ref.step.name for ref in references(value)] == ["inner"]


def test_references_of_every_container_are_found_in_order_of_appearance():
    names = [f"s{n}" for n in range(6)]
    a, b, c, d, e, f = (Step(name, work) for name in names)
    value = Config(value={"k": [a, (b, frozenset({c}))], "l": Config(inputs=(d / "x",))}, inputs=(e, f.milestone("m")))
    assert [ref.step.name for ref in references(value)] == names


def test_topological_long_chain_and_diamond_each_step_once():
    step = Step("s", work)
    for n in range(10_000):
        step = Step(f"s{n}", work, Config(inputs=(step, step)))
    order = topological([step])
    assert len(order) == 10_001 and order[-1] is step


def test_names_two_steps_of_one_name_that_differ_are_refused_with_the_field(tmp_path):
    with pytest.raises(ConfigError, match=r"step same: two steps of this name differ, first in config.value"):
        World(tmp_path).plan(Step("same", work, Config(value=1)), Step("same", work, Config(value=2)))


def test_name_that_no_directory_can_have_is_refused_before_anything_starts_and_one_just_shorter_runs(tmp_path):
    with pytest.raises(ConfigError, match="has 201 characters; at most 200 are allowed between '/'"):
        Step(f"sweep/{'x' * 201}/of-something", work, Config())
    name = f"{'x' * 200}/{'y' * 200}"
    status = World(tmp_path).run(Step(name, work, Config()))[name]
    assert status.state == "done"


def test_leaves_a_step_needed_for_a_milestone_alone_is_a_target_still():
    whole, partly = Step("whole", work, Config(value=1)), Step("partly", work, Config(value=2))
    last = Step("last", work, Config(inputs=(whole, partly.milestone("m"))))
    assert [each.name for each in leaves([whole, partly, last])] == ["partly", "last"]


def test_failure_at_the_head_of_a_long_chain_blocks_all_of_it(tmp_path):
    step = Step("head", boom, Config())
    for n in range(3_000):
        step = Step(f"s{n}", work, Config(inputs=(step,)))
    statuses = World(tmp_path).run(step)
    assert statuses["head"].state == "failed"
    assert {str(each.state) for name, each in statuses.items() if name != "head"} == {"blocked"}
    assert statuses["s2999"].note == "s2998 blocked"
