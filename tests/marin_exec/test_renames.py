"""A store made by older code is a hit after kinds, fields and steps were renamed, and fields were added."""

from dataclasses import dataclass
from typing import Annotated

import pytest
from inprocess import World

from marin_exec import ConfigError, InputPath, Out, Step, added_default, kind, renamed_from


@dataclass(frozen=True, kw_only=True)
class Old:
    rows: int = 3
    source: InputPath = ""

    __identity_tag__ = "Config"


@dataclass(frozen=True, kw_only=True)
class New:
    num_rows: Annotated[int, renamed_from("rows")] = 3
    source: InputPath = ""
    shuffle: Annotated[bool, added_default(False)] = False

    __identity_tag__ = "Config"


@kind("renames/old-count", version=2)
def old_count(config: Old, out: Out) -> int:
    return config.rows


@kind("renames/old-use", version=1)
def old_use(config: Old, out: Out) -> int:
    return config.rows


@kind("renames/count", version=2, renamed_from="renames/first-count")
def count(config: New, out: Out) -> int:
    return config.num_rows


@kind("renames/first-count", version=3)
def later_owner(config: New, out: Out) -> int:
    return config.num_rows


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


def test_renamed_kind_fields_and_step_and_an_added_field_are_a_hit_in_an_old_store(world, monkeypatch):
    """The old code and the new one cannot be declared together: one process plays both, one after the other."""
    from marin_exec import kinds

    world.run(Step("use", old_use, Old(source=Step("count", old_count, Old()))))
    for name in ("renames/old-count", "renames/old-use"):
        version = 2 if "count" in name else 1
        monkeypatch.delitem(kinds._KINDS, (name, version))

    @kind("renames/new-count", version=2, renamed_from="renames/old-count")
    def new_count(config: New, out: Out) -> int:
        return config.num_rows

    @kind("renames/new-use", version=1, renamed_from="renames/old-use")
    def new_use(config: New, out: Out) -> int:
        return config.num_rows

    renamed = Step("used", new_use, New(source=Step("counted", new_count, New())))
    planned = world.plan(renamed)
    assert [each.action.value for each in planned.steps.values()] == ["REUSE", "REUSE"]
    assert planned.named("counted").reason.startswith(
        "made by run run-1 under the name count, as kind renames/old-count"
    )
    changed = Step("count", new_count, New(num_rows=4))
    assert world.plan(changed).named("count").reason == f"config.rows 3 -> 4 (last run {today(world)})"
    assert world.plan(Step("count", new_count, New(shuffle=True))).named("count").causes == (
        "count: config.shuffle absent -> True",
    )
    record = world.run(changed)["count"].record
    assert record.kind == "renames/new-count" and record.identity["kind"] == "renames/old-count"


def today(world: World) -> str:
    (planned,) = world.plan(Step("count", old_count, Old())).steps.values()
    assert planned.record is not None
    return planned.record.finished[:10]


def test_kind_that_takes_a_name_which_a_renamed_one_still_uses_is_refused():
    with pytest.raises(ConfigError, match="kind 'renames/first-count' version 2: declared by both"):

        @kind("renames/first-count", version=2)
        def thief(config: New, out: Out) -> int:
            return 0


def test_kind_renamed_from_no_valid_name_is_refused():
    with pytest.raises(ConfigError, match="kind 'a b': not a valid name"):
        kind("renames/x", version=1, renamed_from="a b")
