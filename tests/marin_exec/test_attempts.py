"""What step functions get wrong, and how the run says so: one step ends, its message names what to change."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from inprocess import ThreadBackend, World

from marin_exec import Out, Retry, ShardOut, Step, runtime

BODIES: dict[str, Callable[[Out], Any]] = {}


@dataclass(frozen=True)
class Config:
    body: Annotated[str, runtime]


def work(config: Config, out: Out) -> Any:
    return BODIES[config.body](out)


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


@pytest.fixture
def attempt(world, request) -> Callable[..., Any]:
    """Runs one step with the given body, and returns its status."""

    def run(body: Callable[[Out], Any], backend: Any = None, **step: Any) -> Any:
        BODIES[request.node.name] = body
        return world.run(Step("work", work, Config(request.node.name), **step), backend=backend)["work"]

    return run


def reason(status: Any) -> str:
    assert status.state == "failed"
    return status.failure.reason


@dataclass(frozen=True)
class Measured:
    rows: int
    handle: Any


def test_result_without_a_json_form_names_the_field_and_what_to_do(attempt):
    assert "result.handle: got <object object" in reason(attempt(lambda out: Measured(1, object())))


def test_result_that_is_huge_is_refused_because_every_plan_would_read_it(attempt):
    failed = reason(attempt(lambda out: {"rows": ["x" * 100] * 20_000}))
    assert "result: 2," in failed and "at most 1,048,576 are kept" in failed


def test_shard_result_that_is_huge_is_refused_by_name(attempt):
    failed = reason(attempt(lambda out: out.map_shards(lambda item, shard: "x" * 2_000_000, {"one": 1})))
    assert failed.startswith("shard one: result: 2,000,002 bytes")


@pytest.mark.parametrize("error", [SystemExit(0), SystemExit("bye")])
def test_step_that_exits_python_is_a_failure_and_not_the_end_of_the_run(attempt, error):
    def body(out: Out) -> None:
        raise error

    assert reason(attempt(body)).startswith("SystemExit: ")


class Rude(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_exception_whose_str_raises_is_still_shown(attempt):
    def body(out: Out) -> None:
        raise Rude

    assert reason(attempt(body)) == "Rude: (its message cannot be shown: RuntimeError)"


def test_traceback_begins_at_the_step_function(attempt):
    def body(out: Out) -> None:
        raise ValueError("here")

    trace = attempt(body).failure.traceback.splitlines()
    assert trace[0].startswith("Traceback") and "test_attempts.py" in trace[1]
    assert "runners" not in "".join(trace)


def test_link_that_leads_out_of_the_output_is_refused(attempt, tmp_path):
    (tmp_path / "elsewhere").write_text("x")
    failed = reason(attempt(lambda out: os.symlink(tmp_path / "elsewhere", out.file("link"))))
    assert "link" in failed and "Copy the file instead" in failed


def test_odd_file_names_are_kept(attempt, world):
    names = ["with space", "uml\u00e4ut", "new\nline", "-dash", "a'quote", "%41", "\udcff-not-utf8"]

    def body(out: Out) -> None:
        for name in names:
            with open(out.file(name), "wb") as file:
                file.write(b"x")

    record = attempt(body).record
    assert sorted(entry.path for entry in record.files) == sorted(names)
    assert world.store.verify(world.store.record(record.digest, 1)) == []


# Shards


def write(item: Any, shard: ShardOut) -> Any:
    Path(shard.file(f"{item}.txt")).write_text(str(item))
    return item


def test_shard_that_raises_is_named_with_its_own_traceback_once(attempt):
    def fails(item: int, shard: ShardOut) -> None:
        raise KeyError("missing column")

    status = attempt(lambda out: out.map_shards(fails, {"part-7": 7}))
    assert reason(status) == "shard part-7: KeyError: 'missing column'"
    assert status.failure.traceback.count("Traceback") == 1
    assert "in fails" in status.failure.traceback and "runners" not in status.failure.traceback


def test_shard_names_of_two_calls_that_overlap_are_an_error_that_names_one(attempt):
    def body(out: Out) -> Any:
        out.map_shards(write, {"a": 1, "b": 2})
        return out.map_shards(write, {"b": 3, "c": 4})

    assert "shard 'b' is the name of a shard of an earlier map_shards" in reason(attempt(body))


@pytest.mark.parametrize("name", ["", 3, None])
def test_shard_name_that_is_no_name_is_refused(attempt, name):
    assert f"shard name {name!r}; a str" in reason(attempt(lambda out: out.map_shards(write, {name: 1})))


def test_shards_that_write_one_file_are_refused_whoever_is_faster(attempt):
    def same(item: int, shard: ShardOut) -> None:
        Path(shard.file("same.txt")).write_text(str(item))

    failed = reason(attempt(lambda out: out.map_shards(same, {"a": 1, "b": 2})))
    assert "shards 'a' and 'b' both wrote 'same.txt'" in failed


def test_shards_none_at_all_give_an_empty_result(attempt):
    assert attempt(lambda out: {"shards": len(out.map_shards(write, {}))}).record.result == {"shards": 0}


def test_shard_names_of_any_characters_come_back_in_order(attempt):
    names = ["z/y/../x", "..", ".", "a b", "\u00e9\U0001f600", "%2F", "x" * 300, "new\nline", "A", "a", "\udcff"]
    items = {name: n for n, name in enumerate(names)}
    assert attempt(lambda out: list(out.map_shards(write, items).values())).record.result == list(range(len(names)))


def test_shards_done_before_a_failure_are_taken_up_by_the_next_attempt(attempt, world):
    calls: list[int] = []

    def second_fails_once(item: int, shard: ShardOut) -> int:
        calls.append(item)
        if calls == [0, 1]:
            raise OSError("disk went away")
        return write(item, shard)

    body = lambda out: out.map_shards(second_fails_once, {f"s{n}": n for n in range(3)})  # noqa: E731
    status = attempt(body, retry=Retry(exceptions=1))
    assert status.state == "done" and calls == [0, 1, 1, 2]
    assert status.record.attempt == 2 and status.record.pieces == {"made": 2, "taken_up": 1}


# Milestones


def test_publish_twice_with_other_content_is_refused(attempt):
    def body(out: Out) -> None:
        for text in ("one", "two"):
            Path(out.file("m/x.txt")).write_text(text)
            out.publish("m")

    assert "milestone 'm' was published before with other content" in reason(attempt(body))


def test_publish_outside_the_output_is_refused(attempt):
    assert "file '../x'; a path relative to the output" in reason(attempt(lambda out: out.publish("../x")))


@pytest.mark.parametrize("how", ["written to", "removed"])
def test_file_of_a_milestone_changed_after_its_commit_fails_the_step(attempt, how):
    def body(out: Out) -> None:
        path = Path(out.file("m/x.txt"))
        path.write_text("committed")
        out.publish("m")
        path.unlink() if how == "removed" else path.write_text("changed")
        Path(out.file("end.txt")).write_text("end")

    assert f"'m/x.txt' was {how} after milestone 'm'" in reason(attempt(body))


def test_file_of_a_shard_may_be_removed_but_not_changed_after_its_commit(attempt):
    def body(out: Out) -> dict[str, int]:
        out.map_shards(write, {"a": 1, "b": 2})
        Path(out.path, "1.txt").unlink()
        return {"left": len(os.listdir(out.path))}

    assert attempt(body).record.result == {"left": 1}


# Retries


def test_retry_of_infrastructure_ends_with_the_reason_and_every_attempt_is_in_the_store(attempt, world):
    backend = ThreadBackend(lose=["work"] * 3)
    status = attempt(lambda out: {"n": 1}, backend, retry=Retry(infrastructure=2))
    assert reason(status) == "NodeDiedError: the node is gone"
    assert [task.attempt for task in backend.submitted] == [1, 2, 3]
    digest = status.planned.digest
    ended = [event for n in (1, 2, 3) for event in world.store.events(digest, n) if event["type"] == "ended"]
    assert [event["again"] for event in ended] == [True, True, False]
    assert world.store.head(digest).data.note == "failed: NodeDiedError: the node is gone"


def test_retry_of_exceptions_is_off_unless_asked_for(attempt):
    calls: list[int] = []

    def body(out: Out) -> dict[str, int]:
        calls.append(1)
        if len(calls) < 3:
            raise ValueError("flaky")
        return {"n": len(calls)}

    assert reason(attempt(body)) == "ValueError: flaky" and len(calls) == 1
    assert attempt(body, retry=Retry(exceptions=1)).record.result == {"n": 3}


def test_log_file_is_closed_and_progress_is_in_it(attempt, world):
    before = len(os.listdir("/proc/self/fd"))
    status = attempt(lambda out: out.progress("half way", done=1, total=2) or {"n": 1})
    assert world.store.latest_event(status.planned.digest, 1, "progress")["message"] == "half way"
    assert len(os.listdir("/proc/self/fd")) <= before


def test_latest_event_is_found_at_the_end_of_a_long_log(attempt, world):
    def body(out: Out) -> dict[str, int]:
        for n in range(2_000):
            out.progress(f"step {n} " + "x" * 100)
        return {"n": 1}

    status = attempt(body)
    assert world.store.latest_event(status.planned.digest, 1, "progress")["message"].startswith("step 1999 ")
    assert json.dumps(world.store.latest_event(status.planned.digest, 1, "nothing of the kind")) == "null"
