"""One store: a prefix on a filesystem, and how to read what steps left there. Readers take no lock and write nothing.

Control files go through `ConditionalFiles`; data goes through fsspec, which is imported only when it is needed (0.15
s). A `Store` can be pickled: it is its prefix.
"""

import contextlib
import os
import posixpath
import secrets
from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from marin_exec.errors import StoreError
from marin_exec.records import Head, Record
from marin_exec.store import layout
from marin_exec.store.attempt_log import AttemptLog, read_events
from marin_exec.store.conditional import AlreadyExists, ConditionalFiles, Versioned
from marin_exec.store.local import LocalFiles
from marin_exec.store.memory import MemoryFiles
from marin_exec.store.prefix import canonical_prefix, is_full, relative_path

if TYPE_CHECKING:
    from marin_exec.store.pieces import Piece

LOG_END_BYTES = 1 << 16


@dataclass(frozen=True)
class Store:
    """All outputs and records under one prefix. Made by `Store.open`."""

    prefix: str
    """An absolute path for file://, else a URL; without a slash at its end."""

    @staticmethod
    def open(prefix: str) -> "Store":
        """Returns the store at a path, file:///... or memory://...; nothing is created or looked at.

        Raises:
            StoreError: the scheme is not supported, or the prefix is not one.
        """
        return Store(canonical_prefix(prefix))

    @staticmethod
    def containing(path: str) -> "Store":
        """Returns the local store that a full path lies in: the nearest folder above it that holds records.

        Raises:
            StoreError: no folder above the path is a store.
        """
        full = os.path.abspath(path.removeprefix("file://"))
        folder = full
        while folder != os.path.dirname(folder):
            if os.path.isdir(os.path.join(folder, layout.STEPS)):
                return Store.open(folder)
            folder = os.path.dirname(folder)
        raise StoreError(f"{path}: no folder above it is a store (none has {layout.STEPS}/); give a path inside one")

    def __reduce__(self) -> tuple[Any, ...]:
        return (Store, (self.prefix,))

    @property
    def is_local(self) -> bool:
        return not self.prefix.startswith("memory://")

    @cached_property
    def files(self) -> ConditionalFiles:
        return LocalFiles(self.prefix) if self.is_local else MemoryFiles(self._base)

    @cached_property
    def fs(self) -> Any:
        """The fsspec filesystem of the data, without listing caches."""
        import fsspec  # 0.15 s, which a plan of finished steps does not need

        if self.is_local:
            return fsspec.filesystem("file", auto_mkdir=True, use_listings_cache=False)
        return fsspec.filesystem("memory", use_listings_cache=False)

    @property
    def _base(self) -> str:
        return self.prefix if self.prefix.endswith("/") else self.prefix + "/"

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
        if self.is_local:
            os.makedirs(self.url(relative))
        else:
            self.fs.makedirs(self.url(relative), exist_ok=False)
        return relative

    def check_writable(self) -> None:
        """Makes and removes a probe file, so that a run is refused before anything starts.

        Raises:
            StoreError: the store can't be written, or its filesystem has no exclusive links.
        """
        if not self.is_local:
            return
        probe = f"{layout.CONTROL}/{layout.TEMPORARY}probe-{secrets.token_hex(8)}"
        try:
            self.files.create(probe, b"")
            os.unlink(self.url(probe))
        except OSError as error:
            where = error.filename2 or error.filename or self.url(probe)
            raise StoreError(
                f"store {self.prefix}: cannot be written: {error.strerror} ({where}). "
                "Give a --prefix (or MARIN_PREFIX) on a local disk where you may make files and hard links"
            ) from error

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
        return {name for name in self._names(layout.STEPS) if layout.is_digest(name)}

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

    def attempt_log(self, digest: str, attempt: int, segment: int | None = None) -> AttemptLog:
        """Returns a new log segment, of which the caller is the only writer.

        Args:
            segment: from 1; None takes the first that nobody has.

        Raises:
            StoreError: the segment has a writer already.
        """
        for number in [segment] if segment is not None else range(1, 100_000):
            try:
                return AttemptLog(self.files.open_log(layout.log(digest, attempt, number)))
            except AlreadyExists:
                continue
        raise StoreError(
            f"{self.url(layout.log(digest, attempt, segment or 1))}: has a writer already; "
            "each writer takes a segment of its own"
        )

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
        found = map(layout.parse_log, self._names(layout.attempts_directory(digest)))
        return sorted(each[1] for each in found if each and each[0] == attempt)

    def _segment_events(self, digest: str, attempt: int, segment: int) -> list[dict[str, Any]]:
        path = layout.log(digest, attempt, segment)
        with self._reading(path):
            found = self.files.read(path)
        return read_events(found.data if found else b"", self.url(path))

    def attempts(self, digest: str) -> list[int]:
        """Returns the numbers of the attempts that logged or recorded something."""
        names = self._names(layout.attempts_directory(digest))
        logged = {found[0] for found in map(layout.parse_log, names) if found}
        return sorted(logged | {found for found in map(layout.parse_record, names) if found is not None})

    def _names(self, directory: str) -> list[str]:
        with self._reading(directory):
            return self.files.names(directory)

    def _data_names(self, directory: str) -> list[str]:
        """Returns the names directly in a directory of outputs."""
        if self.is_local:
            return self._names(directory)
        try:
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
