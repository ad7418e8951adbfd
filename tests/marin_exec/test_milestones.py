"""A dependant waits for a milestone, not for the step: while it runs, after it failed, and when it is made again."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
from inprocess import World

from marin_exec import InputPath, Out, Step, StoreError, kind, runtime
from marin_exec.lineage import downstream, locate, upstream
from marin_exec.runners.bindings import Bindings

WAIT_SECONDS = 20


@dataclass
class Stage:
    """What the bodies of one test share, by its name: configs hold no live objects."""

    evaluated: threading.Event = field(default_factory=threading.Event)
    runs: list[str] = field(default_factory=list)
    text: str = "weights"


STAGES: dict[str, Stage] = {}


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    data: InputPath
    stage: Annotated[str, runtime]
    how: Annotated[str, runtime] = "ends"
    publishes: str = "step-1"


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig:
    checkpoint: InputPath
    stage: Annotated[str, runtime]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    rows: int


@kind("milestones/data", version=1)
def data(config: DataConfig, out: Out) -> dict[str, int]:
    Path(out.file("rows.txt")).write_text(str(config.rows))
    return {"rows": config.rows}


@kind("milestones/train", version=1)
def train(config: TrainConfig, out: Out) -> dict[str, int]:
    stage = STAGES[config.stage]
    stage.runs.append("train")
    Path(out.file(f"{config.publishes}/weights.txt")).write_text(stage.text)
    Path(out.file(f"{config.publishes}/only-{stage.text}.txt")).write_text("")
    out.publish(config.publishes, {"loss": 4.0})
    if config.how == "waits for its evaluation":
        assert stage.evaluated.wait(WAIT_SECONDS), "the dependant did not start while this step ran"
    if config.how == "fails":
        raise ValueError("diverged")
    Path(out.file("end.txt")).write_text(stage.text)
    return {"end": 1}


@kind("milestones/evaluate", version=1)
def evaluate(config: EvaluateConfig, out: Out) -> dict[str, Any]:
    stage = STAGES[config.stage]
    stage.runs.append("evaluate")
    text = Path(config.checkpoint, "weights.txt").read_text()
    stage.evaluated.set()
    return {"read": text}


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


@pytest.fixture
def stage(request) -> str:
    STAGES[request.node.name] = Stage()
    return request.node.name


def steps(stage: str, how: str = "ends", wants: str = "step-1") -> tuple[Step, Step]:
    trained = Step("train", train, TrainConfig(data=Step("data", data, DataConfig(rows=3)), stage=stage, how=how))
    return trained, Step("evaluate", evaluate, EvaluateConfig(checkpoint=trained.milestone(wants), stage=stage))


def test_milestone_dependant_runs_while_its_producer_runs(world, stage):
    statuses = world.run(*steps(stage, "waits for its evaluation"))
    assert {name: status.state for name, status in statuses.items()} == dict.fromkeys(statuses, "done")
    (bound,) = statuses["evaluate"].record.dependencies
    assert bound.milestone == "step-1" and bound.run_id == "run-1"
    assert set(world.actions(*steps(stage)).values()) == {"REUSE"}


def test_milestone_unreadable_for_a_moment_is_looked_for_again_and_stops_nothing(world, stage, monkeypatch):
    milestone, failures = Bindings.milestone, []

    def milestone_with_hiccup(bindings, digest, name):
        if not failures:
            failures.append(name)
            raise StoreError("cannot read: Input/output error")
        return milestone(bindings, digest, name)

    monkeypatch.setattr(Bindings, "milestone", milestone_with_hiccup)
    statuses = world.run(*steps(stage, "waits for its evaluation"))
    assert failures and {str(status.state) for status in statuses.values()} == {"done"}


def test_milestone_never_published_fails_the_dependant_and_says_what_there_is(world, stage):
    statuses = world.run(*steps(stage, wants="step-9"))
    assert statuses["train"].state == "done" and statuses["evaluate"].state == "failed"
    assert "never published the milestone 'step-9'" in statuses["evaluate"].failure.reason
    assert "step-1" in statuses["evaluate"].failure.reason


def test_milestone_of_a_step_that_failed_never_published_blocks_the_dependant(world, stage):
    statuses = world.run(*steps(stage, "fails", wants="step-9"))
    assert statuses["train"].state == "failed" and statuses["evaluate"].state == "blocked"


def test_milestone_of_a_step_that_failed_afterwards_serves_and_stands(world, stage):
    trained, evaluated = steps(stage, "fails")
    statuses = world.run(trained, evaluated)
    assert statuses["train"].state == "failed" and statuses["evaluate"].state == "done"
    # A later attempt goes on in the same chain: what it publishes again does not replace what was read, and is not mixed.
    STAGES[stage].text = "other"
    again = world.run(*steps(stage))
    assert again["train"].state == "done" and again["evaluate"].state == "reused"
    record = again["train"].record
    assert (record.attempt, record.chain, record.pieces) == (2, 1, {"made": 0, "taken_up": 1})
    assert [entry.path for entry in record.files] == ["end.txt", "step-1/only-weights.txt", "step-1/weights.txt"]
    assert Path(world.store.url(record.output_path), "step-1/weights.txt").read_text() == "weights"
    assert set(world.actions(*steps(stage)).values()) == {"REUSE"}


def test_milestone_that_is_there_is_used_without_starting_its_step_again(world, stage):
    world.run(*steps(stage, "fails", wants="step-9"))
    trained, evaluated = steps(stage)
    assert world.actions(evaluated) == {"data": "REUSE", "train": "GONE", "evaluate": "RUN"}
    statuses = world.run(evaluated)
    assert statuses["evaluate"].state == "done" and STAGES[stage].runs == ["train", "evaluate"]
    assert statuses["evaluate"].record.dependencies[0].run_id == "run-1"
    assert world.actions(trained, evaluated)["train"] == "RUN"  # wanted for itself
    (path,) = Path(world.store.prefix).glob("train-*/a1-*/step-1/weights.txt")
    path.unlink()
    assert world.actions(steps(stage)[1], force=["evaluate"])["train"] == "RUN"


def test_milestone_of_a_forced_step_is_the_new_one_not_the_one_before(world, stage):
    world.run(*steps(stage))
    STAGES[stage].text = "better"
    assert "upstream train will run" in world.plan(*steps(stage), force=["train"]).named("evaluate").reason
    statuses = world.run(*steps(stage), force=["train"])
    assert statuses["train"].record.chain == 2
    assert statuses["evaluate"].state == "done" and statuses["evaluate"].record.result == {"read": "better"}
    assert set(world.actions(*steps(stage)).values()) == {"REUSE"}


def test_milestone_forced_with_equal_content_is_reused_by_the_dependant(world, stage):
    world.run(*steps(stage))
    statuses = world.run(*steps(stage), force=["train"])
    assert statuses["train"].state == "done" and statuses["evaluate"].state == "reused"


def test_lineage_goes_through_a_step_that_is_not_done(world, stage):
    statuses = world.run(*steps(stage, "fails"))
    store = world.store
    down = downstream(store, locate(store, "data"))
    assert [(node.name, node.depth) for node in down.nodes] == [("data", 0), ("train", 1), ("evaluate", 2)]
    up = upstream(store, locate(store, "evaluate"))
    assert [(node.name, node.depth) for node in up.nodes] == [("evaluate", 0), ("train", 1), ("data", 2)]
    assert up.nodes[1].record.provenance["git"] == {"commit": "c0ffee"} and up.nodes[1].record.finished == ""
    path = store.url(statuses["evaluate"].record.dependencies[0].path) + "/step-1/weights.txt"
    found = locate(store, path)
    assert (found.record.name, found.sub_path) == ("train", "step-1/weights.txt")
    # Once the step is done, its record speaks for the directory of the attempt that died.
    world.run(*steps(stage))
    assert locate(store, path).record.attempt == 2
    assert [node.name for node in downstream(store, locate(store, path)).nodes] == ["train", "evaluate"]


def test_see_is_recorded_with_its_digest_and_nothing_waits_for_it(world, stage):
    related = Step("elsewhere", data, DataConfig(rows=9))
    step = Step("data", data, DataConfig(rows=3), see=(related,))
    statuses = world.run(step)
    assert set(statuses) == {"data"}
    digest = world.plan(related).targets[0]
    assert statuses["data"].record.see == (("elsewhere", digest),)
