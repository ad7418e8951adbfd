"""What ranks other than 0 may do, without a cluster: one rank of an attempt, executed in this process."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inprocess import ThreadBackend, World

from marin_exec import Out, Resources, Step, kind
from marin_exec.runners.attempt import execute, execute_rank
from marin_exec.runners.shards import map_in_process
from marin_exec.runners.task import AttemptOutput, AttemptTask, Failure, RankEnded

BODIES: list[Callable[[Out], Any]] = []


@kind("tests/any-rank", version=1, gang=True)
def body(config: None, out: Out) -> Any:
    return BODIES[-1](out)


@pytest.fixture
def task(tmp_path) -> AttemptTask:
    """An attempt of two ranks, as its rank 1 gets it."""
    backend, world = ThreadBackend(), World(tmp_path)
    BODIES.append(lambda out: 1)
    world.run(Step("ranks", body), backend=backend)
    resources = Resources(ranks=2)
    return dataclasses.replace(backend.submitted[0], rank=1, resources=resources, coordinator="127.0.0.1:1")


def outcome_of_rank_1(task: AttemptTask, fn: Callable[[Out], Any]) -> Any:
    BODIES.append(fn)
    return execute_rank(task, map_in_process)


def test_rank_knows_its_place_and_what_it_returns_is_left_out(task):
    seen = []
    assert outcome_of_rank_1(task, lambda out: seen.append((out.rank, out.num_ranks, out.coordinator))) == RankEnded(1)
    assert seen == [(1, 2, "127.0.0.1:1")]
    assert outcome_of_rank_1(task, lambda out: object()) == RankEnded(1)


@pytest.mark.parametrize(
    ("call", "method"),
    [
        (lambda out: out.map_shards(print, {"one": 1}), "map_shards"),
        (lambda out: out.publish("early"), "publish"),
    ],
)
def test_other_ranks_may_not_commit(task, call, method):
    failed = outcome_of_rank_1(task, call)
    assert isinstance(failed, Failure) and not failed.infrastructure
    assert f"out.{method} was called in rank 1 of 2; only rank 0 may" in failed.reason


def test_output_is_described_when_the_other_ranks_have_ended(task):
    """Rank 0 returns first, and what another rank writes after that is part of the output."""
    root = Path(task.store.url(task.attempt_path))
    BODIES.append(lambda out: Path(out.file("part-0")).write_text("0"))
    first = dataclasses.replace(task, rank=0)
    made = execute(first, map_in_process, wait_for_ranks=lambda: (root / "part-1").write_text("1"))
    assert isinstance(made, AttemptOutput)
    assert [entry.path for entry in made.files] == ["part-0", "part-1"]


def test_several_ranks_in_one_process_are_refused(task):
    alone = dataclasses.replace(task, rank=0, coordinator="")
    failed = execute(alone, map_in_process)
    assert isinstance(failed, Failure) and "needs 2 ranks, and this backend runs one process a step" in failed.reason
