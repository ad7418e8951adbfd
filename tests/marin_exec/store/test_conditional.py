"""What every backend of conditional files promises, on both."""

import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from marin_exec.store import AlreadyExists, Conflict
from marin_exec.store.conditional import ConditionalFiles
from marin_exec.store.local import LocalFiles
from marin_exec.store.memory import MemoryFiles

HEAD = "steps/x/head.json"


@pytest.fixture(params=["local", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ConditionalFiles]:
    yield LocalFiles(str(tmp_path)) if request.param == "local" else MemoryFiles(f"memory://{uuid.uuid4().hex}/")


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


def test_log_is_read_back_and_has_one_writer(files: ConditionalFiles) -> None:
    log = files.open_log("steps/x/1-1.jsonl")
    log.append(b"one\n")
    log.append(b"two\n")
    found = files.read("steps/x/1-1.jsonl")
    assert found is not None and found.data == b"one\ntwo\n"
    with pytest.raises(AlreadyExists):
        files.open_log("steps/x/1-1.jsonl")
    log.close()


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


@pytest.mark.parametrize("backend", ["local", "memory"])
def test_any_sequence_of_operations_agrees_with_a_model(backend: str, tmp_path: Path) -> None:
    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            name = uuid.uuid4().hex
            self.files: ConditionalFiles = (
                LocalFiles(str(tmp_path / name)) if backend == "local" else MemoryFiles(f"memory://{name}/")
            )
            self.content: bytes | None = None
            self.versions: list[int | str] = []

        @rule(data=st.binary(max_size=3))
        def create(self, data: bytes) -> None:
            if self.content is None:
                self.versions.append(self.files.create(HEAD, data))
                self.content = data
            else:
                with pytest.raises(AlreadyExists):
                    self.files.create(HEAD, data)

        @rule(data=st.binary(max_size=3), back=st.integers(0, 3))
        def replace(self, data: bytes, back: int) -> None:
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

    run_state_machine_as_test(Machine, settings=settings(max_examples=10, stateful_step_count=12, deadline=None))


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
    assert os.listdir(tmp_path) == ["head.json.00000004"]


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
