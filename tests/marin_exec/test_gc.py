"""Cleaning up: what goes, what stays, and that it is safe beside runs, beside itself and when it is killed."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from inprocess import FAST, World

from marin_exec import InputPath, Out, ShardOut, Step, adopt, cleaning, kind, pin
from marin_exec.adopted import files_at
from marin_exec.cleaning import clean
from marin_exec.garbage import Survey, survey
from marin_exec.plan import make_plan
from marin_exec.store import StalenessWatch, Store, claim, drop_root, register_root, roots
from marin_exec.store.manifest import output_digest
from marin_exec.store.run_log import open_run_log
from marin_exec.store.watching import dead_holders

RAN: list[str] = []


@dataclass(frozen=True)
class Config:
    text: str = "a"
    shards: int = 0
    fail: bool = False


@dataclass(frozen=True)
class ChildConfig:
    base: InputPath
    note: str = ""


FAIL: set[str] = set()
WHILE_CHILD_RUNS: list[Callable[[], Any]] = []


def shard(item: int, out: ShardOut) -> int:
    if f"s{item}" in FAIL:
        raise RuntimeError(f"shard {item}")
    Path(out.file(f"{item}.txt")).write_text(str(item) * 1000)
    return item


@kind("gc/base", version=1)
def base(config: Config, out: Out) -> int:
    RAN.append(f"base {config.text}")
    Path(out.file("data.txt")).write_text(config.text * 1000)
    if config.shards:
        out.map_shards(shard, {f"s{n}": n for n in range(config.shards)})
    if config.text in FAIL:
        raise RuntimeError("failed")
    return len(config.text)


@kind("gc/child", version=1)
def child(config: ChildConfig, out: Out) -> int:
    RAN.append(f"child {config.note}")
    for each in WHILE_CHILD_RUNS:
        each()
    Path(out.file("sum.txt")).write_text(config.note + Path(config.base, "data.txt").read_text())
    return 1


@pytest.fixture
def world(tmp_path) -> World:
    RAN.clear()
    FAIL.clear()
    WHILE_CHILD_RUNS.clear()
    return World(tmp_path)


def chain(text: str = "a", note: str = "", **options: Any) -> Step:
    return Step("end", child, ChildConfig(Step("base", base, Config(text, **options)), note))


def registered(world: World, *steps: Step, name: str = "experiment") -> None:
    plan = make_plan(steps, world.store)
    register_root(world.store, name, plan.targets, plan.steps)


def run(world: World, *steps: Step, name: str = "experiment", **options: Any) -> dict[str, Any]:
    registered(world, *steps, name=name)
    return world.run(*steps, **options)


def find(world: World, grace: float = 0.0, now: float | None = None, **options: Any) -> Survey:
    watch = StalenessWatch(FAST.lease, FAST.heartbeat)
    return survey(
        world.store,
        grace_seconds=grace,
        now=time.time() + 7200 if now is None else now,
        silent=lambda held: dead_holders(world.store, held, watch, FAST.poll),
        **options,
    )


def disk_bytes(world: World) -> int:
    """Counts every file once, whatever its names: by the disk's own numbers, not by what the collector adds up."""
    sizes = {}
    for path in Path(world.store.prefix).rglob("*"):
        if path.is_file() and "head.json" not in path.name:
            sizes[path.stat().st_ino] = path.stat().st_size
    return sum(sizes.values())


def reasons(found: Survey) -> dict[str, list[str]]:
    by_reason: dict[str, list[str]] = {}
    for each in found.garbage:
        by_reason.setdefault(each.reason, []).append(each.step)
    return by_reason


def test_everything_a_root_leads_to_stays_and_nothing_else_goes(world):
    run(world, chain())
    before = sorted(Path(world.store.prefix).rglob("*"))
    found = find(world)
    assert found.garbage == [] and found.bytes == 0
    clean(found, "ada")
    assert sorted(Path(world.store.prefix).rglob("*")) == before


def test_what_no_root_leads_to_goes_with_the_bytes_that_were_said_and_leaves_its_lineage(world):
    run(world, chain(), name="new")
    run(world, chain("b", "other"), name="old")
    (old,) = [each for each, root in roots(world.store).items() if root.name == "old"]
    drop_root(world.store, old)
    kept = make_plan([chain()], world.store)
    found = find(world)
    assert reasons(found) == {"not in use": ["base", "end"]}
    before = disk_bytes(world)
    removed = clean(found, "ada")
    assert removed.skipped == []
    assert before - disk_bytes(world) == removed.bytes == found.bytes > 2000
    assert removed.files == found.files == 2
    assert {each.action.value for each in make_plan([chain()], world.store).steps.values()} == {"REUSE"}
    assert [each.record for each in make_plan([chain()], world.store).steps.values()] == [
        each.record for each in kept.steps.values()
    ]
    for each in make_plan([chain("b", "other")], world.store).steps.values():
        assert each.action.value == "RUN" and "output freed by ada on " in each.reason
        assert world.store.record_or_none(each.digest, 1) is not None and world.store.events(each.digest, 1)
    again = world.run(chain("b", "other"))
    assert again["end"].state == "done" and RAN.count("base b") == 2


def test_steps_that_never_began_keep_what_they_need(world):
    FAIL.add("s0")
    plan = chain(shards=1)
    target = Step("last", child, ChildConfig(plan))
    side = Step("side", base, Config("side"))
    both = Step("both", child, ChildConfig(target, note="x"), after=(side,))
    run(world, both)
    assert reasons(find(world)) == {"failed": ["base"]}
    clean(find(world), "ada")
    assert world.actions(both)["side"] == "REUSE"


def test_superseded_and_failed_attempts_go_and_the_current_one_stays(world):
    run(world, chain())
    world.run(chain(), force=["base"])
    FAIL.add("a")
    failed = world.run(chain(), force=["base"])["base"]
    assert failed.state == "failed"
    found = find(world)
    assert reasons(found) == {"failed": ["base"], "superseded": ["base"]}
    before = disk_bytes(world)
    removed = clean(found, "ada")
    assert before - disk_bytes(world) == removed.bytes == found.bytes == 2000
    head = world.store.head(failed.planned.digest).data
    assert (head.state, head.attempt, head.current) == ("done", 3, 2) and head.note.startswith("failed")
    assert world.actions(chain()) == {"base": "REUSE", "end": "REUSE"}
    assert find(world).garbage == []


def test_pieces_that_a_next_attempt_takes_up_stay_and_go_once_they_are_linked_into_the_final_one(world):
    FAIL.add("s3")
    step = chain(shards=4)
    run(world, step)
    assert find(world).garbage == []
    FAIL.clear()
    world.run(step)
    base_digest = next(each.digest for each in world.plan(step).steps.values() if each.step.name == "base")
    found = find(world)
    assert reasons(found) == {"failed": ["base"], "pieces of a finished chain": ["base"]}
    before = disk_bytes(world)
    removed = clean(found, "ada")
    assert before - disk_bytes(world) == removed.bytes == found.bytes
    failed = next(each for each in found.garbage if each.reason == "failed")
    assert failed.bytes == 1000, "files of taken up shards have another name in the final attempt"
    assert world.store.verify(world.store.current(base_digest)) == []
    assert world.actions(step) == {"base": "REUSE", "end": "REUSE"}


def test_grace_keeps_what_was_written_lately_and_what_a_new_result_replaced(world):
    run(world, chain())
    world.run(chain(), force=["base"])
    for root in roots(world.store):
        drop_root(world.store, root)
    now = time.time()
    assert find(world, grace=3600, now=now + 3000).garbage == []
    assert len(find(world, grace=3600, now=now + 4000).garbage) == 3


def test_roots_of_two_projects_keep_what_they_share_and_what_is_their_own(world):
    shared = Step("base", base, Config())
    one = Step("one", child, ChildConfig(shared, "1"))
    two = Step("two", child, ChildConfig(shared, "2"))
    run(world, one, name="first")
    run(world, two, name="second")
    first = next(each for each, root in roots(world.store).items() if root.name == "first")
    drop_root(world.store, first)
    clean(find(world), "ada")
    assert world.actions(two) == {"base": "REUSE", "two": "REUSE"}
    assert world.actions(one) == {"base": "REUSE", "one": "RUN"}


def test_keep_last_counts_the_newest_roots_of_each_experiment(world):
    for text in ("a", "b", "c"):
        run(world, chain(text))
    run(world, chain("other"), name="another")
    assert find(world).garbage == []
    clean(find(world, keep_last=1), "ada")
    left = {text: set(world.actions(chain(text)).values()) for text in ("a", "b", "c", "other")}
    assert left == {"a": {"RUN"}, "b": {"RUN"}, "c": {"REUSE"}, "other": {"REUSE"}}


def test_what_a_running_step_holds_or_reads_stays_and_what_a_dead_one_held_goes(world):
    started, release = threading.Event(), threading.Event()
    WHILE_CHILD_RUNS.extend([started.set, lambda: release.wait(30)])
    step = chain()
    runner = threading.Thread(target=lambda: world.run(step))
    runner.start()
    assert started.wait(30)
    found = find(world)
    release.set()
    runner.join(30)
    (digest,) = world.plan(step).targets
    assert found.alive == {digest} and found.garbage == []
    lease = claim(world.store, digest, world.store.head(digest))
    assert lease is not None
    world.store.make_attempt_directory("end", digest, lease.attempt)
    found = find(world)
    assert found.alive == set() and len(found.garbage) == 3
    clean(found, "ada")
    assert world.actions(step) == {"base": "RUN", "end": "RUN"}


def test_run_that_registers_between_the_look_and_the_removal_keeps_its_data(world):
    run(world, chain(), name="old")
    drop_root(world.store, next(iter(roots(world.store))))
    found = find(world)
    assert len(found.garbage) == 2
    registered(world, chain(), name="new")
    removed = clean(found, "ada")
    assert removed.files == 0 and len(removed.skipped) == 2 and "needs it" in removed.skipped[0]
    assert world.actions(chain()) == {"base": "REUSE", "end": "REUSE"}


def test_run_that_registers_after_the_withdrawal_sees_that_the_output_is_gone(world, monkeypatch):
    run(world, chain(), name="old")
    drop_root(world.store, next(iter(roots(world.store))))
    seen = []
    real = cleaning.hold_for_cleaning

    once = threading.Lock()

    def register_just_after(*arguments: Any, **options: Any) -> Any:
        held = real(*arguments, **options)
        with once:
            if not seen:
                registered(world, chain(), name="new")
                digest = arguments[1]
                seen.append(
                    next(each.action.value for each in world.plan(chain()).steps.values() if each.digest == digest)
                )
        return held

    monkeypatch.setattr(cleaning, "hold_for_cleaning", register_just_after)
    removed = clean(find(world), "ada")
    assert len(removed.skipped) == 2 and removed.files == 0
    assert seen in (["GONE"], ["WAIT"]), "held without a result: no plan counts on it"
    assert world.run(chain())["end"].state == "reused" and RAN == ["base a", "child "]


def test_step_claimed_between_the_look_and_the_removal_is_left_alone(world):
    run(world, chain(), name="old")
    drop_root(world.store, next(iter(roots(world.store))))
    found = find(world)
    digest = next(each.digest for each in world.plan(chain()).steps.values() if each.step.name == "base")
    lease = claim(world.store, digest, world.store.head(digest))
    removed = clean(found, "ada")
    assert [each for each in removed.skipped if "somebody began to run it" in each]
    assert lease is not None
    lease.renew()


def test_two_collectors_at_once_remove_everything_once(world):
    for text in "abcdef":
        run(world, chain(text), name="old")
    for root in roots(world.store):
        drop_root(world.store, root)
    before = disk_bytes(world)
    surveys = [find(world), find(world)]
    removed = []
    threads = [threading.Thread(target=lambda each=each: removed.append(clean(each, "ada"))) for each in surveys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(each.bytes for each in removed) == before - disk_bytes(world) == surveys[0].bytes
    assert find(world).garbage == []


# Ends its own process at the n-th call that changes the disk, as a kill would: nothing is closed or given back.
KILLED = """
import os, sys, time
from marin_exec.cleaning import clean
from marin_exec.garbage import survey
from marin_exec.store import Store

left = int(sys.argv[2])


def killing(real):
    def call(*arguments, **options):
        global left
        left -= 1
        if not left:
            os._exit(9)
        return real(*arguments, **options)

    return call


store = Store.open(sys.argv[1])
found = survey(store, grace_seconds=0, now=time.time() + 7200, silent=lambda held: set(held))
for name in ("unlink", "rmdir", "link"):
    setattr(os, name, killing(getattr(os, name)))
clean(found, "ada")
"""


@pytest.mark.parametrize("calls_until_kill", range(1, 29, 3))
def test_collector_killed_at_any_removal_leaves_a_store_that_a_run_and_a_second_one_handle(world, calls_until_kill):
    FAIL.add("s1")
    run(world, chain(shards=2), name="old")
    FAIL.clear()
    run(world, chain(shards=2), name="old")
    run(world, chain("b"), name="kept")
    drop_root(world.store, next(each for each, root in roots(world.store).items() if root.name == "old"))
    killed = subprocess.run([sys.executable, "-c", KILLED, world.store.prefix, str(calls_until_kill)], timeout=60)
    assert killed.returncode == 9, "there are fewer calls than that"
    statuses = world.run(chain(shards=2))
    assert statuses["end"].state in ("done", "reused")
    for status in statuses.values():  # base may be gone, and not needed
        assert status.record is None or world.store.verify(status.record) == []
    assert statuses["end"].record is not None
    clean(find(world), "ada")
    assert world.actions(chain("b")) == {"base": "REUSE", "end": "REUSE"}
    assert find(world).garbage == []


def test_temporary_files_of_the_dead_go_and_young_ones_stay_whatever_the_grace(world):
    run(world, chain())
    old = Path(world.store.prefix, ".marin/steps/.marin-temporary-0123")
    young = Path(world.store.prefix, ".marin/.marin-temporary-4567")
    old.write_text("x" * 10)
    young.write_text("x")
    os.utime(old, (0, 0))
    found = find(world, now=time.time())
    assert [(each.path, each.bytes) for each in found.garbage] == [(".marin/steps/.marin-temporary-0123", 10)]
    clean(found, "ada")
    assert young.exists() and not old.exists()


def test_store_in_memory_is_cleaned_too(world):
    world.store = Store.open("memory://gc")
    run(world, memory_step())
    world.run(memory_step(), force=["memory"])
    found = find(world)
    assert reasons(found) == {"superseded": ["memory"]} and found.bytes == 3
    removed = clean(found, "ada")
    assert (removed.files, removed.bytes) == (1, 3)
    assert world.actions(memory_step()) == {"memory": "REUSE"} and find(world).garbage == []


@kind("gc/memory", version=1)
def in_memory(config: Config, out: Out) -> int:
    import fsspec

    with fsspec.open(out.file("x.txt"), "w") as file:
        file.write("abc")
    return 1


def memory_step() -> Step:
    return Step("memory", in_memory, Config())


def test_step_whose_input_is_cleaned_up_while_it_starts_fails_clearly_and_reads_nothing(world, monkeypatch):
    world.run(Step("base", base, Config()))
    plan = world.plan(chain())
    digest = next(each.digest for each in plan.steps.values() if each.step.name == "base")
    real = world.store.attempt_log

    def clean_first(*arguments: Any, **options: Any) -> Any:
        clean(find(world), "ada")  # before the attempt has said what it reads
        return real(*arguments, **options)

    monkeypatch.setattr(Store, "attempt_log", lambda store, *arguments, **options: clean_first(*arguments, **options))
    statuses = world.scheduler(plan).run()
    assert statuses[plan.targets[0]].state == "failed"
    assert "its input base has no result any more (output freed by ada" in statuses[plan.targets[0]].note
    assert RAN == ["base a"] and world.store.head(digest).data.current is None
    monkeypatch.undo()
    assert world.run(chain())["end"].state == "done"


def test_step_whose_input_was_made_again_by_another_run_takes_the_newer_one(world):
    world.run(chain())
    plan = world.plan(chain(note="new"))
    world.run(chain(), force=["base"])
    statuses = world.scheduler(plan).run()
    record = statuses[plan.targets[0]].record
    assert record is not None and record.dependencies[0].path.rpartition("/")[2].startswith("a2-")


def test_output_that_a_link_or_a_pin_points_to_stays(world):
    run(world, chain(), name="original")
    same_content = chain(fail=True)
    assert run(world, same_content, name="linked")["end"].state == "linked"
    run(world, Step("base", base, Config("pinned")), name="made")
    (made,) = make_plan([Step("base", base, Config("pinned"))], world.store).targets
    pinned = Step("user", child, ChildConfig(pin(Step("base", base, Config("never")), made), "pinned"))
    registered(world, pinned, name="pins")
    for each, root in roots(world.store).items():
        if root.name in ("original", "made"):
            drop_root(world.store, each)
    clean(find(world), "ada")
    assert world.actions(same_content) == {"base": "REUSE", "end": "REUSE"}
    assert world.run(pinned)["user"].state == "done" and "base never" not in RAN


def test_adopted_data_is_never_touched(world, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "data.txt").write_text("mine")
    adopted = adopt(str(outside), output_digest(files_at(str(outside)).files, None), name="outside")
    run(world, Step("user", child, ChildConfig(adopted)))
    for each in roots(world.store):
        drop_root(world.store, each)
    clean(find(world), "ada")
    assert (outside / "data.txt").read_text() == "mine"


def test_keep_last_counts_the_root_of_a_run_that_goes_on_and_not_that_of_one_that_died_long_ago(world):
    for text in ("old", "new"):
        run(world, chain(text))
    root = next(each for each, found in roots(world.store).items() if world.plan(chain("old")).targets == found.digests)
    with open_run_log(world.store, "20261201T080701-9da6dc") as log:
        log.event("started", run_id="20261201T080701-9da6dc", root=root)
    now = time.time()
    assert find(world, keep_last=1, grace=3600, now=now + 3000).num_roots == 2
    assert find(world, keep_last=1, grace=3600, now=now + 4000).num_roots == 1
    with open_run_log(world.store, "20261201T080702-9da6dc") as log:
        log.event("started", run_id="20261201T080702-9da6dc", root=root)
        log.event("finished")
    assert find(world, keep_last=1, grace=3600, now=now + 4000).num_roots == 1
