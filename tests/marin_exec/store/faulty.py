"""Conditional files and data that go wrong as networks and servers do, by a plan that can be repeated.

A test gives a rule that says for each call which fault it has, if any: by its number, its operation, its path, or by
chance from a seed. Nothing here knows about leases or steps.
"""

import errno
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from marin_exec.store import Store
from marin_exec.store.conditional import ConditionalFiles, LogFile, Versioned
from marin_exec.store.object_log import ObjectLog

Fault = Literal["before", "after", "repeated", "delay", "stale"]
"""before: an error, and nothing was done. after: it was done, and then an error: the answer was lost. repeated: it was done, and
asked for once more by a client that lost the answer. delay: done, late. stale: a listing as an earlier caller saw it."""

OPERATIONS = ("read", "read_end", "create", "replace", "names", "append", "delete_tree")
WRITES = frozenset({"create", "replace", "append"})


@dataclass(frozen=True)
class Call:
    """One call of a backend, before it is made."""

    number: int
    """From 1, over all operations and threads."""
    operation: str
    path: str


Rule = Callable[[Call], Fault | None]


def at(number: int, fault: Fault) -> Rule:
    """One fault, in one call."""
    return lambda call: fault if call.number == number else None


def by_chance(seed: int, rate: float, faults: tuple[Fault, ...] = ("before", "after", "repeated", "delay")) -> Rule:
    """Faults in a share `rate` of all calls; the same ones for the same order of calls."""
    chance = random.Random(seed)
    return lambda call: chance.choice(faults) if chance.random() < rate else None


class Injected(OSError):
    """What a faulty call raises."""

    def __init__(self, call: Call, fault: Fault):
        super().__init__(errno.EIO, f"injected {fault} call {call.number}, {call.operation}", call.path)


class FaultyFiles:
    """`ConditionalFiles` over others, with faults.

    Args:
        inner: what holds the objects.
        rule: which fault a call has; may be set anew at any time.
        delay_seconds: of the fault of that name.
    """

    def __init__(self, inner: ConditionalFiles, rule: Rule = lambda call: None, delay_seconds: float = 0.02):
        self._inner = inner
        self.rule = rule
        self._delay = delay_seconds
        self.calls: list[Call] = []
        self.faults: list[tuple[Call, Fault]] = []
        self._listings: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def read(self, path: str) -> Versioned[bytes] | None:
        return self._call("read", path, lambda: self._inner.read(path))

    def read_end(self, path: str, num_bytes: int) -> bytes:
        return self._call("read_end", path, lambda: self._inner.read_end(path, num_bytes))

    def create(self, path: str, data: bytes) -> int | str:
        return self._call("create", path, lambda: self._inner.create(path, data))

    def replace(self, path: str, data: bytes, version: int | str) -> int | str:
        return self._call("replace", path, lambda: self._inner.replace(path, data, version))

    def names(self, directory: str) -> list[str]:
        return self._call("names", directory, lambda: self._inner.names(directory))

    def open_log(self, path: str) -> LogFile:
        log = self._inner.open_log(path)
        return ObjectLog(self, path) if isinstance(log, ObjectLog) else _FaultyLog(self, log, path)

    def delete_tree(self, directory: str) -> None:
        self._call("delete_tree", directory, lambda: self._inner.delete_tree(directory))

    def _call(self, operation: str, path: str, act: Callable[[], Any]) -> Any:
        with self._lock:
            call = Call(len(self.calls) + 1, operation, path)
            self.calls.append(call)
            fault = self.rule(call)
            if fault is not None:
                self.faults.append((call, fault))
        if fault == "before":
            raise Injected(call, fault)
        if fault == "stale" and operation == "names":
            return self._listings.get(path, [])
        answer = act()
        if fault == "after":
            raise Injected(call, fault)
        if fault == "repeated" and operation != "append":
            answer = act()
        if fault == "delay":
            time.sleep(self._delay)
        if operation == "names":
            self._listings.setdefault(path, answer)
        return answer


class _FaultyLog:
    def __init__(self, files: FaultyFiles, log: LogFile, path: str):
        self._files = files
        self._log = log
        self._path = path

    @property
    def full(self) -> bool:
        return self._log.full

    def append(self, data: bytes, *, soon: bool = False) -> None:
        self._files._call("append", self._path, lambda: self._log.append(data, soon=soon))

    def close(self) -> None:
        self._log.close()


def make_faulty(store: Store, rule: Rule = lambda call: None) -> FaultyFiles:
    """Puts faults between this store object and its files; returns what holds the rule and the calls made."""
    files = FaultyFiles(store.files, rule)
    store.__dict__["files"] = files  # where `cached_property` keeps it: pickled, the store has its own files again
    return files


def truncate(store: Store, path: str, size_bytes: int) -> None:
    """Cuts a data file short, as a write that broke off leaves it where writes are not atomic.

    Args:
        path: in full.
        size_bytes: what is left of it.
    """
    data = store.fs.cat_file(path)
    assert len(data) > size_bytes, f"{path} is no longer than that"
    store.fs.pipe_file(path, data[:size_bytes])
