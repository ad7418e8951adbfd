"""Replaceable objects on a local disk, exhaustively: the real `LocalFiles` of several processes, system call by system call.

Listing, link, unlink and open are the scheduling points; a process may be paused for ever at each, as by SIGSTOP or a
kill. What is private to a process (its temporary file) is not one. A listing may be of one moment, as small directories
give it, or show any mixture of what was there while it was read.
"""

import itertools
import os
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from interleavings import Actor, Call, Calls, Raised, explore

from marin_exec.store import AlreadyExists, Conflict, local
from marin_exec.store.local import LocalFiles

NAME = "head.json"


@dataclass(frozen=True)
class Disk:
    """The numbers of the object's names in its directory with their contents, and its history."""

    files: tuple[tuple[int, str], ...] = ()
    history: tuple[str, ...] = ()
    """Every content that was ever the newest; its place in here, from 1, is its number."""
    scans: tuple[tuple[int, frozenset[int], frozenset[int]], ...] = ()
    """For each actor that is reading the directory: what was there all the time, and what came or went meanwhile."""

    def changed(self, files: dict[int, str]) -> "Disk":
        """Returns the disk with these names.

        Raises:
            AssertionError: what is newest went back, was skipped or has changed under its number.
        """
        old, new = dict(self.files), files
        history = self.history
        newest = max(new, default=0)
        assert newest >= len(history), f"number {len(history)} was the newest, and now {newest} is"
        if newest > len(history):
            assert newest == len(history) + 1, "a number was skipped"
            history = (*history, new[newest])
        assert not newest or new[newest] == history[newest - 1], "other content under the newest number"
        moved = old.keys() ^ new.keys()
        scans = tuple((actor, there - moved, maybe | moved) for actor, there, maybe in self.scans)
        return Disk(tuple(sorted(files.items())), history, scans)


class Directory:
    """The system calls of one directory. `torn`: a listing takes a while, in which names come and go."""

    def __init__(self, torn: bool = False):
        self._torn = torn

    def outcomes(self, disk: Disk, actor: int, call: Call) -> Iterator[tuple[Disk, Any]]:
        files = dict(disk.files)
        number = call.arguments[0] if call.arguments else 0
        match call.name:
            case "begin listing":
                scan = (actor, frozenset(files), frozenset[int]())
                yield (replace(disk, scans=(*disk.scans, scan)), True) if self._torn else (disk, tuple(sorted(files)))
            case "end listing":
                ((_, there, maybe),) = [each for each in disk.scans if each[0] == actor]
                ended = replace(disk, scans=tuple(each for each in disk.scans if each[0] != actor))
                for size in range(len(maybe) + 1):
                    for seen in itertools.combinations(sorted(maybe), size):
                        yield ended, tuple(sorted({*there, *seen}))
            case "exists":
                yield disk, number in files
            case "open":
                yield disk, files[number] if number in files else Raised(FileNotFoundError)
            case "unlink":
                rest = {each: text for each, text in files.items() if each != number}
                yield disk.changed(rest), None if number in files else Raised(FileNotFoundError)
            case "link" if number in files:
                yield disk, Raised(FileExistsError)
            case "link":
                yield disk.changed({**files, number: call.arguments[1]}), None
            case _:
                raise NotImplementedError(call)

    def spontaneous(self, disk: Disk) -> Iterator[Disk]:
        return iter(())

    def check_end(self, disk: Disk, actor: int, result: Any) -> None:
        for how, number, text in result:
            if how in ("made", "read"):
                assert disk.history[number - 1] == text, f"{how} {text!r} as number {number}, which is another's"
        numbers = [number for how, number, _ in result if how in ("made", "read")]
        assert numbers == sorted(numbers), "an actor saw the object go back"


class FakeOs:
    """The `os` of the module under test: calls about the object go to the model, its temporary file is kept here."""

    O_CREAT, O_EXCL, O_WRONLY, O_RDONLY = os.O_CREAT, os.O_EXCL, os.O_WRONLY, os.O_RDONLY
    O_CLOEXEC, O_DIRECTORY = os.O_CLOEXEC, os.O_DIRECTORY

    def __init__(self, calls: Calls, torn: bool):
        self._calls = calls
        self._torn = torn
        self._text = ""
        self._left = b""
        self.path = types.SimpleNamespace(
            join=os.path.join, dirname=os.path.dirname, isdir=lambda directory: True, lexists=self._exists
        )

    def _exists(self, full: str) -> bool:
        return self._calls.ask("exists", _number(full))

    def listdir(self, directory: str) -> list[str]:
        numbers = self._calls.ask("begin listing")
        if self._torn:
            numbers = self._calls.ask("end listing")
        return [f"{NAME}.{number:08d}" for number in numbers]

    def link(self, temporary: str, final: str) -> None:
        self._calls.ask("link", _number(final), self._text)

    def unlink(self, full: str) -> None:
        if NAME in full:
            self._calls.ask("unlink", _number(full))

    def open(self, full: str, flags: int, mode: int = 0) -> int:
        if NAME in full:
            self._left = self._calls.ask("open", _number(full)).encode()
        return 7

    def read(self, descriptor: int, size: int) -> bytes:
        data, self._left = self._left, b""
        return data

    def close(self, descriptor: int) -> None:
        return

    def stat(self, temporary: str) -> types.SimpleNamespace:
        return types.SimpleNamespace(st_nlink=1)  # asked when a link was refused

    def fsync(self, descriptor: int) -> None:
        return

    def fdopen(self, descriptor: int, mode: str) -> "FakeOs":
        """The temporary file itself, as `open(descriptor, "wb")` gives it."""
        return self

    def __enter__(self) -> "FakeOs":
        return self

    def __exit__(self, *exc_info: object) -> None:
        return

    def write(self, data: bytes) -> None:
        self._text = data.decode()

    def flush(self) -> None:
        return

    def fileno(self) -> int:
        return 7


def _number(full: str) -> int:
    return int(full.rpartition(".")[2])


def process(act: Callable[[LocalFiles], list[Any]], patch: pytest.MonkeyPatch, torn: bool) -> Actor:
    def run(calls: Calls) -> Any:
        fake = FakeOs(calls, torn)
        patch.setattr(local, "os", fake)
        patch.setattr(local, "open", fake.fdopen, raising=False)
        return tuple(act(LocalFiles("/store")))

    return run


def replaces(name: str, times: int) -> Callable[[LocalFiles], list[Any]]:
    """Reads and replaces what it read, so many times."""

    def act(files: LocalFiles) -> list[Any]:
        said = []
        for turn in range(times):
            found = files.read(NAME)
            assert found is not None, "an object that was made is never gone"
            said.append(("read", found.version, found.data.decode()))
            text = f"{name}{turn}"
            try:
                said.append(("made", files.replace(NAME, text.encode(), found.version), text))
            except Conflict:
                said.append(("conflict", 0, text))
        return said

    return act


def creates(name: str) -> Callable[[LocalFiles], list[Any]]:
    """Makes the object, and replaces it if that was possible."""

    def act(files: LocalFiles) -> list[Any]:
        try:
            version = files.create(NAME, name.encode())
        except AlreadyExists:
            return [("conflict", 0, name)]
        try:
            return [("made", version, name), ("made", files.replace(NAME, f"{name}+".encode(), version), f"{name}+")]
        except Conflict:
            return [("made", version, name), ("conflict", 0, "")]

    return act


def reads(files: LocalFiles) -> list[Any]:
    found = [files.read(NAME) for _ in range(2)]
    return [("read", each.version, each.data.decode()) for each in found if each is not None]


MADE = Disk(((1, "first"),), ("first",))
CASES = {
    "two that replace twice": (MADE, [replaces("a", 2), replaces("b", 2)]),
    "three that replace": (MADE, [replaces("a", 1), replaces("b", 1), replaces("c", 1)]),
    "two that replace and one that reads": (MADE, [replaces("a", 1), replaces("b", 1), reads]),
    "two that create and one that replaces": (Disk(), [creates("a"), creates("b")]),
    "three that create": (Disk(), [creates("a"), creates("b"), creates("c")]),
}


def explored(case: str, patch: pytest.MonkeyPatch, torn: bool) -> int:
    disk, acts = CASES[case]
    with patch.context() as inside:
        return explore(Directory(torn), disk, [process(act, inside, torn) for act in acts])


@pytest.mark.parametrize("listings", ["of a moment", "torn"])
@pytest.mark.parametrize("case", CASES)
def test_writers_on_one_object_in_every_interleaving(case, listings, monkeypatch):
    assert explored(case, monkeypatch, torn=listings == "torn") > 100


def test_loser_that_removes_its_link_is_found_out(monkeypatch):
    """It may have been the newest for a while: whoever replaced it then finds it gone, and gives up what is the newest."""

    def replace_and_tidy(files: LocalFiles, path: str, data: bytes, version: int) -> int:
        full = files._base + path
        try:
            return real(files, path, data, version)
        except Conflict:
            local._unlink(local._numbered(full, version + 1))
            raise

    real = LocalFiles.replace
    monkeypatch.setattr(LocalFiles, "replace", replace_and_tidy)
    with pytest.raises(AssertionError, match="was the newest, and now"):
        explored("two that replace twice", monkeypatch, torn=False)


def test_writer_that_does_not_list_after_its_link_is_found_out(monkeypatch):
    """One that slept finds the next number free again, and believes that it made the newest."""

    def replace_without_a_look(files: LocalFiles, path: str, data: bytes, version: int) -> int:
        full = files._base + path
        if max(local._numbers(full), default=0) != version:
            raise Conflict(path)
        try:
            local._link_new(local._numbered(full, version + 1), data, make_parents=False)
        except AlreadyExists:
            raise Conflict(path) from None
        for number in local._numbers(full):
            if number <= version:
                local._unlink(local._numbered(full, number))
        return version + 1

    monkeypatch.setattr(LocalFiles, "replace", replace_without_a_look)
    with pytest.raises(AssertionError, match="which is another's"):
        explored("three that replace", monkeypatch, torn=False)
