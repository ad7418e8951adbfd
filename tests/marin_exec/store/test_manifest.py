"""Manifests: what is found in an output, what it digests to, what damage is seen, and how pieces are taken up."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from marin_exec.errors import StepFailed, StoreError
from marin_exec.records import FileEntry, Record
from marin_exec.store import Piece, Store
from marin_exec.store.layout import TEMPORARY
from marin_exec.store.manifest import output_digest, scan, scan_paths, take_up

DIGEST = "1" * 64
CONTENTS = {
    "b.txt": b"bee",
    "a/empty": b"",
    "a/b/big.bin": bytes(range(256)) * 10_000,
    "a-b": b"x",
    "sp ace #?%25é": b"?",
}


def filled(store: Store, contents: dict[str, bytes], attempt: int = 1) -> str:
    directory = store.make_attempt_directory("data/tiny", DIGEST, attempt)
    for path, data in contents.items():
        full = f"{store.url(directory)}/{path}"
        store.fs.makedirs(os.path.dirname(full), exist_ok=True)
        store.fs.pipe_file(full, data)
    return directory


def expected(contents: dict[str, bytes]) -> tuple[FileEntry, ...]:
    return tuple(
        FileEntry(path, len(contents[path]), "xxh3-128:" + xxhash.xxh3_128_hexdigest(contents[path]))
        for path in sorted(contents)
    )


def test_scan_lists_every_file_sorted_with_size_and_checksum(store: Store) -> None:
    directory = filled(store, CONTENTS)
    assert scan(store.fs, store.url(directory)) == expected(CONTENTS)


def test_scan_paths_lists_files_and_directories_asked_for(store: Store) -> None:
    directory = store.url(filled(store, CONTENTS))
    chosen = {path: data for path, data in CONTENTS.items() if path.startswith("a/") or path == "b.txt"}
    assert scan_paths(store.fs, directory, ["a", "b.txt", "a/b"]) == expected(chosen)
    with pytest.raises(StepFailed, match=r"/c: does not exist"):
        scan_paths(store.fs, directory, ["c"])


def test_scan_of_names_that_are_not_text_keeps_them(local_store: Store) -> None:
    directory = local_store.url(filled(local_store, {}))
    (Path(directory) / os.fsdecode(b"\n\xff.bin")).write_bytes(b"1")
    (entry,) = scan(local_store.fs, directory)
    assert FileEntry.from_json(entry.to_json()) == entry and os.fsencode(entry.path) == b"\n\xff.bin"
    assert len(output_digest([entry], None)) == 64


def test_scan_leaves_temporary_names_out(store: Store) -> None:
    directory = store.url(filled(store, {"a/x": b"1", f"a/{TEMPORARY}00": b"half"}))
    assert [entry.path for entry in scan(store.fs, directory)] == ["a/x"]


def test_scan_follows_links_that_stay_inside(local_store: Store) -> None:
    directory = Path(local_store.url(filled(local_store, {"blobs/x": b"1"})))
    (directory / "named").symlink_to("blobs/x")
    found = scan(local_store.fs, str(directory))
    assert [(entry.path, entry.size_bytes) for entry in found] == [("blobs/x", 1), ("named", 1)]
    assert found[0].checksum == found[1].checksum


@pytest.mark.parametrize("case", ["outside", "dangling", "directory", "loop", "pipe"])
def test_scan_of_what_cannot_be_kept_is_refused_by_name(local_store: Store, tmp_path: Path, case: str) -> None:
    directory = Path(local_store.url(filled(local_store, {"d/x": b"1"})))
    (tmp_path / "elsewhere").write_bytes(b"2")
    odd = directory / "d" / "odd"
    if case == "pipe":
        os.mkfifo(odd)
    else:
        targets = {"outside": tmp_path / "elsewhere", "dangling": "gone", "directory": "../d", "loop": "odd"}
        odd.symlink_to(targets[case])
    with pytest.raises(StepFailed, match=rf"^{odd}: (a link to|neither)"):
        scan(local_store.fs, str(directory))


entries = st.builds(FileEntry, path=st.text(max_size=5), size_bytes=st.integers(0), checksum=st.text(max_size=5))


@given(st.lists(entries, unique_by=lambda entry: entry.path), st.randoms(use_true_random=False))
def test_output_digest_does_not_depend_on_the_order_of_files(files: list[FileEntry], random: object) -> None:
    shuffled = files.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert output_digest(shuffled, {"a": 1, "b": 2}) == output_digest(files, {"b": 2, "a": 1})


def test_output_digest_differs_with_each_thing_it_stands_for() -> None:
    entry = FileEntry("a", 1, "c")
    digests = [
        output_digest([], None),
        output_digest([entry], None),
        output_digest([entry], {"n": 1}),
        output_digest([entry], {"n": 1.0}),
        output_digest([entry], {"n": "1"}),
        output_digest([entry], {"n": True}),
        output_digest([FileEntry("b", 1, "c")], None),
        output_digest([FileEntry("a", 2, "c")], None),
        output_digest([FileEntry("a", 1, "d")], None),
        output_digest([entry], None, content_digest="c"),
        output_digest([entry], {"n": 1}, content_digest="c"),
        output_digest([entry], None, content_digest="d"),
    ]
    assert len(set(digests)) == len(digests)
    assert output_digest([], None, content_digest="c") == output_digest([entry], None, content_digest="c")


def test_missing_and_cut_and_damaged_files_are_found(store: Store, make_record: Callable[..., Record]) -> None:
    contents = {"a": b"1", "b/c": b"22", "d": b"333"}
    directory = filled(store, contents)
    record = make_record(DIGEST, 1, 1, output_path=directory, files=scan(store.fs, store.url(directory)))
    assert store.missing_files(record) == [] == store.verify(record)
    store.fs.pipe_file(f"{store.url(directory)}/d", b"334")
    assert store.missing_files(record) == []
    ((path, reason),) = store.verify(record)
    assert path == "d" and reason.startswith("checksum xxh3-128:") and reason.endswith(" recorded")
    store.fs.pipe_file(f"{store.url(directory)}/b/c", b"2")
    store.fs.rm(f"{store.url(directory)}/a")
    assert store.missing_files(record) == [("a", "missing"), ("b/c", "1 bytes, 2 recorded")]
    store.fs.rm(store.url(directory), recursive=True)
    assert [reason for _, reason in store.missing_files(record)] == ["missing"] * 3


def test_directory_in_the_place_of_a_file_is_missing(local_store: Store, make_record: Callable[..., Record]) -> None:
    directory = filled(local_store, {"a": b"1", "b": b"2"})
    files = scan(local_store.fs, local_store.url(directory))
    record = make_record(DIGEST, 1, 1, output_path=directory, files=(*files, FileEntry("b/under", 1, "x")))
    os.unlink(f"{local_store.url(directory)}/a")
    os.mkdir(f"{local_store.url(directory)}/a")
    assert local_store.missing_files(record) == [("a", "missing"), ("b/under", "missing")]


def piece_of(store: Store, directory: str) -> Piece:
    files = scan(store.fs, store.url(directory))
    return Piece(name="p", attempt=1, attempt_path=directory, files=files)


def test_taken_up_piece_makes_the_new_output_whole_without_the_old(store: Store) -> None:
    old, new = filled(store, CONTENTS), filled(store, {"own": b"1"}, attempt=2)
    take_up(store, piece_of(store, old), old, new)
    store.fs.rm(store.url(old), recursive=True)
    assert scan(store.fs, store.url(new)) == expected({**CONTENTS, "own": b"1"})


def test_taken_up_piece_replaces_an_unfinished_file_and_may_be_taken_up_twice(store: Store) -> None:
    old, new = filled(store, {"d/x": b"whole"}), filled(store, {"d/x": b"wh"}, attempt=2)
    for _ in range(2):
        take_up(store, piece_of(store, old), store.url(old), store.url(new))
        assert scan(store.fs, store.url(new)) == expected({"d/x": b"whole"})
        assert store.fs.find(store.url(new)) == [store.fs._strip_protocol(f"{store.url(new)}/d/x")]
    take_up(store, piece_of(store, old), old, old)
    assert scan(store.fs, store.url(old)) == expected({"d/x": b"whole"})


def test_taken_up_piece_costs_no_space_on_a_local_disk(local_store: Store) -> None:
    old, new = filled(local_store, {"x": b"1"}), filled(local_store, {}, attempt=2)
    take_up(local_store, piece_of(local_store, old), old, new)
    assert os.path.samefile(f"{local_store.url(old)}/x", f"{local_store.url(new)}/x")


def test_taken_up_piece_is_copied_where_links_are_refused(local_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = filled(local_store, {"x": b"1"}), filled(local_store, {}, attempt=2)

    def refuse(source: str, target: str) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", refuse)
    take_up(local_store, piece_of(local_store, old), old, new)
    assert scan(local_store.fs, local_store.url(new)) == expected({"x": b"1"})
    assert not os.path.samefile(f"{local_store.url(old)}/x", f"{local_store.url(new)}/x")


def test_copy_that_fails_half_way_leaves_no_name_behind(local_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = filled(local_store, {"x": b"12"}), filled(local_store, {}, attempt=2)

    def fail(source: str, target: str) -> None:
        Path(target).write_bytes(b"1")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "link", fail)  # fails, so a copy is tried
    monkeypatch.setattr(shutil, "copyfile", fail)
    with pytest.raises(OSError, match="No space"):
        take_up(local_store, piece_of(local_store, old), old, new)
    assert os.listdir(local_store.url(new)) == []


def test_damaged_piece_is_not_taken_up_at_all(store: Store) -> None:
    old, new = filled(store, {"a": b"1", "b": b"22"}), filled(store, {"own": b"1"}, attempt=2)
    piece = piece_of(store, old)
    store.fs.pipe_file(f"{store.url(old)}/b", b"2")
    with pytest.raises(StoreError, match=r"/b: 1 bytes, 2 recorded; piece 'p' of attempt 1 can't be taken up"):
        take_up(store, piece, old, new)
    assert scan(store.fs, store.url(new)) == expected({"own": b"1"})
