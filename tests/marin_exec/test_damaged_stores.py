"""Damage, and drivers killed between any two writes: a plain rerun makes it good, and says why."""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from inprocess import World

from marin_exec import InputPath, Out, ShardOut, Step, StoreError, kind
from marin_exec.lineage import all_current
from marin_exec.records import Record
from marin_exec.store import claim

RAN: list[str] = []


@dataclass(frozen=True)
class Config:
    rows: int = 2


@dataclass(frozen=True)
class SumConfig:
    base: InputPath


def shard(item: int, out: ShardOut) -> int:
    RAN.append(f"shard {item}")
    Path(out.file(f"{item}.txt")).write_text(str(item))
    return item


@kind("damaged/base", version=1)
def base(config: Config, out: Out) -> dict[str, int]:
    RAN.append("base")
    return out.map_shards(shard, {f"s{n}": n for n in range(config.rows)})


@kind("damaged/total", version=1)
def total(config: SumConfig, out: Out) -> int:
    RAN.append("total")
    return sum(int(path.read_text()) for path in Path(config.base).glob("*.txt"))


def steps(rows: int = 2) -> Step:
    return Step("total", total, SumConfig(Step("base", base, Config(rows))))


@pytest.fixture
def world(tmp_path) -> World:
    RAN.clear()
    return World(tmp_path)


def control(world: World, digest: str) -> Path:
    return Path(world.store.prefix, ".marin/steps", digest)


@pytest.mark.parametrize("damage", ["torn", "missing", "newer format"])
def test_record_damaged_is_a_miss_with_that_reason_and_run_makes_it_good(world, damage):
    world.run(steps())
    path = control(world, world.plan(steps()).named("base").digest) / "attempts/1.record.json"
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-20] if damage == "torn" else b'{"format": 99}')
    planned = world.plan(steps(), force=["total"]).named("base")
    assert planned.action == "RUN" and str(path) in planned.reason and str(path) in planned.causes[0]
    statuses = world.run(steps(), force=["total"])
    assert {str(each.state) for each in statuses.values()} == {"done"}
    assert statuses["base"].record.attempt == 2
    assert set(world.actions(steps()).values()) == {"REUSE"}


def test_record_damaged_of_another_step_explains_nothing_and_hides_nothing_else(world):
    world.run(steps())
    path = control(world, world.plan(steps()).named("base").digest) / "attempts/1.record.json"
    path.write_text("{")
    assert world.plan(steps(rows=3)).named("base").reason == "never run"
    problems: list[str] = []
    assert [record.name for record in all_current(world.store, problems)] == ["total"]
    assert len(problems) == 1 and str(path) in problems[0]


@dataclass(frozen=True)
class Upstream:
    source: InputPath


@kind("damaged/passes-on", version=1)
def passes_on(config: Upstream, out: Out) -> str:
    text = Path(config.source, "says.txt").read_text()
    Path(out.file("says.txt")).write_text(f"{text}!")
    return f"{text}!"


@kind("damaged/says", version=1)
def says(config: None, out: Out) -> str:
    Path(out.file("says.txt")).write_text(SAID[0])
    return SAID[0]


SAID = ["first"]


def test_record_lost_of_a_step_between_hides_no_change_above_it_and_alone_makes_nothing_again(world, monkeypatch):
    first = Step("first", says)
    middle = Step("middle", passes_on, Upstream(first))
    last = Step("last", passes_on, Upstream(middle))
    world.run(last)
    (record,) = control(world, world.plan(last).named("middle").digest).glob("**/*record*")
    record.unlink()
    assert world.actions(last) == {"first": "REUSE", "middle": "GONE", "last": "REUSE"}

    monkeypatch.setitem(globals(), "SAID", ["second"])
    planned = world.plan(last, force=["first"])
    assert "upstream middle will run" in planned.named("last").reason
    world.run(first, force=["first"])
    assert world.actions(last) == {"first": "REUSE", "middle": "RUN", "last": "RUN"}
    assert world.run(last)["last"].record.result == "second!!"


def test_head_damaged_is_an_error_that_names_the_file(world):
    world.run(steps())
    (path,) = control(world, world.plan(steps()).named("base").digest).glob("head.json.*")
    path.write_text("half a he")
    with pytest.raises(StoreError, match=path.name.rpartition(".")[0]):
        world.plan(steps())


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_shard_of_a_dead_attempt_whose_file_is_damaged_is_made_again_without_asking(world, damage, monkeypatch):
    original = Path.glob
    monkeypatch.setattr(Path, "glob", lambda *args: (_ for _ in ()).throw(OSError("no")))
    assert world.run(steps())["total"].state == "failed"
    monkeypatch.setattr(Path, "glob", original)
    digest = world.plan(steps()).named("base").digest
    # As if the driver had died after the shards, before the commit.
    for path in control(world, digest).glob("head.json.*"):
        path.unlink()
    lease = claim(world.store, digest, None)
    assert lease is not None and lease.chain == 1
    lease.release("died")
    (file,) = Path(world.store.prefix).glob("base-*/a1-*/1.txt")
    file.unlink() if damage == "missing" else file.write_text("")
    RAN.clear()
    statuses = world.run(steps())
    assert statuses["total"].record.result == 1 and RAN == ["base", "shard 0", "shard 1", "total"]


class Killed(BaseException):
    """Stands for SIGKILL: nothing of this package handles it, and nothing is tidied up."""


@pytest.mark.parametrize("where", ["make_attempt_directory", "attempt_log", "record"])
def test_driver_killed_between_the_claim_and_the_end_is_followed_by_a_plain_rerun(world, where, monkeypatch):
    """The lease stays held, so the next driver waits until it is stale, and goes on in its chain."""
    planned = world.plan(steps())
    scheduler = world.scheduler(planned)

    def die(*args: Any, **kwargs: Any) -> Any:
        raise Killed

    if where == "record":  # the record is written, and the head not yet replaced
        monkeypatch.setattr("marin_exec.store.lease.Lease._replace", die)
    else:
        monkeypatch.setattr(f"marin_exec.store.store.Store.{where}", die)
    monkeypatch.setattr("marin_exec.runners.scheduler.Scheduler._cancel_all", lambda self, why: None)
    monkeypatch.setattr("marin_exec.runners.heartbeat.Heartbeats._renew", lambda self, renewal: None)
    with pytest.raises(Killed):
        scheduler.run()
    monkeypatch.undo()
    digest = planned.named("base").digest
    assert world.store.head(digest).data.state == "held"
    assert world.actions(steps())["base"] == "WAIT"
    statuses = world.run(steps())
    assert {str(each.state) for each in statuses.values()} == {"done"}
    record = statuses["base"].record
    assert (record.attempt, record.chain) == (2, 1)
    assert record.pieces == ({"made": 0, "taken_up": 2} if where == "record" else {"made": 2, "taken_up": 0})


def test_first_after_skips_attempts_that_died_before_they_said_anything(world):
    first = Step("first", base, Config(1))
    step = Step("base", base, Config(2), after=(first,))
    world.run(first)
    digest = world.plan(step).named("base").digest
    lease = claim(world.store, digest, None)  # a driver that died right after its claim
    lease.release("died")
    record = world.run(step)["base"].record
    assert record.chain == 1 and [each.name for each in record.first_after] == ["first"]


def test_holder_whose_lease_was_taken_over_neither_commits_nor_fails_but_reuses(world):
    """As after SIGSTOP past the lease: the woken driver finds its attempt overtaken, and takes the other's result."""
    planned = world.plan(steps())
    scheduler, other = world.scheduler(planned), world.scheduler(planned)
    overtaken = threading.Event()
    submit = scheduler.backend.submit

    def slow_submit(task: Any) -> str:
        if task.step_name == "base" and not overtaken.is_set():
            overtaken.set()
            head = world.store.head(task.digest)
            lease = claim(world.store, task.digest, head)  # what a driver does that found it stale
            lease.release("handed on")
            other.run()
        return submit(task)

    scheduler.backend.submit = slow_submit
    statuses = {status.planned.step.name: status for status in scheduler.run().values()}
    assert {str(each.state) for each in statuses.values()} == {"reused"}
    assert {str(each.state) for each in other.statuses.values()} == {"done"}
    assert [world.store.readable_record(planned.named("base").digest, n) is not None for n in (1, 2, 3)] == [
        False,
        False,
        True,
    ]


def test_store_error_while_committing_is_tried_again(world, monkeypatch):
    from marin_exec.store.lease import Lease

    commit, failures = Lease.commit, [OSError("the share is away")] * 2

    def flaky(self: Lease, record: Record) -> None:
        if failures:
            raise failures.pop()
        commit(self, record)

    monkeypatch.setattr(Lease, "commit", flaky)
    assert {str(each.state) for each in world.run(steps()).values()} == {"done"}
    assert RAN.count("base") == 1


def test_store_that_cannot_be_written_any_more_fails_the_step_and_the_run_ends(world, monkeypatch):
    from marin_exec.store.store import Store

    def full(*args: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "make_attempt_directory", full)
    statuses = world.run(steps())
    assert statuses["base"].state == "failed" and "No space left on device" in statuses["base"].failure.reason
    assert statuses["total"].state == "blocked"
    assert world.store.head(statuses["base"].planned.digest).data.state == "free"
