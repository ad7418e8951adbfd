"""Keeping house on GCS and S3: the same decisions, by listings and conditional replaces."""

import time
from dataclasses import dataclass

import fsspec
import pytest
from inprocess import FAST, World

from marin_exec import InputPath, Out, Step, kind
from marin_exec.cleaning import clean
from marin_exec.cli.log_verbs import watching
from marin_exec.garbage import read_heads, survey
from marin_exec.lineage import Located
from marin_exec.plan import make_plan
from marin_exec.run_events import RunEvents
from marin_exec.run_states import run_state
from marin_exec.store import StalenessWatch, Store, drop_root, register_root, roots
from marin_exec.store.run_log import run_events, run_ids
from marin_exec.store.watching import dead_holders
from marin_exec.store.withdrawal import invalidate
from marin_exec.verification import check_outputs


@dataclass(frozen=True)
class Config:
    text: str = "a"


@dataclass(frozen=True)
class ChildConfig:
    base: InputPath


@kind("objects/base", version=1)
def base(config: Config, out: Out) -> int:
    with fsspec.open(out.file("data.txt"), "w") as file:
        file.write(config.text * 100)
    return 1


@kind("objects/child", version=1)
def child(config: ChildConfig, out: Out) -> int:
    with fsspec.open(f"{config.base}/data.txt") as source, fsspec.open(out.file("copy.txt"), "wb") as file:
        file.write(source.read())
    return 1


def chain(text: str = "a") -> Step:
    return Step("end", child, ChildConfig(Step("base", base, Config(text))))


@pytest.fixture(params=["gcs_server", "s3_server"])
def world(request, tmp_path, monkeypatch) -> World:
    server = request.getfixturevalue(request.param)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    world = World(tmp_path)
    world.store = Store.open(server.new_prefix())
    return world


def find(world: World):
    watch = StalenessWatch(FAST.lease, FAST.heartbeat)
    return survey(
        world.store,
        grace_seconds=0,
        now=time.time() + 7200,
        silent=lambda held: dead_holders(world.store, held, watch, FAST.poll),
    )


def test_gc_frees_what_it_says_and_keeps_what_is_in_use(world):
    for text in ("a", "b"):
        plan = make_plan([chain(text)], world.store)
        register_root(world.store, text, plan.targets, plan.steps)
        world.run(chain(text))
    world.run(chain("a"), force=["base"])
    assert sorted(each.reason for each in find(world).garbage) == ["superseded"]
    drop_root(world.store, next(each for each, root in roots(world.store).items() if root.name == "b"))
    found = find(world)
    assert sorted(each.reason for each in found.garbage) == ["not in use", "not in use", "superseded"]
    assert found.bytes == 300 and found.files == 3
    removed = clean(found, "ada")
    assert (removed.bytes, removed.files, removed.skipped) == (300, 3, [])
    assert world.actions(chain("a")) == {"base": "REUSE", "end": "REUSE"}
    assert world.actions(chain("b")) == {"base": "RUN", "end": "RUN"}
    assert find(world).garbage == []
    statuses = world.run(chain("b"))
    assert statuses["end"].state == "done"


def test_invalidated_step_runs_again_and_damage_is_found(world):
    done = world.run(chain())
    checked = check_outputs(
        world.store, [Located(each.record, "") for each in done.values()], checksums=True, done=lambda each: None
    )
    assert [each.damage for each in checked] == [(), ()]
    world.store.fs.pipe_file(world.store.url(f"{done['end'].record.output_path}/copy.txt"), b"b" * 100)
    (damaged,) = check_outputs(world.store, [Located(done["end"].record, "")], checksums=True, done=lambda each: None)
    assert damaged.damage[0][0] == "copy.txt"
    invalidate(world.store, done["end"].planned.digest, "ada", "damaged")
    assert world.actions(chain())["end"] == "RUN"


def test_event_log_of_a_run_goes_on_over_segments_and_says_how_it_ended(world):
    plan = world.plan(chain())
    scheduler = world.scheduler(plan)
    scheduler.context = type(scheduler.context)(
        run_id="20261201T080701-9da6dc", experiment="x" * 40_000, provenance={"user": "ada"}
    )
    with RunEvents(world.store, plan, scheduler.context, "root") as events:
        scheduler.on_change = events.changed
        statuses = scheduler.run()
        events.finished(statuses.values(), interrupted=False)
    assert len(world.store.names(".marin/runs")) > 1 and run_ids(world.store) == ["20261201T080701-9da6dc"]
    logged = run_events(world.store, "20261201T080701-9da6dc")
    assert [each["type"] for each in logged] == ["started", "step", "step", "step", "step", "finished"]
    state = run_state(world.store, "20261201T080701-9da6dc", read_heads(world.store), [])
    assert state is not None and state.state == "finished" and state.counts == {"done": 2}
    assert watching(world.store)({}) == set()
