"""One store: a prefix on a filesystem, and how to read what steps left there. Readers take no lock and write nothing.

Control files go through `ConditionalFiles`, data through fsspec; `backends` says which. A `Store` can be pickled: it is
its prefix, and each process makes its own clients.
"""

import contextlib
import itertools
import os
import posixpath
import secrets
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from marin_exec.errors import StoreError
from marin_exec.records import Head, Record
from marin_exec.store import layout
from marin_exec.store.attempt_log import AttemptLog, read_events
from marin_exec.store.backends import conditional_files, filesystem
from marin_exec.store.conditional import AlreadyExists, ConditionalFiles, LogFile, Versioned
from marin_exec.store.prefix import OBJECT_STORES, canonical_prefix, is_full, relative_path, split_url
from marin_exec.store.reaching import reached

if TYPE_CHECKING:
    from marin_exec.store.pieces import Piece

LOG_END_BYTES = 1 << 16
NUM_THREADS = 32
"""That wait for answers of a remote store at a time."""


@dataclass(frozen=True)
class Store:
    """All outputs and records under one prefix. Made by `Store.open`."""

    prefix: str
    """An absolute path for file://, else a URL; without a slash at its end."""

    @staticmethod
    def open(prefix: str) -> "Store":
        """Returns the store at a path, file:///..., gs://..., s3://... or memory://...; nothing is created or looked at.

        Raises:
            StoreError: the scheme is not supported, or the prefix is not one.
        """
        return Store(canonical_prefix(prefix))

    @staticmethod
    def containing(path: str) -> "Store":
        """Returns the store that a full path or URL lies in: the nearest folder above it that holds records.

        Raises:
            StoreError: no folder above the path is a store.
        """
        store = Store.open(path)
        while not store._holds_records():
            above = posixpath.dirname(store.prefix)
            if above in ("", store.prefix) or above.endswith(":/"):
                raise StoreError(
                    f"{path}: no folder above it is a store (none has {layout.STEPS}/); give a path inside one"
                )
            store = Store(above)
        return store

    def _holds_records(self) -> bool:
        if self.is_local:
            return os.path.isdir(self.url(layout.STEPS))
        return posixpath.basename(layout.STEPS) in self.names(layout.CONTROL)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Store, (self.prefix,))

    @property
    def is_local(self) -> bool:
        """Whether it is on a local disk: files are looked at one by one, linked rather than copied, and synced."""
        return "://" not in self.prefix

    @cached_property
    def files(self) -> ConditionalFiles:
        return conditional_files(self._base)

    @property
    def fs(self) -> Any:
        """The fsspec filesystem of the data, without listing caches."""
        return filesystem(split_url(self.prefix)[0])

    @property
    def _base(self) -> str:
        return self.prefix if self.prefix.endswith("/") else self.prefix + "/"

    def look_up_all[T, R](self, look_up: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Returns `look_up` of each item, in order; on a remote store many at a time, because each waits for an answer."""
        if self.is_local:
            return [look_up(item) for item in items]
        from concurrent.futures import ThreadPoolExecutor  # and logging with it, which a local plan does without

        with ThreadPoolExecutor(NUM_THREADS) as threads:
            return list(threads.map(look_up, items))

    # Paths

    def url(self, relative: str) -> str:
        """Returns the full path: a plain one for file://, else a URL. One that is full already is returned as it is."""
        return relative if is_full(relative) else self._base + relative

    def relative(self, path: str) -> str:
        """Returns a path relative to the prefix.

        Args:
            path: a full path or URL in this store, a path relative to the working directory that leads into it, or one
                that is relative to the prefix already. "." and ".." parts and a slash at the end are taken away.

        Raises:
            StoreError: it leads out of the store.
        """
        return relative_path(self.prefix, path)

    def locate(self, path: str) -> layout.Location:
        """Returns which step and attempt any path is part of; see `relative` and `layout.parse`."""
        return layout.parse(self.relative(path))

    def make_attempt_directory(self, name: str, digest: str, attempt: int) -> str:
        """Makes the directory that only this attempt writes to, and returns its path relative to the prefix."""
        relative = layout.attempt_directory(name, digest, attempt, secrets.token_hex(4))
        self.make_directory(self.url(relative))
        return relative

    def make_directory(self, path: str) -> None:
        """Makes a directory, given in full, and those above it; on object stores there is nothing to make."""
        scheme, _ = split_url(self.prefix)
        if self.is_local:
            os.makedirs(path, exist_ok=True)
        elif scheme not in OBJECT_STORES:
            self.fs.makedirs(path, exist_ok=True)

    # Heads and records

    def head(self, digest: str) -> Versioned[Head] | None:
        """Returns a step's head, or None if no attempt of it was ever begun."""
        return self.head_at(layout.head(digest))

    def head_at(self, path: str) -> Versioned[Head] | None:
        """Returns the head at a path relative to the prefix, of a step or of a slot; None if there is none."""
        with self._reading(path):
            found = self.files.read(path)
        return Versioned(Head.from_bytes(found.data, self.url(path)), found.version) if found else None

    def record(self, digest: str, attempt: int) -> Record:
        """Returns the record of one attempt.

        Raises:
            StoreError: there is none, or it is damaged.
        """
        record = self.record_or_none(digest, attempt)
        if record is None:
            path = self.url(layout.record(digest, attempt))
            raise StoreError(
                f"{path}: missing, so nothing is known of attempt {attempt} of step {digest[:16]}; "
                "restore the file, or run the step again with --force"
            )
        return record

    def record_or_none(self, digest: str, attempt: int) -> Record | None:
        """Returns the record of one attempt, or None if it was never committed."""
        path = layout.record(digest, attempt)
        with self._reading(path):
            found = self.files.read(path)
        return Record.from_bytes(found.data, self.url(path)) if found is not None else None

    def readable_record(self, digest: str, attempt: int) -> Record | None:
        """Returns the record of one attempt, or None if it is missing or damaged: for those who can do without."""
        try:
            return self.record_or_none(digest, attempt)
        except StoreError:
            return None

    def begun_record(self, digest: str, attempt: int) -> Record | None:
        """Returns what an attempt's log says of it since it began: a record without files, or None if it says nothing.

        This is all there is of an attempt that still runs, or died.
        """
        for segment in self._segments(digest, attempt):
            for event in self._segment_events(digest, attempt, segment):
                if event["type"] == "started" and "record" in event:
                    return Record.from_json(event["record"], self.url(layout.log(digest, attempt, segment)))
        return None

    def current(self, digest: str) -> Record | None:
        """Returns the record of the attempt that is a step's result, or None if it was never done.

        While a forced rerun is held, the earlier result stays current.
        """
        head = self.head(digest)
        if head is None or head.data.current is None:
            return None
        return self.record(digest, head.data.current)

    def known_digests(self) -> set[str]:
        """Returns the digests of all steps that have a directory, in one listing; a few may have no head yet."""
        return {name for name in self.names(layout.STEPS) if layout.is_digest(name)}

    def outputs_in(self, folder: str) -> dict[str, list[str]]:
        """Returns, for each last part of a name, the first 16 digits of the digests of the outputs in a folder, sorted."""
        found: dict[str, list[str]] = {}
        for parsed in map(layout.parse_output_name, sorted(self._data_names(folder))):
            if parsed is not None:
                found.setdefault(parsed[0], []).append(parsed[1])
        return found

    def full_digest(self, digest16: str) -> str:
        """Returns the whole digest of a step, given its beginning.

        Raises:
            StoreError: no step's digest, or more than one, begins so.
        """
        matching = sorted(digest for digest in self.known_digests() if digest.startswith(digest16))
        if len(matching) == 1:
            return matching[0]
        if not matching:
            raise StoreError(
                f"digest {digest16}: no step in {self.prefix} begins so; `marin-exec ls` shows the steps there"
            )
        shown = ", ".join(digest[: len(digest16) + 8] for digest in matching[:4])
        raise StoreError(
            f"digest {digest16!r}: {len(matching)} steps in {self.prefix} begin so ({shown}); give more digits"
        )

    def missing_files(self, record: Record) -> list[tuple[str, str]]:
        """Returns what is wrong with an output without reading it: (path in the output, reason) by sizes."""
        from marin_exec.store.manifest import differing_files

        return differing_files(self, record.output_path, record.files)

    def missing_piece_files(self, piece: "Piece") -> list[tuple[str, str]]:
        """The same for a shard or milestone that was committed on its own."""
        from marin_exec.store.manifest import differing_files

        return differing_files(self, piece.attempt_path, piece.files)

    def verify(self, record: Record) -> list[tuple[str, str]]:
        """Like `missing_files`, and reads every file to compare its checksum."""
        from marin_exec.store.manifest import differing_files

        return differing_files(self, record.output_path, record.files, checksums=True)

    # Logs of attempts

    def attempt_log(self, digest: str, attempt: int) -> AttemptLog:
        """Returns a new log, of which the caller is the only writer: it takes segments that nobody has."""
        return AttemptLog(self._free_segments(digest, attempt))

    def _free_segments(self, digest: str, attempt: int) -> Iterator[LogFile]:
        for number in itertools.count(1):
            try:
                log = self.files.open_log(layout.log(digest, attempt, number))
            except AlreadyExists:
                continue
            yield log

    def events(self, digest: str, attempt: int) -> list[dict[str, Any]]:
        """Returns what an attempt logged, by segment and then in order of writing; a torn last line is left out."""
        segments = self._segments(digest, attempt)
        return [event for segment in segments for event in self._segment_events(digest, attempt, segment)]

    def latest_event(self, digest: str, attempt: int, type: str) -> dict[str, Any] | None:
        """Returns the last event of a type that an attempt logged, or None; of each segment only the end is looked at."""
        for segment in reversed(self._segments(digest, attempt)):
            path = layout.log(digest, attempt, segment)
            with self._reading(path):
                end = self.files.read_end(path, LOG_END_BYTES)
            for event in reversed(read_events(end.partition(b"\n")[2] if len(end) == LOG_END_BYTES else end, path)):
                if event["type"] == type:
                    return event
        return None

    def _segments(self, digest: str, attempt: int) -> list[int]:
        found = map(layout.parse_log, self.names(layout.attempts_directory(digest)))
        return sorted(each[1] for each in found if each and each[0] == attempt)

    def _segment_events(self, digest: str, attempt: int, segment: int) -> list[dict[str, Any]]:
        path = layout.log(digest, attempt, segment)
        return read_events(self.content(path), self.url(path))

    def attempts(self, digest: str) -> list[int]:
        """Returns the numbers of the attempts that logged or recorded something."""
        names = self.names(layout.attempts_directory(digest))
        logged = {found[0] for found in map(layout.parse_log, names) if found}
        return sorted(logged | {found for found in map(layout.parse_record, names) if found is not None})

    def names(self, directory: str) -> list[str]:
        """Returns the sorted names directly in a control directory, as of now; [] if there is none."""
        with self._reading(directory):
            return self.files.names(directory)

    def content(self, path: str) -> bytes:
        """Returns the bytes of a control file; b"" if there is none."""
        with self._reading(path):
            found = self.files.read(path)
        return found.data if found else b""

    def _data_names(self, directory: str) -> list[str]:
        """Returns the names directly in a directory of outputs."""
        if self.is_local:
            return self.names(directory)
        try:
            with reached(self.url(directory)):
                listed = self.fs.ls(self.url(directory), detail=False)
        except FileNotFoundError:
            return []
        return [posixpath.basename(path.rstrip("/")) for path in listed]

    @contextlib.contextmanager
    def _reading(self, path: str) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(f"store {self.prefix}: cannot read {self.url(path)}: {error.strerror or error}") from error
