"""Forced steps, and what a plan says of steps whose inputs hold other content than they were made from."""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from inprocess import FAST, World

from marin_exec import ConfigError, InputPath, Out, Step, kind, runtime
from marin_exec.store import claim

CONTENT: dict[str, Any] = {}


@dataclass(frozen=True, kw_only=True)
class SourceConfig:
    key: Annotated[str, runtime]
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class CopyConfig:
    source: InputPath
    key: Annotated[str, runtime]
    letter: str = "a"


@kind("forcing/source", version=1)
def source(config: SourceConfig, out: Out) -> None:
    content = CONTENT[config.key]
    CONTENT.setdefault(config.key + " ran", []).append("source")
    if isinstance(content, Exception):
        raise content
    Path(out.file("content.txt")).write_text(content)


@kind("forcing/copy", version=1)
def copy(config: CopyConfig, out: Out) -> None:
    CONTENT.setdefault(config.key + " ran", []).append(config.letter)
    hook = CONTENT.get(config.key + " hook")
    if hook is not None:
        hook()
    Path(out.file("copy.txt")).write_text(Path(config.source, "content.txt").read_text() + config.letter)


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


@pytest.fixture
def key(request) -> str:
    CONTENT[request.node.name] = "first"
    return request.node.name


def chain(key: str) -> Step:
    base = Step("source", source, SourceConfig(key=key))
    return Step("b", copy, CopyConfig(source=Step("a", copy, CopyConfig(source=base, key=key)), key=key, letter="b"))


@kind("forcing/second", version=1)
def second(config: CopyConfig, out: Out) -> None:
    CONTENT.setdefault(config.key + " ran", []).append("second")
    Path(out.file("end.txt")).write_text(Path(config.source, "copy.txt").read_text())


def line(key: str) -> Step:
    base = Step("source", source, SourceConfig(key=key))
    return Step("end", second, CopyConfig(source=Step("a", copy, CopyConfig(source=base, key=key)), key=key))


def test_force_step_that_fails_its_old_result_stays_current_and_children_are_reused(world, key):
    world.run(line(key))
    before = world.plan(line(key)).named("source").record
    CONTENT[key] = ValueError("no")
    statuses = world.run(line(key), force=["source"])
    assert {name: str(each.state) for name, each in statuses.items()} == {
        "source": "failed",
        "a": "blocked",
        "end": "blocked",
    }
    CONTENT[key] = "whatever"
    assert world.actions(line(key)) == dict.fromkeys(("source", "a", "end"), "REUSE")
    assert world.plan(line(key)).named("source").record == before


def test_force_step_that_gives_other_content_children_rerun_and_the_plan_said_it_could_not_know(world, key):
    world.run(line(key))
    CONTENT[key] = "second"
    planned = world.plan(line(key), force=["source"])
    assert planned.named("a").reason == "upstream source will run (forced); reused if its output is the same"
    assert planned.named("end").causes == ("source: forced",)
    statuses = world.run(line(key), force=["source"])
    assert {str(each.state) for each in statuses.values()} == {"done"}
    assert statuses["end"].record.dependencies[0].output_digest == statuses["a"].record.output_digest


def test_force_step_that_gives_equal_content_stops_there(world, key):
    world.run(line(key))
    statuses = world.run(line(key), force=["source"])
    assert [str(statuses[name].state) for name in ("source", "a", "end")] == ["done", "reused", "reused"]


def test_force_alone_the_child_is_stale_and_the_next_plan_says_why(world, key):
    world.run(line(key))
    CONTENT[key] = "second"
    world.run(line(key), only=["source"], force=["source"])
    made = world.plan(line(key))
    assert [each.action.value for each in made.steps.values()] == ["REUSE", "RUN", "RUN"]
    assert made.named("a").reason.startswith("upstream source now holds other content (")
    assert made.named("a").causes == ("source: output replaced by run run-2: content.txt changed (5 -> 6 bytes)",)
    assert made.named("end").causes == made.named("a").causes


def test_upstream_replaced_while_the_child_ran_the_child_is_stale_afterwards(world, key):
    started, replaced = threading.Event(), threading.Event()

    def hook() -> None:
        started.set()
        assert replaced.wait(20)

    CONTENT[key + " hook"] = hook
    first = threading.Thread(target=world.run, args=(line(key),))
    first.start()
    assert started.wait(20)
    CONTENT[key] = "second"
    World.run(world, line(key), only=["source"], force=["source"])  # another driver's
    del CONTENT[key + " hook"]
    replaced.set()
    first.join(20)
    made = world.plan(line(key))
    assert [each.action.value for each in made.steps.values()] == ["REUSE", "RUN", "RUN"]
    assert "now holds other content" in made.named("a").reason
    assert "content.txt changed (5 -> 6 bytes), while this ran) than this was made from" in made.named("a").reason


def test_force_while_another_driver_holds_waits_and_then_runs_again(world, key):
    (digest,) = world.plan(line(key), only=["source"]).targets
    other = claim(world.store, digest, None)
    planned = world.plan(line(key), only=["source"], force=["source"])
    assert planned.named("source").action == "RUN"
    seen = []
    scheduler = world.scheduler(planned, timing=FAST, on_change=lambda status: seen.append(str(status.state)))
    beats = threading.Event()

    def hold() -> None:
        for _ in range(10):
            other.renew()
            beats.wait(0.05)
        other.release("cancelled")

    holder = threading.Thread(target=hold)
    holder.start()
    (status,) = scheduler.run().values()
    holder.join()
    assert seen[0] == "waiting" and status.state == "done" and status.record.attempt == 2


def test_force_by_two_drivers_at_once_runs_once_more_in_all(world, key):
    world.run(line(key))
    plans = [world.plan(line(key), force=["source"]) for _ in range(2)]
    schedulers = [world.scheduler(each) for each in plans]
    threads = [threading.Thread(target=each.run) for each in schedulers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert CONTENT[key + " ran"].count("source") == 2
    states = sorted(
        str(status.state) for each in schedulers for status in each.statuses.values() if status.planned.forced
    )
    assert states == ["done", "reused"]


def test_force_and_only_by_any_name_of_one_work(world, key):
    base = Step("source", source, SourceConfig(key=key))
    twice = [Step(name, copy, CopyConfig(source=base, key=key)) for name in ("one", "other")]
    statuses = world.run(*twice)
    assert statuses["one"] is statuses["other"] and CONTENT[key + " ran"] == ["source", "a"]
    assert world.plan(*twice).named("other").names == ("one", "other")
    assert world.plan(*twice, force=["other"]).named("one").action == "RUN"
    assert world.plan(*twice, only=["other"]).named("other").action == "REUSE"


def test_force_of_a_step_that_only_does_not_need_is_an_error_that_says_so(world, key):
    with pytest.raises(ConfigError, match=r"--force end: none of the steps in --until .source. needs it"):
        world.plan(line(key), until=["source"], force=["end"])


def test_force_of_a_step_below_a_valid_target_without_record_still_runs_it(world, key):
    world.run(line(key))
    digest = world.plan(line(key)).named("a").digest
    for path in Path(world.store.prefix, ".marin/steps", digest).rglob("*"):
        if path.is_file():
            path.unlink()
    assert world.actions(line(key)) == {"source": "REUSE", "a": "GONE", "end": "REUSE"}
    assert world.actions(line(key), force=["source"])["source"] == "RUN"


def test_until_in_the_middle_brings_about_what_it_needs_and_no_more(world, key):
    assert world.actions(line(key), until=["a"]) == {"source": "RUN", "a": "RUN"}
    statuses = world.run(line(key), until=["a"])
    assert set(statuses) == {"source", "a"}
    assert world.actions(line(key)) == {"source": "REUSE", "a": "REUSE", "end": "RUN"}


def test_max_concurrent_one_never_runs_two(world, key):
    running, most = [], []

    def hook() -> None:
        running.append(1)
        most.append(len(running))
        threading.Event().wait(0.02)
        running.pop()

    CONTENT[key + " hook"] = hook
    base = Step("source", source, SourceConfig(key=key))
    many = [Step(f"copy/{letter}", copy, CopyConfig(source=base, key=key, letter=letter)) for letter in "abcdef"]
    scheduler = world.scheduler(world.plan(*many), max_concurrent=1)
    assert {str(each.state) for each in scheduler.run().values()} == {"done"}
    assert len(most) == 6 and max(most) == 1
