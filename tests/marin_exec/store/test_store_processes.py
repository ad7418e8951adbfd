"""Real processes on one local store: racing, killed in the middle of a commit, stopped past their lease."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from marin_exec.records import Head, Record
from marin_exec.store import StalenessWatch, Store, Versioned, claim, layout, roots

WORKER = Path(__file__).with_name("store_worker.py")
DIGEST = "d" * 64
# Record: open, fsync, link, unlink; head: the same, then fsync of the directory, and the older number's unlink.
DISK_OPERATIONS_OF_A_COMMIT = 10


def start(environment: dict[str, str], store: Store, command: str, argument: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WORKER), command, store.prefix, DIGEST, str(argument)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def found_stale(store: Store) -> Versioned[Head]:
    """The head, after a watch with a clock of its own saw it unchanged for long enough."""
    now = 0.0
    watch = StalenessWatch(30, 10, clock=lambda: now)
    head = store.head(DIGEST)
    assert head is not None and not watch.is_stale(DIGEST, head.data)
    now = 30.0
    head = store.head(DIGEST)
    assert head is not None and watch.is_stale(DIGEST, head.data)
    return head


def test_lease_taken_by_four_processes_in_turn_is_never_shared(
    local_store: Store, worker_environment: dict[str, str]
) -> None:
    os.makedirs(local_store.prefix)
    workers = [start(worker_environment, local_store, "cycle", 25) for _ in range(4)]
    assert [worker.communicate(timeout=60)[0].strip() for worker in workers] == ["25"] * 4
    head = local_store.head(DIGEST)
    assert head is not None and (head.data.state, head.data.attempt) == ("free", 100)
    assert [name for name in os.listdir(local_store.url(layout.step_directory(DIGEST))) if "head" in name] == [
        f"head.json.{head.version:08d}"
    ]


def test_drivers_started_together_on_an_empty_store_have_one_winner(
    local_store: Store, worker_environment: dict[str, str], tmp_path: Path
) -> None:
    workers = [start(worker_environment, local_store, "race", tmp_path / "start") for _ in range(20)]
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    assert not os.path.exists(local_store.prefix)
    (tmp_path / "start").touch()
    answers = [worker.communicate(timeout=60)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 20
    assert sum("lease=True" in answer for answer in answers) == 1
    assert sum("root=True" in answer for answer in answers) == 1
    assert [root.digests for root in roots(local_store).values()] == [(DIGEST,)]


def test_commit_killed_before_each_disk_operation_leaves_all_or_nothing(
    tmp_path: Path, worker_environment: dict[str, str], make_record: Callable[..., Record]
) -> None:
    states = []
    for at in range(1, DISK_OPERATIONS_OF_A_COMMIT + 2):
        store = Store.open(str(tmp_path / str(at)))
        worker = start(worker_environment, store, "commit_killed", at)
        worker.communicate(timeout=60)
        assert worker.returncode == (-signal.SIGKILL if at <= DISK_OPERATIONS_OF_A_COMMIT else 0)
        head = store.head(DIGEST)
        assert head is not None
        states.append(head.data.state)
        if head.data.state == "done":
            assert store.current(DIGEST) is not None
            continue
        assert store.current(DIGEST) is None
        lease = claim(store, DIGEST, found_stale(store))
        assert lease is not None and (lease.attempt, lease.chain) == (2, 1)
        lease.commit(make_record(DIGEST, 2, 1))
        current = store.current(DIGEST)
        assert current is not None and current.attempt == 2
    # The link of the head, the seventh operation, is the commit: killed before it, nothing happened; after it, all did.
    assert states == ["held"] * 7 + ["done"] * 4


def test_holder_stopped_past_its_lease_can_do_nothing_after_waking(
    local_store: Store, worker_environment: dict[str, str], make_record: Callable[..., Record]
) -> None:
    worker = start(worker_environment, local_store, "hold", "")
    assert worker.stdout is not None and worker.stdout.readline() == "held\n"
    os.kill(worker.pid, signal.SIGSTOP)
    lease = claim(local_store, DIGEST, found_stale(local_store))
    assert lease is not None
    lease.renew()
    os.kill(worker.pid, signal.SIGCONT)
    answer, _ = worker.communicate("go on\n", timeout=60)
    assert answer.split() == ["lost"] * 3
    lease.commit(make_record(DIGEST, lease.attempt, lease.chain))
    current = local_store.current(DIGEST)
    assert current is not None and current.attempt == 2


@pytest.mark.parametrize("act", ["commit", "renew", "release"])
@pytest.mark.parametrize("renewals", [0, 5])
def test_holder_stopped_inside_the_replace_changes_nothing_after_waking(
    act: str,
    renewals: int,
    local_store: Store,
    worker_environment: dict[str, str],
    make_record: Callable[..., Record],
) -> None:
    worker = start(worker_environment, local_store, "stop_in_link", act)
    _, status = os.waitpid(worker.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    lease = claim(local_store, DIGEST, found_stale(local_store))
    assert lease is not None
    for _ in range(renewals):  # with any, the number that the stopped one is about to make is free again
        lease.renew()
    lease.commit(make_record(DIGEST, lease.attempt, lease.chain))
    before = local_store.head(DIGEST)
    os.kill(worker.pid, signal.SIGCONT)
    answer, _ = worker.communicate(timeout=60)
    assert answer == "lost\n"
    assert local_store.head(DIGEST) == before
    current = local_store.current(DIGEST)
    assert current is not None and current.attempt == 2


def test_reader_during_hundreds_of_replaces_sees_each_head_whole_and_in_order(
    local_store: Store, worker_environment: dict[str, str]
) -> None:
    os.makedirs(local_store.prefix)
    worker = start(worker_environment, local_store, "cycle", 40)
    seen: list[tuple[int, int]] = []
    while worker.poll() is None:
        head = local_store.head(DIGEST)
        if head is not None:
            assert isinstance(head.version, int)
            seen.append((head.version, head.data.attempt))
        else:
            assert not seen, "a head that was there is never gone"
    worker.communicate()
    assert seen == sorted(seen) and len(set(seen)) > 10
