"""Runs of the fault campaign, each in a process forked from this one: killed, run again, and looked at.

The parent has imported everything and has no thread and no client of any server, so a fork costs little and is safe.
Whoever needs clients to look at a store does so in a child.
"""

import contextlib
import hashlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

EXPERIMENT = Path(__file__).with_name("faults_steps.py")
HEARTBEAT_SECONDS = 0.2
LEASE_SECONDS = 5 * HEARTBEAT_SECONDS
RUN_SECONDS = 180
"""A run that takes longer hangs: SIGALRM ends it, and the case has failed."""
STEPS = ("source", "shards", "train", "evaluate", "report")
READS = frozenset(
    {
        "read",
        "read_end",
        "read_many",
        "names",
        "exists",
        "isfile",
        "isdir",
        "find",
        "info",
        "ls",
        "open",
        "cat_file",
        "walk",
    }
    | {"checksum", "ukey", "size", "sizes", "glob", "expand_path", "invalidate_cache", "unstrip_protocol"}
)
"""Calls after which nothing has changed: killed after one is killed before the next."""


@dataclass(frozen=True)
class Place:
    """Where the stores of a campaign are."""

    name: str
    new_prefix: Callable[[], str]
    environment: Mapping[str, str]


def warm_up() -> None:
    """Imports what runs import, so that a forked run starts at once."""
    import marin_exec.cli.experiment_verbs
    import marin_exec.cli.store_verbs
    import marin_exec.experiment
    import marin_exec.run
    import marin_exec.runners.local

    for name in ("draccus", "fsspec", "fsspec.implementations.local", "gcsfs", "s3fs", "botocore.session", "xxhash"):
        __import__(name)
    assert marin_exec.run and threading.active_count() == 1


def fork(act: Callable[[], int | None], log: Path | None = None) -> int:
    """Runs `act` in a child, which ends with the code that it returns; returns the child's process id."""
    child = os.fork()
    if child:
        return child
    _be_child(act, log)


def _be_child(act: Callable[[], int | None], log: Path | None) -> NoReturn:
    code = 70
    try:
        if log is not None:
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
        code = act() or 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def run(prefix: str, trace: Path, *arguments: str) -> int:
    """In a child: the verb `run`, as the command line has it; returns its exit code."""
    from marin_exec.cli import cli

    signal.alarm(RUN_SECONDS)
    os.environ["MARIN_HEARTBEAT_SECONDS"] = str(HEARTBEAT_SECONDS)
    command = ["run", str(EXPERIMENT), "--prefix", prefix, "--trace", str(trace), "--backend", "local", *arguments]
    try:
        cli(command, prog_name="marin-exec")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


class Moments:
    """Counts what the main thread does with a store and its data, and kills this process at one moment.

    Args:
        at: which moment, from 1; 0 for none.
    """

    def __init__(self, at: int = 0):
        self._at = at
        self.count = 0

    def pass_one(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self.count += 1
            if self.count == self._at:
                os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """In a child: makes a moment of every call of a store, before and after its effect."""
        import faults_steps

        from marin_exec.store import Store

        files, filesystem = Store.files.func, Store.fs.fget  # type: ignore[attr-defined]
        watched = cached_property(lambda store: Watched(files(store), self.pass_one))
        watched.__set_name__(Store, "files")
        Store.files = watched  # type: ignore[assignment]
        Store.fs = property(lambda store: Watched(filesystem(store), self.pass_one))  # type: ignore[assignment]
        faults_steps.MOMENTS.append(self.pass_one)


class Watched:
    """An object whose calls are preceded by a moment, and followed by one if they may have changed something."""

    def __init__(self, target: Any, pass_one: Callable[[], None]):
        self._target = target
        self._pass_one = pass_one

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found) or isinstance(found, type):
            return found

        def call(*arguments: Any, **keywords: Any) -> Any:
            self._pass_one()
            result = found(*arguments, **keywords)
            if name not in READS:
                self._pass_one()
            return Watched(result, self._pass_one) if name == "open_log" else result

        return call


def outputs(prefix: str) -> dict[str, Any]:
    """In a child: what the store serves of each of the five steps that is done, down to the bytes.

    Raises:
        AssertionError: it serves something that is not what its manifest says, of a step or of a shard or milestone.
    """
    from marin_exec.store import Store, pieces

    store, found = Store.open(prefix), {}
    for digest in store.known_digests():
        head = store.head(digest)
        if head is None:
            continue
        for kind in ("shard", "milestone"):
            for chain in range(1, head.data.attempt + 1):
                for piece in pieces(store, digest, chain, kind).values():  # type: ignore[arg-type]
                    assert not store.missing_piece_files(piece), (digest, piece)
        record = store.current(digest)
        if record is None:
            continue
        assert not store.verify(record), (record.name, store.verify(record))
        root = store.url(record.output_path)
        content = {
            each.path: hashlib.sha256(store.fs.cat_file(f"{root}/{each.path}")).hexdigest() for each in record.files
        }
        there = {path.split(f"{record.output_path}/", 1)[1] for path in store.fs.find(root)}
        assert there == set(content), (record.name, there ^ set(content))
        found[record.name] = [sorted(content.items()), record.output_digest, record.result]
    return found


@dataclass(frozen=True)
class Case:
    """One store in which a run is killed, and run again."""

    place: Place
    reference: dict[str, Any]
    """`outputs` of a run that nobody disturbed."""
    at: int = 0
    """The moment of the kill; 0 takes the time."""
    after_seconds: float = 0.0
    """The time of the kill."""

    def __call__(self) -> dict[str, Any]:
        """In a child without threads: returns what happened, as plain values."""
        from marin_exec.store import Store

        os.environ.update(self.place.environment)
        with tempfile.TemporaryDirectory() as folder:
            log, prefix = Path(folder, "log"), self.place.new_prefix()
            trace = Path(folder, "trace")
            status = self._killed_run(prefix, trace, log)
            killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            then = ask(lambda: outputs(prefix), log)
            started = time.monotonic()
            rerun = os.waitstatus_to_exitcode(os.waitpid(fork(lambda: run(prefix, trace), log), 0)[1])
            seconds = time.monotonic() - started
            now = ask(lambda: outputs(prefix), log)
            # The servers look through all that they hold for each listing.
            ask(lambda: Store.open(prefix).fs.rm(prefix, recursive=True), log)
            half = then is None or any(self.reference.get(name) != value for name, value in then.items())
            problem = (
                ""
                if rerun == 0 and now == self.reference
                else f"exit {rerun}, outputs {_differing(now, self.reference)}"
            )
            if half or problem:
                problem += "\n" + log.read_text()[-6000:]
            return {"killed": killed, "half": half, "problem": problem, "seconds": seconds, "at": self.at}

    def _killed_run(self, prefix: str, trace: Path, log: Path) -> int:
        def victim() -> int:
            Moments(self.at).watch()
            return run(prefix, trace, *(["--seconds", "0.03"] if not self.at else []))

        child = fork(victim, log)
        if not self.at:
            time.sleep(self.after_seconds)
            os.kill(child, signal.SIGKILL)
        return os.waitpid(child, 0)[1]


def _differing(now: dict[str, Any] | None, reference: dict[str, Any]) -> str:
    if now is None:
        return "damaged"
    return ", ".join(name for name in reference if now.get(name) != reference[name]) or "equal"


def undisturbed(place: Place) -> tuple[dict[str, Any], int, float]:
    """Returns the outputs of a run in a fresh store, how many moments it had, and its seconds with slow writes."""
    os_environment = dict(os.environ)
    os.environ.update(place.environment)
    try:
        with tempfile.TemporaryDirectory() as folder:
            log, trace = Path(folder, "log"), Path(folder, "trace")

            def counted(prefix: str) -> int:
                moments = Moments()
                moments.watch()
                code = run(prefix, trace)
                assert code == 0, code
                return moments.count

            prefix = place.new_prefix()
            count, found = ask(lambda: counted(prefix), log), ask(lambda: outputs(prefix), log)
            started = time.monotonic()
            slow = place.new_prefix()
            child = fork(lambda: run(slow, trace, "--seconds", "0.03"), log)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            seconds = time.monotonic() - started
            if count is None or found is None or set(found) != set(STEPS) or code != 0:
                raise RuntimeError(f"the undisturbed run on {place.name} failed:\n{log.read_text()[-4000:]}")
            return found, count, seconds
    finally:
        os.environ.clear()
        os.environ.update(os_environment)


def ask(question: Callable[[], Any], log: Path | None = None) -> Any:
    """Returns what `question` returns in a child, as JSON gives it back; None if it raised."""
    reading, writing = os.pipe()

    def answer() -> None:
        signal.alarm(RUN_SECONDS)
        with os.fdopen(writing, "w") as file:
            json.dump(question(), file)

    child = fork(answer, log)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def all_of(jobs: Iterable[Callable[[], Any]], in_flight: int) -> Iterator[Any]:
    """Yields what jobs return, each in a child of its own, so many at a time; None for one that raised."""
    waiting, running = iter(jobs), {}
    while True:
        while len(running) < in_flight and (job := next(waiting, None)) is not None:
            answer = tempfile.TemporaryFile("w+")
            running[fork(lambda job=job, answer=answer: _answer(job, answer))] = answer
        if not running:
            return
        child, _ = os.wait()
        if child not in running:
            continue  # a server's
        answer = running.pop(child)
        answer.seek(0)
        text = answer.read()
        answer.close()
        yield json.loads(text) if text else None


def _answer(job: Callable[[], Any], answer: Any) -> None:
    text = json.dumps(job())
    answer.write(text)
    answer.flush()
