"""A record names the code that ran: as a worker imported it, not as the file was planned or edited since."""

import dataclasses
import importlib
import sys
from pathlib import Path

import pytest

from marin_exec.resources import Resources
from marin_exec.runners.attempt import execute, execute_rank
from marin_exec.runners.code_that_ran import with_source_found
from marin_exec.runners.ray import RayBackend
from marin_exec.runners.shards import ShardTask, map_in_process, run_shard
from marin_exec.runners.task import AttemptTask, Failure
from marin_exec.source import source_of
from marin_exec.store import Store

CODE = "def work(config, out):\n    return {'value': 1}\n"


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "imported_late.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("imported_late")
    yield module
    del sys.modules["imported_late"]


def task_of(module, source_digest: str) -> AttemptTask:
    return AttemptTask(
        store=Store.open("memory://late"),
        step_name="late",
        kind_name="late",
        digest="0" * 64,
        attempt=1,
        chain=1,
        attempt_path="late-0000000000000000/a1-00000000",
        fn=module.work,
        config=None,
        content_digest=None,
        source_digest=source_digest,
        resources=Resources(),
    )


def test_module_imported_for_the_task_is_named_as_it_was_imported(module):
    planned = task_of(module, "planned from an older file")
    found = with_source_found(planned, loaded_before=set())
    assert found.source_digest == source_of(module.work).digest
    assert found.source_found == {"digest": found.source_digest, "functions": source_of(module.work).functions}


def test_module_of_the_plan_is_left_as_it_is(module):
    planned = task_of(module, source_of(module.work).digest)
    assert with_source_found(planned, loaded_before=set()) == planned


def test_module_loaded_before_and_edited_since_is_not_named_after_its_file(module):
    planned = task_of(module, source_of(module.work).digest)
    Path(module.__file__).write_text(CODE.replace("1", "2"))
    assert with_source_found(planned, loaded_before={"imported_late"}) == planned


def test_file_that_is_being_edited_stops_nothing(module):
    planned = task_of(module, "another")
    Path(module.__file__).write_text("def work(config, out:\n")
    assert with_source_found(planned, loaded_before=set()) == planned


def test_function_that_came_with_the_task_is_left_as_it_is(module):
    module.work.__module__ = "nowhere"
    planned = task_of(module, "travelled")
    assert dataclasses.replace(planned) == with_source_found(planned, loaded_before=set())


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("is_identity", [True, False])
def test_other_code_than_the_plans_is_refused_where_code_is_identity(module, tmp_path, is_identity, rank):
    planned = dataclasses.replace(task_of(module, "planned from an older file"), source_is_identity=is_identity)
    imported = with_source_found(planned, loaded_before=set())
    shard = run_shard(ShardTask(imported, lambda item, out: item, "one", 1))
    ended = execute(imported, map_in_process) if rank == 0 else execute_rank(imported, map_in_process)
    for outcome in (shard, ended):
        assert isinstance(outcome, Failure) == is_identity
        if isinstance(outcome, Failure):
            assert "was edited after the plan was made" in outcome.reason and not outcome.infrastructure


@pytest.mark.parametrize("address", ["", "local"])
def test_ray_address_that_names_no_cluster_starts_one_here(monkeypatch, address):
    monkeypatch.setenv("RAY_ADDRESS", address)
    assert RayBackend()._address is None
    assert RayBackend("10.0.0.1:6379")._address == "10.0.0.1:6379"
