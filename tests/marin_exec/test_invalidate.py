"""Invalidation: a person says that a result is none; it is made again, with what was made from it, and nobody forgets why."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from inprocess import World

from marin_exec import InputPath, Out, Step, StoreError, kind
from marin_exec.store import claim
from marin_exec.store.withdrawal import invalidate

RAN: list[str] = []
SAYS = {"base": "a"}


@dataclass(frozen=True)
class Config:
    text: str = "a"


@dataclass(frozen=True)
class ChildConfig:
    base: InputPath
    fail: bool = False


@kind("invalidate/base", version=1)
def base(config: Config, out: Out) -> int:
    RAN.append(f"base {config.text}")
    if SAYS["base"] == "fails":
        raise RuntimeError("this time it fails")
    Path(out.file("data.txt")).write_text(SAYS["base"])
    return 1


@kind("invalidate/child", version=1)
def child(config: ChildConfig, out: Out) -> int:
    RAN.append("child")
    Path(out.file("sum.txt")).write_text(Path(config.base, "data.txt").read_text())
    return 1


@pytest.fixture
def world(tmp_path) -> World:
    RAN.clear()
    SAYS["base"] = "a"
    return World(tmp_path)


def chain(text: str = "a") -> Step:
    return Step("child", child, ChildConfig(Step("base", base, Config(text))))


def digest_of(world: World, name: str) -> str:
    return next(each.digest for each in world.plan(chain()).steps.values() if each.step.name == name)


def test_invalidated_step_and_what_was_made_from_it_are_made_again_and_the_plan_says_by_whom_and_why(world):
    world.run(chain())
    before = world.store.current(digest_of(world, "base"))
    invalidate(world.store, digest_of(world, "base"), "ada", "a bad disk wrote it")
    plan = {each.step.name: each for each in world.plan(chain()).steps.values()}
    assert {name: each.action.value for name, each in plan.items()} == {"base": "RUN", "child": "RUN"}
    assert "invalidated by ada on 20" in plan["base"].reason and "a bad disk wrote it" in plan["base"].reason
    assert any("a bad disk wrote it" in cause for cause in plan["child"].causes)
    SAYS["base"] = "b"
    done = world.run(chain())
    assert {name: status.state.value for name, status in done.items()} == {"base": "done", "child": "done"}
    assert Path(world.store.url(done["child"].record.output_path), "sum.txt").read_text() == "b"
    assert world.store.record(before.digest, before.attempt) == before
    (said,) = [each for each in world.store.events(before.digest, before.attempt) if each["type"] == "invalidated"]
    assert (said["by"], said["why"]) == ("ada", "a bad disk wrote it")


def test_what_was_made_from_it_is_reused_if_it_comes_out_the_same(world):
    world.run(chain())
    invalidate(world.store, digest_of(world, "base"), "ada", "doubt")
    done = world.run(chain())
    assert {name: status.state.value for name, status in done.items()} == {"base": "done", "child": "reused"}
    assert world.actions(chain()) == {"base": "REUSE", "child": "REUSE"}


def test_attempt_that_fails_afterwards_does_not_bring_the_old_result_back(world):
    world.run(chain())
    invalidate(world.store, digest_of(world, "base"), "ada", "doubt")
    SAYS["base"] = "fails"
    assert world.run(chain())["base"].state == "failed"
    assert world.actions(chain()) == {"base": "RUN", "child": "RUN"}
    assert "doubt" in world.plan(chain()).steps[digest_of(world, "base")].reason


def test_equal_content_does_not_bring_an_invalidated_result_back(world):
    world.run(chain("a"))
    world.run(chain("b"))
    RAN.clear()
    invalidate(world.store, digest_of(world, "child"), "ada", "doubt")
    world.run(chain("a"))
    assert RAN == ["child"]


def test_step_without_a_result_and_step_that_is_held_are_refused(world):
    world.plan(chain())
    digest = digest_of(world, "base")
    with pytest.raises(StoreError, match="has no result"):
        invalidate(world.store, digest, "ada", "x")
    world.run(chain())
    lease = claim(world.store, digest, world.store.head(digest), host="here", pid=7)
    with pytest.raises(StoreError, match=r"held by here \(pid 7, attempt 2\)"):
        invalidate(world.store, digest, "ada", "x")
    assert lease is not None
    lease.release("cancelled")
    invalidate(world.store, digest, "ada", "x")
    with pytest.raises(StoreError, match="has no result"):
        invalidate(world.store, digest, "ada", "again")
