"""Steps that run as several ranks: they start together, end together, and count once."""

import json
import os
import signal
import subprocess

import pytest
from engine import EXPERIMENTS, Engine
from processes import alive
from waiting import wait_until

import marin_exec
from marin_exec import ConfigError, Out, Resources, Step, kind


@pytest.fixture
def engine(engine) -> Engine:
    engine.experiment = EXPERIMENTS / "gang.py"
    return engine


def record(engine: Engine) -> dict:
    return json.loads(engine.call("show", "gang", "--json").stdout)["record"]


def pids(engine: Engine) -> list[int]:
    return [int(path.read_text() or 0) for path in sorted(engine.folder.glob("rank-*"))]


def test_gang_meets_and_all_ranks_files_are_its_output(engine):
    done = engine.run("--ranks", "3", backend="ray")
    assert done.returncode == 0, done.stderr
    made = record(engine)
    assert made["result"] == {"ranks": 3} and made["attempt"] == 1
    assert [each["path"] for each in made["files"]] == ["part-0", "part-1", "part-2"]
    assert made["resources"]["ranks"] == 3
    # The number of ranks is no identity: the same step in one process, or in four, is a hit.
    for ranks in ("1", "4"):
        (step,) = json.loads(engine.call("plan", "--json", "--ranks", ranks).stdout)["steps"]
        assert step["action"] == "REUSE"


def test_gang_rank_killed_stops_the_others_counts_as_infrastructure_and_the_next_attempt_ends_well(engine):
    done = engine.run("--how", "killed_once", backend="ray")
    assert done.returncode == 0, done.stderr
    assert "rank 1: WorkerCrashedError" in done.stderr and "ConnectionResetError" not in done.stderr
    assert record(engine)["attempt"] == 2
    assert [each["path"] for each in record(engine)["files"]] == ["part-0", "part-1"]


def test_gang_rank_that_raises_stops_the_others_and_its_reason_is_the_failure(engine):
    done = engine.run("--how", "raises", backend="ray")
    assert done.returncode == 1
    assert "FAILED gang (attempt 1): ValueError: rank 1 does not like it" in done.stderr
    wait_until(lambda: not any(map(alive, pids(engine))), what="the end of both ranks")


def test_gang_cancelled_leaves_no_rank_and_gives_its_place_back(engine, start):
    driver = start("--how", "held")
    wait_until(lambda: len(pids(engine)) == 2 and all(pids(engine)), what="two ranks")
    assert all(map(alive, pids(engine)))
    driver.send_signal(signal.SIGTERM)
    _, said = driver.communicate(timeout=60)
    assert driver.returncode == 130, said
    wait_until(lambda: not any(map(alive, pids(engine))), seconds=20, what="the end of both ranks")
    # The cluster has two CPUs: a gang that needs both of them finds them.
    follower = engine.run("--ranks", "4", backend="ray")
    assert follower.returncode == 0, follower.stderr


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed_at_start", "killed_at_end", "chief_killed_at_end"])
def test_gang_rank_killed_at_any_time_is_followed_by_an_attempt_that_ends_well(engine, how):
    done = engine.run("--how", how, backend="ray")
    assert done.returncode == 0, done.stderr
    rank = 0 if how == "chief_killed_at_end" else 1
    assert f"rank {rank}: WorkerCrashedError" in done.stderr, done.stderr
    assert record(engine)["attempt"] == 2
    assert [each["path"] for each in record(engine)["files"]] == ["part-0", "part-1"]


@pytest.mark.slow
def test_gang_rank_that_hangs_in_a_library_is_killed_when_another_fails(engine):
    done = engine.run("--how", "hangs", backend="ray")
    assert done.returncode == 1
    assert "FAILED gang (attempt 1): ValueError: rank 1 does not like it" in done.stderr
    wait_until(lambda: not any(map(alive, pids(engine))), what="the end of both ranks")


def spans(engine: Engine) -> list[list[tuple[float, float]]]:
    """Returns when each rank of each gang began and ended."""
    of_gangs = [sorted(engine.folder.glob(f"span-{number}-*")) for number in (0, 1)]
    return [[tuple(map(float, path.read_text().split())) for path in gang] for gang in of_gangs]


def apart(first: list[tuple[float, float]], second: list[tuple[float, float]]) -> bool:
    return max(end for _, end in first) <= min(begin for begin, _ in second)


def wait_for_line(driver: subprocess.Popen[str], part: str) -> None:
    """Reads what a driver says until a line has this part."""
    assert driver.stderr is not None
    said = []
    for line in driver.stderr:
        said.append(line)
        if part in line:
            return
    raise AssertionError(f"ended, and never said {part!r}: {''.join(said)}")


@pytest.mark.slow
@pytest.mark.parametrize("num_drivers", [1, 2])
def test_gangs_that_each_need_more_than_half_the_cluster_run_one_after_the_other(engine, start, num_drivers):
    chosen = [[]] if num_drivers == 1 else [["--only", "gang"], ["--only", "gang/1"]]
    drivers = [start("--how", "takes_seconds", "--ranks", "3", "--gangs", "2", *each) for each in chosen]
    said = [driver.communicate(timeout=200)[1] for driver in drivers]
    assert all(driver.returncode == 0 for driver in drivers), said
    first, second = spans(engine)
    assert len(first) == len(second) == 3 and (apart(first, second) or apart(second, first))
    waits = "(queued: waits for a place on the cluster, which is in use (0.5 CPU for each of 3 ranks at a time))"
    assert waits in "".join(said)


@pytest.mark.slow
def test_gangs_with_a_limit_run_one_after_the_other_and_the_slot_of_a_killed_driver_is_free_again(engine, start):
    driver = start("--how", "held", "--limit", "1")
    wait_until(lambda: len(pids(engine)) == 2 and all(pids(engine)), what="two ranks")
    follower = start("--how", "takes_seconds", "--gangs", "2", "--limit", "1")
    assert follower.stderr is not None
    wait_until(
        lambda: "waits for a slot of gangs (1 of 1 taken)" in follower.stderr.readline(), what="the other's wait"
    )
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate(timeout=30)
    _, said = follower.communicate(timeout=120)
    assert follower.returncode == 0, said
    first, second = spans(engine)
    assert len(first) == len(second) == 2 and (apart(first, second) or apart(second, first))


@pytest.mark.slow
def test_gang_cancelled_while_it_waits_for_its_place_leaves_nothing_behind(engine, start):
    holder = start("--how", "held", "--ranks", "3")
    wait_until(lambda: len(pids(engine)) == 3 and all(pids(engine)), what="three ranks")
    waiting = start("--how", "well", "--ranks", "3")
    wait_for_line(waiting, "queued: waits for a place")
    waiting.send_signal(signal.SIGTERM)
    _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 130, said
    assert len(pids(engine)) == 3 and all(map(alive, pids(engine)))
    holder.send_signal(signal.SIGTERM)
    holder.communicate(timeout=60)
    # A group that was left behind would have taken the place by now.
    after = engine.run("--how", "well", "--ranks", "4", backend="ray")
    assert after.returncode == 0, after.stderr


@pytest.mark.slow
def test_gang_driver_killed_its_ranks_die_and_their_place_is_free(engine, start):
    driver = start("--how", "held", "--ranks", "4")
    wait_until(lambda: len(pids(engine)) == 4 and all(pids(engine)), what="four ranks")
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate(timeout=30)
    wait_until(lambda: not any(map(alive, pids(engine))), what="the end of the ranks")
    follower = engine.run("--ranks", "4", backend="ray")
    assert follower.returncode == 0, follower.stderr


def test_gang_on_the_local_backend_is_refused(engine):
    done = engine.run("--ranks", "2", backend="local")
    assert done.returncode == 2
    assert "step gang: needs 2 ranks, and --backend local is one process" in done.stderr


@kind("tests/one-process", version=1)
def one_process(config: None, out: Out) -> int:
    return 1


def test_step_whose_kind_does_not_run_in_ranks_is_refused_when_it_is_made():
    with pytest.raises(ConfigError, match=r"step alone: asks for 2 ranks.*'tests/one-process'.*gang=True"):
        Step("alone", one_process, resources=Resources(ranks=2))


@pytest.mark.parametrize("ranks", [0, -1, 1.5, True, "2"])
def test_number_of_ranks_is_checked(ranks):
    with pytest.raises(ConfigError, match="Resources: ranks is"):
        marin_exec.Resources(ranks=ranks)
