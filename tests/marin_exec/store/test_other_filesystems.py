"""Stores on what has no conditional writes: refused, unless asked for by name; and servers that only pretend to have them."""

import hashlib
import http.server
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from marin_exec.errors import StoreError
from marin_exec.records import Record
from marin_exec.store import Store, check_writable, claim, clients
from marin_exec.store.memory import MemoryFiles

DIGEST = "c" * 64


class PlainDisk(LocalFileSystem):
    """A filesystem that the store knows nothing of."""

    protocol = "plaindisk"
    local_file = False

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("plaindisk://").strip("/")


fsspec.register_implementation("plaindisk", PlainDisk, clobber=True)


@pytest.fixture
def unsafe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("MARIN_UNSAFE_FILESYSTEM", "plaindisk")
    return Store.open(f"plaindisk://{tmp_path}/store".replace("plaindisk:///", "plaindisk://"))


def test_other_filesystem_is_refused_unless_it_is_asked_for_by_its_own_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for allowed in ("", "sftp", "plain"):
        monkeypatch.setenv("MARIN_UNSAFE_FILESYSTEM", allowed)
        with pytest.raises(StoreError, match=r"MARIN_UNSAFE_FILESYSTEM=plaindisk takes it all the same"):
            Store.open("plaindisk://host/store")


def test_store_that_was_asked_for_works_for_one_driver_and_warns(
    unsafe: Store, make_record: Callable[..., Record]
) -> None:
    warning = check_writable(unsafe)
    assert "plaindisk:// has no conditional writes" in warning and "no two drivers" in warning
    lease = claim(unsafe, DIGEST, unsafe.head(DIGEST))
    assert lease is not None and claim(unsafe, DIGEST, None) is None
    with unsafe.attempt_log(DIGEST, 1) as log:
        log.event("began")
    lease.renew()
    record = make_record(DIGEST, 1, 1)
    lease.commit(record)
    assert unsafe.current(DIGEST) == record and unsafe.known_digests() == {DIGEST}
    assert [event["type"] for event in unsafe.events(DIGEST, 1)] == ["began"]


def test_stores_that_keep_conditions_are_not_warned_of(store: Store) -> None:
    assert check_writable(store) == ""


class IgnoringCreate(MemoryFiles):
    def create(self, path: str, data: bytes) -> int | str:
        found = self.read(path)
        return super().create(path, data) if found is None else super().replace(path, data, found.version)


class IgnoringReplace(MemoryFiles):
    def replace(self, path: str, data: bytes, version: int | str) -> int | str:
        found = self.read(path)
        return super().replace(path, data, found.version if found else version)


@pytest.mark.parametrize(("kind", "what"), [(IgnoringCreate, "create"), (IgnoringReplace, "replace")])
def test_backend_that_ignores_a_condition_is_refused(kind: type[MemoryFiles], what: str) -> None:
    store = Store.open(f"memory://{uuid.uuid4().hex}")
    store.__dict__["files"] = kind(f"{store.prefix}/")
    with pytest.raises(StoreError, match=rf"ignores the condition of a write \(a {what} took effect that should not\)"):
        check_writable(store)


class PretendingS3(http.server.BaseHTTPRequestHandler):
    """An S3 server that takes every header and heeds none, or refuses everybody."""

    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes]
    refuses = False

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.refuses:
            self._answer(403, b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")
            return
        self.objects[self.path] = body
        self._answer(200, b"", ETag=f'"{hashlib.md5(body).hexdigest()}"')

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        return


@pytest.fixture
def pretending(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[PretendingS3]]:
    handler = type("Handler", (PretendingS3,), {"objects": {}})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    yield handler
    server.shutdown()
    server.server_close()


def test_server_that_ignores_conditions_is_refused(pretending: type[PretendingS3]) -> None:
    with pytest.raises(StoreError, match=r"store s3://bucket/x: ignores the condition of a write"):
        check_writable(Store.open("s3://bucket/x"))
    assert len(pretending.objects) == 1


def test_server_that_refuses_access_is_named_with_what_to_do(pretending: type[PretendingS3]) -> None:
    pretending.refuses = True
    with pytest.raises(
        StoreError, match=r"s3://bucket: access refused \(.*AccessDenied.*Give credentials as for any AWS"
    ):
        check_writable(Store.open("s3://bucket/x"))


def test_client_is_one_for_all_threads_and_another_with_other_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    name, made = uuid.uuid4().hex, []

    def make() -> object:
        made.append(object())
        return made[-1]

    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(clients.shared(name, make, ["MARIN_TEST_X"]))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and set(map(id, found)) == {id(made[0])}
    monkeypatch.setenv("MARIN_TEST_X", "another")
    assert clients.shared(name, make, ["MARIN_TEST_X"]) is not made[0]
    monkeypatch.delenv("MARIN_TEST_X")
    assert clients.shared(name, make, ["MARIN_TEST_X"]) is made[0]


def test_forked_child_makes_its_own_client(worker_environment: dict[str, str]) -> None:
    code = """
import os, threading
from marin_exec.store import clients
held, release = threading.Event(), threading.Event()
def slow():
    held.set(); release.wait()
    return object()
threading.Thread(target=clients.shared, args=("slow", slow), daemon=True).start()
held.wait()  # a thread holds the lock while the process forks
mine = clients._clients["x"] = object()
if os.fork() == 0:
    os._exit(0 if clients.shared("x", object) is not mine else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert subprocess.run([sys.executable, "-c", code], env=worker_environment, timeout=60).returncode == 0
