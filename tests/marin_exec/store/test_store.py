"""Opening a store, finding what is in it, and what it says when it can't be used."""

import errno
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from marin_exec.errors import StoreError
from marin_exec.records import Record
from marin_exec.store import Lease, Store, check_writable, claim, layout, register_root, roots

DIGEST = "ab" * 32
OTHER = "ab" * 8 + "cd" * 24


def claimed(store: Store, digest: str = DIGEST) -> Lease:
    lease = claim(store, digest, store.head(digest))
    assert lease is not None
    return lease


@pytest.mark.parametrize(
    ("given", "prefix"),
    [
        ("/data/store", "/data/store"),
        ("/data/../data/./store//", "/data/store"),
        ("file:///data/store/", "/data/store"),
        ("memory://one", "memory://one"),
        ("memory:///one/", "memory://one"),
        ("gs://bucket/a/b/", "gs://bucket/a/b"),
        ("gcs://bucket//a/./b/../c", "gs://bucket/a/c"),
        ("GS://bucket", "gs://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3a://bucket/a%20b", "s3://bucket/a%20b"),
    ],
)
def test_open_makes_one_form_of_a_prefix(given: str, prefix: str) -> None:
    assert Store.open(given).prefix == prefix
    assert Store.open(prefix) == Store.open(given)


def test_open_of_a_relative_path_is_below_the_working_directory_and_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store.open("store")
    assert store.prefix == str(tmp_path / "store")
    assert store.head(DIGEST) is None and store.known_digests() == set() and store.outputs_in("a") == {}
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("prefix", ["hf://datasets/x", "http://host/x", "sftp://host/x", "az://container/x"])
def test_open_of_another_scheme_is_refused_by_name(prefix: str) -> None:
    scheme = prefix.partition(":")[0]
    with pytest.raises(StoreError, match=rf"store {prefix}: {scheme}:// has no conditional writes .* gs://bucket/path"):
        Store.open(prefix)


@pytest.mark.parametrize("prefix", ["", "a\0b", "file://relative/path", "gs://", "s3:///x"])
def test_open_of_no_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(StoreError, match=r"give a directory|absolute path|names no bucket"):
        Store.open(prefix)


def test_store_travels_by_pickle(store: Store) -> None:
    assert store.fs is not None and store.files is not None
    assert pickle.loads(pickle.dumps(store)) == store


def test_path_in_any_form_is_located(store: Store) -> None:
    directory = store.make_attempt_directory("a/b", DIGEST, 3)
    location = store.locate(store.url(directory) + "/x/y.txt/")
    assert (location.name, location.digest16, location.attempt, location.sub_path) == ("a/b", DIGEST[:16], 3, "x/y.txt")
    assert store.locate(f"{directory}/./x/z/../y.txt") == location
    assert location.attempt_path == directory


def test_path_through_a_link_or_the_working_directory_is_located(
    local_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = local_store.make_attempt_directory("a/b", DIGEST, 1)
    (tmp_path / "link").symlink_to(local_store.prefix)
    expected = local_store.locate(local_store.url(directory))
    assert local_store.locate(f"{tmp_path}/link/{directory}") == expected
    assert Store.open(str(tmp_path / "link")).locate(local_store.url(directory)) == expected
    assert local_store.locate("file://" + local_store.url(directory)) == expected
    monkeypatch.chdir(local_store.url("a"))
    assert local_store.locate(os.path.relpath(local_store.url(directory))) == expected


@pytest.mark.parametrize("path", ["/elsewhere/x", "../x", ".", "gs://bucket/x"])
def test_path_out_of_the_store_is_refused(store: Store, path: str) -> None:
    with pytest.raises(StoreError, match=r"not in the store"):
        store.locate(path)


def test_steps_are_found_by_digest_and_by_name(store: Store) -> None:
    for digest in (DIGEST, OTHER):
        claimed(store, digest)
    store.make_attempt_directory("a/b", DIGEST, 1)
    store.make_attempt_directory("a/b", DIGEST, 2)
    store.make_attempt_directory("a/b-c", OTHER, 1)
    for name in ("a/b", "a/b-c"):  # their directories hold a file, as every output does
        digest = DIGEST if name == "a/b" else OTHER
        store.fs.touch(store.url(layout.output_directory(name, digest)) + "/touched")
    assert store.known_digests() == {DIGEST, OTHER}
    assert store.outputs_in("a") == {"b": [DIGEST[:16]], "b-c": [OTHER[:16]]}
    assert store.outputs_in("b") == {}
    assert store.full_digest(DIGEST[:18]) == DIGEST
    with pytest.raises(StoreError, match=r"2 steps in .* begin so"):
        store.full_digest(DIGEST[:16])
    with pytest.raises(StoreError, match=r"no step in .* begins so"):
        store.full_digest("f" * 16)


def test_current_record_is_that_of_the_committed_attempt(store: Store, make_record: Callable[..., Record]) -> None:
    lease = claimed(store)
    assert store.current(DIGEST) is None
    record = make_record(DIGEST, 1, 1, result={"documents": 3})
    lease.commit(record)
    assert store.current(DIGEST) == record == store.record(DIGEST, 1)
    with pytest.raises(StoreError, match=r"2\.record\.json: missing"):
        store.record(DIGEST, 2)


def test_damaged_files_are_named(local_store: Store, make_record: Callable[..., Record]) -> None:
    claimed(local_store).commit(make_record(DIGEST, 1, 1))
    record = Path(local_store.url(layout.record(DIGEST, 1)))
    record.write_bytes(record.read_bytes()[:-5])
    with pytest.raises(StoreError, match=rf"{record}: damaged Record"):
        local_store.current(DIGEST)
    head = Path(local_store.url(layout.head(DIGEST)) + ".00000002")
    head.write_bytes(b"")
    with pytest.raises(StoreError, match=r"head.json: damaged Head: not JSON"):
        local_store.head(DIGEST)


def test_step_costs_four_small_files_at_most(local_store: Store, make_record: Callable[..., Record]) -> None:
    lease = claimed(local_store)
    for _ in range(3):
        lease.renew()
    with local_store.attempt_log(DIGEST, lease.attempt) as log:
        log.event("began")
        lease.commit(make_record(DIGEST, 1, 1))
    small = [path for path in Path(local_store.prefix).rglob("*") if path.is_file()]
    assert len(small) == 3 and sum(path.stat().st_size for path in small) < 4000


def test_log_segments_have_one_writer_and_are_read_in_order(store: Store) -> None:
    with store.attempt_log(DIGEST, 1) as first, store.attempt_log(DIGEST, 1) as second:
        first.event("began", shards=2)
        second.event("shard", name="a", path=Path("/x"))
        first.event("ended")
    with store.attempt_log(DIGEST, 2) as other:
        other.event("began")
    events = store.events(DIGEST, 1)
    assert [event["type"] for event in events] == ["began", "ended", "shard"]
    assert events[0]["shards"] == 2 and events[2]["path"] == "/x" and events[0]["time"].endswith("+00:00")
    assert store.attempts(DIGEST) == [1, 2] and store.events(DIGEST, 3) == []


def test_log_with_a_torn_last_line_is_read_without_it(local_store: Store) -> None:
    with local_store.attempt_log(DIGEST, 1) as log:
        log.event("began")
        log.event("ended")
    path = Path(local_store.url(layout.log(DIGEST, 1, 1)))
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert [event["type"] for event in local_store.events(DIGEST, 1)] == ["began"][: whole[:length].count(b"\n")]
    path.write_bytes(b"{torn}\n" + whole)
    with pytest.raises(StoreError, match=r"1-1\.jsonl: line 1 is damaged"):
        local_store.events(DIGEST, 1)


def test_root_is_registered_once_and_then_nothing_is_written(local_store: Store) -> None:
    assert register_root(local_store, "first", [DIGEST, OTHER])
    before = {path: path.stat().st_mtime_ns for path in Path(local_store.prefix).rglob("*")}
    assert not register_root(local_store, "first", [OTHER, DIGEST, OTHER])
    assert {path: path.stat().st_mtime_ns for path in Path(local_store.prefix).rglob("*")} == before
    assert register_root(local_store, "first", [DIGEST]) and register_root(local_store, "second", [DIGEST])
    assert register_root(local_store, "first", [DIGEST], reaches=[OTHER])
    assert [(root.name, len(root.digests), len(root.reaches)) for root in roots(local_store).values()] == [
        ("first", 1, 1),
        ("first", 1, 0),
        ("first", 2, 0),
        ("second", 1, 0),
    ]


# A store that can't be used


def test_writable_store_passes_and_keeps_no_probe(store: Store) -> None:
    check_writable(store)
    assert store.files.names(layout.CONTROL) == []


def test_store_below_a_file_is_refused_with_path_and_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store.open(str(tmp_path / "file" / "store"))
    with pytest.raises(StoreError, match=rf"store {store.prefix}: cannot be written: (Not a directory|File exists)"):
        check_writable(store)
    with pytest.raises(StoreError, match=rf"store {store.prefix}: cannot read .*: Not a directory"):
        store.head(DIGEST)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOTSUP])
def test_store_where_links_are_refused_is_refused_with_path_and_reason(
    local_store: Store, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(code, os.strerror(code), source, None, target)

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StoreError) as caught:
        check_writable(local_store)
    message = str(caught.value)
    assert local_store.prefix in message and os.strerror(code) in message and "--prefix" in message


def test_store_that_cannot_be_read_is_named(local_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> list[str]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "listdir", refuse)
    for read in (lambda: local_store.head(DIGEST), local_store.known_digests, lambda: local_store.outputs_in("a")):
        with pytest.raises(StoreError, match=r"cannot read .*: Permission denied"):
            read()


@pytest.mark.parametrize("scheme", ["s3", "S3a", "gs", "sftp"])
def test_prefix_with_credentials_is_refused_without_showing_them(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARIN_UNSAFE_FILESYSTEM", "sftp")
    with pytest.raises(StoreError, match=r"holds credentials.*AWS_SECRET_ACCESS_KEY") as raised:
        Store.open(f"{scheme}://someone:sup3rs3cretpw@bucket/path")
    assert "sup3rs3cretpw" not in str(raised.value)
