"""A half-done step goes on only from pieces of the same code and inputs, and what is lost is said."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from inprocess import World

from marin_exec import ConfigError, InputPath, Out, ShardOut, Step, kind, runtime
from marin_exec.identity import identify
from marin_exec.step import topological

STATE: dict[str, Any] = {}


@dataclass(frozen=True, kw_only=True)
class SourceConfig:
    key: Annotated[str, runtime]


@dataclass(frozen=True, kw_only=True)
class ShardsConfig:
    source: InputPath
    key: Annotated[str, runtime]


@kind("half/source", version=1)
def source(config: SourceConfig, out: Out) -> None:
    Path(out.file("content.txt")).write_text(STATE[config.key])


def one_shard(item: tuple[str, str, str], shard: ShardOut) -> str:
    name, path, key = item
    if name == "b" and STATE.get(key + " fails"):
        raise ValueError("b fails")
    content = Path(path, "content.txt").read_text()
    Path(shard.file(f"{name}.txt")).write_text(content)
    return content


@kind("half/shards", version=1)
def shards(config: ShardsConfig, out: Out) -> dict[str, str]:
    if STATE.get(config.key + " fails early"):
        raise ValueError("before the first shard")
    return out.map_shards(one_shard, {name: (name, config.source, config.key) for name in ("a", "b")})


def pipeline(key: str) -> Step:
    return Step("shards", shards, ShardsConfig(source=Step("source", source, SourceConfig(key=key)), key=key))


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


@pytest.fixture
def key(request) -> str:
    STATE[request.node.name] = "old"
    STATE[request.node.name + " fails"] = True
    return request.node.name


def reason_of_start(world: World, name: str, key: str) -> str:
    planned = world.plan(pipeline(key)).named(name)
    attempt = world.store.head(planned.digest).data.attempt
    return next(each["reason"] for each in world.store.events(planned.digest, attempt) if each["type"] == "started")


def test_step_goes_on_from_its_shards_and_the_plan_says_so(world, key):
    world.run(pipeline(key))
    assert "goes on from 1 shards or milestones" in world.plan(pipeline(key)).named("shards").explanation
    STATE[key + " fails"] = False
    record = world.run(pipeline(key))["shards"].record
    assert record.pieces == {"made": 1, "taken_up": 1} and record.chain == 1
    assert reason_of_start(world, "shards", key).count("goes on from 1 shards") == 1


def test_step_whose_input_was_replaced_mixes_nothing_of_the_old_one(world, key):
    world.run(pipeline(key))
    STATE[key], STATE[key + " fails"] = "new", False
    record = world.run(pipeline(key), force=["source"])["shards"].record
    assert record.result == {"a": "new", "b": "new"}
    assert record.pieces == {"made": 2, "taken_up": 0}
    assert "source holds other content than they were made from" in reason_of_start(world, "shards", key)
    assert set(world.actions(pipeline(key)).values()) == {"REUSE"}


def test_step_whose_input_was_remade_with_equal_content_goes_on(world, key):
    world.run(pipeline(key))
    STATE[key + " fails"] = False
    record = world.run(pipeline(key), force=["source"])["shards"].record
    assert record.pieces == {"made": 1, "taken_up": 1}


def test_plan_says_that_pieces_of_other_code_are_left_and_how_to_keep_them(world, key, monkeypatch):
    world.run(pipeline(key))
    from marin_exec import draft
    from marin_exec.source import SourceInfo

    real = draft.source_of
    changed = SourceInfo("0" * 64, {**real(shards).functions, "half.one_shard": "changed"})
    monkeypatch.setattr(draft, "source_of", lambda fn: changed if fn is shards else real(fn))
    assert "starts afresh, without 1 shards" in (reason := world.plan(pipeline(key)).named("shards").explanation)
    assert "--on-code-change reuse goes on from them" in reason and "half.one_shard" in reason
    assert "goes on from 1 shards" in world.plan(pipeline(key), code="reuse").named("shards").explanation


@dataclass(frozen=True)
class Inner:
    held: Annotated[Any, runtime]


@dataclass(frozen=True)
class Outer:
    inner: tuple[Inner, ...]


def test_step_in_a_runtime_field_is_refused_however_deep(key):
    step = Step("outer", source, Outer(inner=(Inner(held={"x": [pipeline(key)]}),)))
    with pytest.raises(ConfigError, match=r"step outer: config\.inner\[0\]\.held is declared runtime and holds Step"):
        identify(topological([step]))


def test_attempt_that_made_nothing_from_an_older_input_ends_its_chain(world, key):
    STATE[key + " fails early"] = True
    world.run(pipeline(key))
    STATE[key], STATE[key + " fails early"] = "new", False
    world.run(pipeline(key), force=["source"])  # makes shard a of the new input, and fails at b
    STATE[key + " fails"] = False
    record = world.run(pipeline(key))["shards"].record
    assert record.result == {"a": "new", "b": "new"}
    assert record.pieces == {"made": 1, "taken_up": 1} and record.chain == 2


def test_piece_that_cannot_be_read_is_left_behind_and_said(world, key):
    world.run(pipeline(key))
    (piece,) = Path(world.store.prefix).glob(".marin/steps/*/pieces/1/shard/*.json")
    piece.write_text("{")
    assert "starts afresh" in (why := world.plan(pipeline(key)).named("shards").explanation) and "cannot be read" in why
    STATE[key + " fails"] = False
    assert world.run(pipeline(key))["shards"].record.pieces == {"made": 2, "taken_up": 0}
