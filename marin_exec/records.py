"""What the store keeps about a step, as frozen dataclasses: `Record` and `Head`, with their parts. See `marin_exec.documents`."""

from dataclasses import dataclass, field
from typing import Any, Literal

from marin_exec.documents import FORMAT, Document, Part


@dataclass(frozen=True)
class FileEntry(Part):
    """One file of an output."""

    path: str
    """Relative to the attempt's directory, with "/"."""
    size_bytes: int
    checksum: str
    """The algorithm and the digest, e.g. "xxh3-128:99aa06d3014798d86001c324468d497f"."""


@dataclass(frozen=True, kw_only=True)
class DependencyRecord(Part):
    """What a step was given of another one, as bound when its lease was taken."""

    name: str
    kind: str
    digest: str
    """The other step's whole digest."""
    sub_paths: tuple[str, ...] = ()
    """The parts of its output that the config refers to; () means the whole output."""
    milestone: str | None = None
    path: str
    """The directory that was read, relative to the store's prefix."""
    output_digest: str
    run_id: str


@dataclass(frozen=True, kw_only=True)
class Link(Part):
    """Where a step's output was taken from instead of making it: another step's, which is no link itself."""

    digest: str
    """The other step's whole digest."""
    attempt: int
    """The attempt of it that made the output."""
    chain: int
    """That attempt's chain: where its milestones are."""
    name: str
    """The other step's display name when it ran."""
    output_digest: str
    """The link holds while the other step's current record has this one."""
    how: Literal["content", "blessed"]
    """Its inputs held the same content, or a person said that the output serves."""
    reason: str
    by: str = ""
    """The person, for one that was blessed."""

    @property
    def phrase(self) -> str:
        """What the step was linked to, by whom and why, in a few words."""
        done = f"blessed by {self.by} as" if self.how == "blessed" else "linked to"
        return f"{done} {self.name} ({self.digest[:16]}): {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Record(Document):
    """The facts of one attempt that was committed. Never rewritten."""

    format: int = FORMAT
    digest: str
    name: str
    """The step's display name when it ran."""
    kind: str
    kind_version: int | None
    identity: Any
    """The JSON tree that the digest stands for."""
    attempt: int
    chain: int
    """The first of the attempts whose pieces this one took up; the attempt itself if it took up none."""
    run_id: str
    output_path: str
    """Relative to the store's prefix; a full path or URL for data that was adopted where it lies."""
    files: tuple[FileEntry, ...]
    output_digest: str
    result: Any = None
    """The typed result as JSON, without its measured fields."""
    result_type: str | None = None
    measured: dict[str, Any] = field(default_factory=dict)
    """The result's measured fields by their path in it, e.g. {"phases[0].seconds": 1.5}."""
    dependencies: tuple[DependencyRecord, ...] = ()
    after: tuple[DependencyRecord, ...] = ()
    """What the attempt waited for, as bound when it began."""
    first_after: tuple[DependencyRecord, ...] = ()
    """The same, as bound by the first attempt of the chain."""
    see: tuple[tuple[str, str], ...] = ()
    """Name and digest of related steps."""
    started: str
    """UTC, ISO 8601; so is `finished`."""
    finished: str
    seconds: float
    resources: Any = None
    source: Any = None
    """{"digest": ..., "functions": ...}: the code that ran."""
    provenance: Any = None
    pieces: Any = None
    """How many shards and milestones were made and how many taken up."""
    milestones: tuple[str, ...] = ()
    content_key: str = ""
    """The identity with each dependency replaced by what it held; "" for a step without dependencies."""
    link: Link | None = None
    """Set if nothing was run: `output_path`, `files`, `output_digest` and the result are the other step's."""

    @property
    def pieces_at(self) -> tuple[str, int]:
        """The digest of the step and the chain whose milestones this output has."""
        return (self.link.digest, self.link.chain) if self.link else (self.digest, self.chain)


@dataclass(frozen=True, kw_only=True)
class Head(Document):
    """The one mutable object of a step: who holds it, and which attempt is its result."""

    format: int = FORMAT
    state: Literal["held", "done", "free"]
    attempt: int
    """The last attempt number ever given."""
    chain: int
    """The chain of that attempt."""
    holder: str = ""
    """Random token of whoever holds the lease, or held it last. Containers share hosts and pids, so those don't do."""
    beat: int = 0
    """Raised by each renewal."""
    heartbeat_seconds: float = 0.0
    """How often the holder renews; 0 if it did not say."""
    current: int | None = None
    """The attempt whose record is the step's result; kept while a forced rerun is held."""
    previous_holder: str = ""
    """The holder in the head that the claim replaced, and its state: so that one who ended its lease and was overtaken
    before it got the answer learns that it did end it, and one who was taken over learns that."""
    previous_state: str = ""
    note: str = ""
    """Why the step was set free, e.g. "cancelled"."""
    invalidated: str = ""
    """By whom, when and why the last result was declared none; kept until there is another one."""
    host: str = ""
    """For display only, like `pid`."""
    pid: int = 0

    @property
    def held_by(self) -> str:
        """Who holds the step, for messages: "held by HOST (pid N, attempt N)"."""
        return f"held by {self.host} (pid {self.pid}, attempt {self.attempt})"
