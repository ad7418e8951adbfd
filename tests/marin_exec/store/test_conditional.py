"""What every backend of conditional files promises: local disk, memory, Google Cloud Storage and S3."""

import errno
import os
import random
import stat
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from marin_exec.store import AlreadyExists, Conflict, Store, claim
from marin_exec.store.conditional import ConditionalFiles
from marin_exec.store.layout import TEMPORARY
from marin_exec.store.local import LocalFiles

HEAD = "steps/x/head.json"


@pytest.fixture
def files(store: Store) -> ConditionalFiles:
    return store.files


def test_read_of_nothing_is_none(files: ConditionalFiles) -> None:
    assert files.read("a/b.json") is None and files.read(HEAD) is None
    assert files.names("a") == []


@pytest.mark.parametrize("path", ["a/b/c.json", HEAD])
def test_create_of_an_existing_object_is_refused_and_changes_nothing(files: ConditionalFiles, path: str) -> None:
    version = files.create(path, b"one")
    with pytest.raises(AlreadyExists):
        files.create(path, b"two")
    found = files.read(path)
    assert found is not None and (found.data, found.version) == (b"one", version)


def test_replace_gives_a_new_version_and_refuses_the_old_one(files: ConditionalFiles) -> None:
    first = files.create(HEAD, b"one")
    second = files.replace(HEAD, b"two", first)
    assert second != first
    with pytest.raises(Conflict):
        files.replace(HEAD, b"three", first)
    found = files.read(HEAD)
    assert found is not None and (found.data, found.version) == (b"two", second)
    with pytest.raises(AlreadyExists):
        files.create(HEAD, b"four")


def test_replace_of_nothing_is_a_conflict_and_makes_nothing(files: ConditionalFiles) -> None:
    with pytest.raises(Conflict):
        files.replace(HEAD, b"one", 1)
    assert files.read(HEAD) is None and files.names("steps") == []


def test_names_are_those_directly_inside(files: ConditionalFiles) -> None:
    for path in ("d/b.json", "d/a.json", "d/e/f.json", "dd/g.json"):
        files.create(path, b"")
    assert files.names("d") == ["a.json", "b.json", "e"]


@pytest.mark.parametrize("path", ["a/b.json", HEAD])
def test_racing_creators_have_one_winner_in_each_round(files: ConditionalFiles, path: str) -> None:
    num_racers = 10
    for number in range(8):
        barrier = Barrier(num_racers)

        def create(racer: int, path: str = f"{number}/{path}", barrier: Barrier = barrier) -> int | None:
            barrier.wait()
            try:
                files.create(path, str(racer).encode())
            except AlreadyExists:
                return None
            return racer

        with ThreadPoolExecutor(num_racers) as threads:
            winners = [racer for racer in threads.map(create, range(num_racers)) if racer is not None]
        found = files.read(f"{number}/{path}")
        assert found is not None and winners == [int(found.data)]


def test_racing_replaces_lose_and_repeat_no_update(files: ConditionalFiles) -> None:
    files.create(HEAD, b"")

    def add(racer: int) -> None:
        for number in range(8):
            line = b"%d-%d\n" % (racer, number)
            while True:
                found = files.read(HEAD)
                assert found is not None
                if line in found.data:
                    break  # a conflict was reported, though the replace took effect: callers look for their own content
                try:
                    files.replace(HEAD, found.data + line, found.version)
                    break
                except Conflict:
                    continue

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, range(8)))
    found = files.read(HEAD)
    assert found is not None
    assert sorted(found.data.split()) == sorted(b"%d-%d" % (racer, number) for racer in range(8) for number in range(8))


def test_any_sequence_of_operations_agrees_with_a_model(store: Store) -> None:
    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.files = Store.open(f"{store.prefix}/{uuid.uuid4().hex}").files
            self.content: bytes | None = None
            self.versions: list[int | str] = []
            self.made = 0

        def new_content(self) -> bytes:
            self.made += 1  # content never comes back: a version may be made of it
            return f"{self.made}".encode()

        @rule()
        def create(self) -> None:
            data = self.new_content()
            if self.content is None:
                self.versions.append(self.files.create(HEAD, data))
                self.content = data
            else:
                with pytest.raises(AlreadyExists):
                    self.files.create(HEAD, data)

        @rule(back=st.integers(0, 3))
        def replace(self, back: int) -> None:
            data = self.new_content()
            version = self.versions[-1 - back] if back < len(self.versions) else 10**9 + back
            if back == 0 and self.versions:
                self.versions.append(self.files.replace(HEAD, data, version))
                self.content = data
            else:
                with pytest.raises(Conflict):
                    self.files.replace(HEAD, data, version)

        @rule()
        def read(self) -> None:
            found = self.files.read(HEAD)
            assert (found.data if found else None) == self.content
            assert found is None or found.version == self.versions[-1]

    run_state_machine_as_test(Machine, settings=settings(max_examples=10, stateful_step_count=12))


def test_version_of_a_deleted_object_is_of_no_use_for_its_successor(files: ConditionalFiles) -> None:
    first = files.create(HEAD, b"one")
    files.delete_tree("steps/x")
    assert files.read(HEAD) is None
    with pytest.raises(Conflict):
        files.replace(HEAD, b"two", first)
    second = files.create(HEAD, b"three")
    if isinstance(files, LocalFiles):
        return  # numbers begin anew there, and nothing that counts is ever deleted
    assert second != first
    with pytest.raises(Conflict):
        files.replace(HEAD, b"four", first)


def test_what_was_written_is_read_and_listed_at_once(files: ConditionalFiles) -> None:
    for number in range(20):
        assert files.read(f"d/{number:02}.json") is None  # what is known not to be there is looked for again
        files.create(f"d/{number:02}.json", f"{number}".encode())
        found = files.read(f"d/{number:02}.json")
        assert found is not None and found.data == f"{number}".encode()
        assert files.names("d") == [f"{each:02}.json" for each in range(number + 1)]


def test_more_names_than_one_page_of_a_listing_holds_are_listed(files: ConditionalFiles) -> None:
    expected = [f"{number:04}.json" for number in range(1100)] + ["folder"]
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda name: files.create(f"many/{name}", b""), expected[:-1]))
        list(threads.map(lambda number: files.create(f"many/folder/{number}/x", b""), range(1100 // 50)))
    assert files.names("many") == expected


@pytest.mark.parametrize(
    "name", ["a b", "a%20b", "a%2Fb", "ünï/日本", "q?#&=+;", "[x]*", "'\"", "back\\slash", ".dot", "x" * 200]
)
def test_odd_names_are_kept(files: ConditionalFiles, name: str) -> None:
    files.create(f"odd/{name}/head.json", b"1")
    files.replace(f"odd/{name}/head.json", b"2", _version(files, f"odd/{name}/head.json"))
    files.create(f"odd/{name}/x.json", name.encode())
    found = files.read(f"odd/{name}/x.json")
    assert found is not None and found.data == name.encode()
    assert files.names("odd") == [name.split("/")[0]]
    assert "x.json" in files.names(f"odd/{name}")


def _version(files: ConditionalFiles, path: str) -> int | str:
    found = files.read(path)
    assert found is not None
    return found.version


def test_large_object_is_kept_whole(files: ConditionalFiles) -> None:
    data = random.Random(0).randbytes(20_000_000)  # a manifest of 100,000 files is about as large
    files.create("large.json", data)
    found = files.read("large.json")
    assert found is not None and found.data == data
    assert files.read_end("large.json", 1000) == data[-1000:] and files.read_end("nothing", 10) == b""


def test_delete_tree_removes_what_is_below_and_nothing_else(files: ConditionalFiles) -> None:
    for path in ("t/a.json", "t/b/c/d.json", "t/head.json", "tt/e.json", "t.json"):
        files.create(path, b"")
    files.delete_tree("t")
    assert files.names("t") == [] and files.read("t/b/c/d.json") is None and files.read("t/head.json") is None
    assert files.read("tt/e.json") is not None and files.read("t.json") is not None
    files.delete_tree("t")  # of what is not there: nothing


def test_prefixes_do_not_see_each_other(store: Store) -> None:
    inside, beside = Store.open(f"{store.prefix}/a"), Store.open(f"{store.prefix}/ab")
    inside.files.create("x/head.json", b"inside")
    assert beside.files.read("x/head.json") is None and beside.files.names("x") == []
    beside.files.create("x/head.json", b"beside")
    inside.files.delete_tree("x")
    found = beside.files.read("x/head.json")
    assert found is not None and found.data == b"beside"


def test_processes_that_count_together_lose_no_update(store: Store, worker_environment: dict[str, str]) -> None:
    if store.prefix.startswith("memory://"):
        pytest.skip("lives in one process")
    store.files.create("counter/head.json", b"0")
    command = [sys.executable, str(Path(__file__).with_name("store_worker.py")), "count", store.prefix, "-", "10"]
    workers = [subprocess.Popen(command, env=worker_environment) for _ in range(4)]
    assert [worker.wait(timeout=120) for worker in workers] == [0] * 4
    found = store.files.read("counter/head.json")
    assert found is not None and found.data.split()[0] == b"40"


# Local disks only


def test_local_create_leaves_no_temporary_name_even_if_the_link_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(PermissionError):
        LocalFiles(str(tmp_path)).create("a.json", b"one")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", ["a.json", HEAD])
def test_local_link_whose_answer_was_lost_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """A network file system does it, loses the answer, asks again, and is told that the name exists."""
    files, link = LocalFiles(str(tmp_path)), os.link

    def link_twice(source: str, target: str) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    version = files.create(path, b"one")
    if path == HEAD:
        version = files.replace(path, b"two", version)
    found = files.read(path)
    assert found is not None and (found.data, found.version) == (b"two" if path == HEAD else b"one", version)
    with pytest.raises(AlreadyExists):
        files.create(path, b"three")
    left = {each for each in os.listdir((tmp_path / path).parent) if each.startswith(TEMPORARY)}
    assert left == set()


def test_local_link_whose_answer_was_an_error_is_found_by_who_looks_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, link = Store.open(str(tmp_path)), os.link

    def link_and_fail(source: str, target: str) -> None:
        monkeypatch.setattr(os, "link", link)
        link(source, target)
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out", source, None, target)

    digest = "a" * 64
    lease = claim(store, digest, None)
    assert lease is not None
    monkeypatch.setattr(os, "link", link_and_fail)
    with pytest.raises(TimeoutError):
        lease.renew()
    lease.renew()
    head = store.head(digest)
    assert head is not None and (head.data.holder, head.data.beat) == (lease.holder, 1)


def test_local_replace_is_on_the_disk_before_the_older_number_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, order = LocalFiles(str(tmp_path)), []
    version = files.create("head.json", b"1")
    fsync, unlink = os.fsync, os.unlink

    def noted_fsync(descriptor: int) -> None:
        order.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def noted_unlink(path: str) -> None:
        order.append(os.path.basename(path).partition("-temporary")[0])
        unlink(path)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "unlink", noted_unlink)
    files.replace("head.json", b"2", version)
    assert order == ["file", ".marin", "directory", "head.json.00000001"]


def test_local_writer_that_slept_past_pruning_conflicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = LocalFiles(str(tmp_path))
    files.create("head.json", b"1")
    link = os.link

    def sleep_before_the_link(source: str, target: str) -> None:
        monkeypatch.setattr(os, "link", link)
        version = 1
        for data in (b"2", b"3", b"4"):
            version = files.replace("head.json", data, version)
        link(source, target)  # number 2 was pruned and is free again

    monkeypatch.setattr(os, "link", sleep_before_the_link)
    with pytest.raises(Conflict):
        files.replace("head.json", b"stale", 1)
    found = files.read("head.json")
    assert found is not None and (found.data, found.version) == (b"4", 4)
    files.replace("head.json", b"5", 4)
    assert os.listdir(tmp_path) == ["head.json.00000005"]  # what the sleeper left is gone with the next


def test_local_creator_that_slept_past_pruning_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = LocalFiles(str(tmp_path))
    link = os.link

    def sleep_before_the_link(source: str, target: str) -> None:
        monkeypatch.setattr(os, "link", link)
        files.replace("head.json", b"2", files.create("head.json", b"1"))
        link(source, target)

    monkeypatch.setattr(os, "link", sleep_before_the_link)
    with pytest.raises(AlreadyExists):
        files.create("head.json", b"stale")
    found = files.read("head.json")
    assert found is not None and found.data == b"2"


def test_local_leftovers_of_killed_writers_count_for_nothing(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))
    version = files.create("head.json", b"1")
    for _ in range(2):
        version = files.replace("head.json", b"more", version)
    (tmp_path / "head.json.00000001").write_bytes(b"not pruned")
    (tmp_path / ".marin-temporary-00").write_bytes(b"half a he")
    found = files.read("head.json")
    assert found is not None and found.data == b"more"
    assert files.names(".") == ["head.json.00000001", "head.json.00000003"]
    files.replace("head.json", b"next", version)
    assert sorted(os.listdir(tmp_path)) == [".marin-temporary-00", "head.json.00000004"]


def test_local_reader_whose_file_is_pruned_under_it_reads_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LocalFiles(str(tmp_path))
    files.create("head.json", b"1")
    listdir = os.listdir

    def list_then_replace(directory: str) -> list[str]:
        monkeypatch.setattr(os, "listdir", listdir)
        names = listdir(directory)
        files.replace("head.json", b"2", 1)
        return names

    monkeypatch.setattr(os, "listdir", list_then_replace)
    found = files.read("head.json")
    assert found is not None and (found.data, found.version) == (b"2", 2)


def test_local_replace_of_a_removed_head_never_makes_one(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))
    files.create("s/head.json", b"1")
    os.unlink(tmp_path / "s" / "head.json.00000001")
    with pytest.raises(Conflict):
        files.replace("s/head.json", b"2", 1)
    os.rmdir(tmp_path / "s")
    with pytest.raises(Conflict):
        files.replace("s/head.json", b"2", 1)
    assert os.listdir(tmp_path) == []
