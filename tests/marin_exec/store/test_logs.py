"""Logs: what is safe when, one writer each, and how they go on in segments where nothing can be appended to."""

import threading
import time
import uuid

import pytest
from faulty import FaultyFiles

from marin_exec.errors import StoreError
from marin_exec.store import AlreadyExists, Store, layout
from marin_exec.store.conditional import ConditionalFiles
from marin_exec.store.memory import MemoryFiles
from marin_exec.store.object_log import FULL_BYTES, ObjectLog

DIGEST = "e" * 64
PATH = "steps/x/1-1.jsonl"


@pytest.fixture
def files(store: Store) -> ConditionalFiles:
    return store.files


def content(files: ConditionalFiles, path: str = PATH) -> bytes:
    found = files.read(path)
    return found.data if found else b""


def test_log_is_there_once_append_returns(files: ConditionalFiles) -> None:
    log = files.open_log(PATH)
    log.append(b"one\n")
    assert content(files) == b"one\n"
    log.append(b"two\n")
    assert content(files) == b"one\ntwo\n" and files.read_end(PATH, 4) == b"two\n"
    log.close()


def test_log_has_one_writer(files: ConditionalFiles) -> None:
    files.open_log(PATH).append(b"mine\n")
    with pytest.raises(AlreadyExists):
        files.open_log(PATH).append(b"yours\n")
    assert content(files) == b"mine\n"


def test_log_that_another_process_wrote_to_is_refused_and_left_as_it_is() -> None:
    files = Store.open("memory://intruded").files
    log = ObjectLog(files, PATH)
    log.append(b"one\n")
    found = files.read(PATH)
    assert found is not None
    files.replace(PATH, b"intruder\n", found.version)
    with pytest.raises(StoreError, match=r"1-1.jsonl: the log has another writer"):
        log.append(b"two\n")
    assert content(files) == b"intruder\n"
    files.delete_tree("steps")
    with pytest.raises(StoreError, match=r"was removed"):
        log.append(b"three\n")


def test_progress_is_held_back_and_written_with_what_follows() -> None:
    files = Store.open("memory://held").files
    log = ObjectLog(files, PATH)
    log.append(b"began\n", soon=True)  # the first write finds out whether the name is free, so it is not held back
    assert content(files) == b"began\n"
    for number in range(5):
        log.append(b"%d\n" % number, soon=True)
    assert content(files) == b"began\n"
    log.append(b"ended\n")
    assert content(files) == b"began\n0\n1\n2\n3\n4\nended\n"
    log.append(b"more\n", soon=True)
    deadline = time.monotonic() + 30
    while content(files)[-5:] != b"more\n":  # by itself, a second later
        assert time.monotonic() < deadline
        time.sleep(0.02)
    log.append(b"last\n", soon=True)
    log.close()
    assert content(files).endswith(b"more\nlast\n")


def test_close_says_what_nobody_was_told_yet() -> None:
    files = FaultyFiles(Store.open("memory://closing").files)
    log = ObjectLog(files, PATH)
    log.append(b"began\n")
    files.rule = lambda call: "before"
    with pytest.raises(OSError, match="injected"):
        log.append(b"told\n")
    log.close()  # tries again; its caller knows
    log.append(b"untold\n", soon=True)
    with pytest.raises(OSError, match="injected"):
        log.close()
    files.rule = lambda call: None
    log.close()
    assert content(files) == b"began\ntold\nuntold\n"


def test_log_that_grows_goes_on_in_other_segments_between_those_of_other_writers(store: Store) -> None:
    text = "x" * 1000
    with store.attempt_log(DIGEST, 1) as mine, store.attempt_log(DIGEST, 1) as other:
        mine.event("began")
        other.event("theirs")
        for number in range(80):
            mine.event("line", number=number, text=text)
        other.event("theirs")
    events = store.events(DIGEST, 1)
    assert [each["number"] for each in events if each["type"] == "line"] == list(range(80))
    assert [each["type"] for each in events].count("theirs") == 2
    sizes = [
        len(content(store.files, path))
        for name in store.files.names(layout.attempts_directory(DIGEST))
        for path in [f"{layout.attempts_directory(DIGEST)}/{name}"]
    ]
    if isinstance(store.files.open_log("probe.jsonl"), ObjectLog):
        assert len(sizes) == 4 and max(sizes) < FULL_BYTES + 2000
    else:
        assert len(sizes) == 2


def test_log_may_be_written_by_many_threads(files: ConditionalFiles) -> None:
    log = files.open_log(PATH)
    log.append(b"began\n")

    def write(writer: int) -> None:
        for number in range(10):
            log.append(b"%d %d\n" % (writer, number), soon=number % 2 == 0)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    lines = content(files).splitlines()[1:]
    for writer in range(4):
        assert [line for line in lines if line.startswith(b"%d " % writer)] == [
            b"%d %d" % (writer, n) for n in range(10)
        ]
    assert len(lines) == 40


def test_log_whose_first_append_was_interrupted_is_closed_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by Ctrl-C, or by a lost lease, in the middle of a request; the name turns out to be another writer's."""
    files = MemoryFiles(f"memory://{uuid.uuid4().hex}/")
    path = "attempts/1-1.jsonl"
    files.create(path, b"another's\n")
    create = files.create

    def interrupted(*arguments: object) -> object:
        monkeypatch.setattr(files, "create", create)
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "create", interrupted)
    log = ObjectLog(files, path)
    with pytest.raises(KeyboardInterrupt):
        log.append(b"mine\n")
    log.close()
    found = files.read(path)
    assert found is not None and found.data == b"another's\n"
