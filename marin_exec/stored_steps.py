"""What the store holds of the steps of a plan: heads and current records, read once, many at a time on a remote store."""

from collections.abc import Collection
from dataclasses import dataclass

from marin_exec.errors import StoreError
from marin_exec.records import Head, Record
from marin_exec.store import Store
from marin_exec.store.withdrawal import FREED


@dataclass(frozen=True)
class StoredStep:
    """What the store holds of one step."""

    head: Head | None = None
    record: Record | None = None
    problem: str = ""
    """Why there is no record though the step was done."""

    @property
    def invalidated(self) -> bool:
        """Whether a person declared its result to be none, and it was not made again since."""
        return self.head is not None and bool(self.head.invalidated)

    @property
    def withdrawn(self) -> str:
        """Why the step has no result any more: a person declared it none, or its output was cleaned up."""
        if self.head is None or self.head.current is not None:
            return ""
        if self.head.invalidated:
            return f"invalidated {self.head.invalidated}"
        return self.head.note if self.head.note.startswith(FREED) else ""


def stored_steps(store: Store, digests: Collection[str]) -> dict[str, StoredStep]:
    """Returns what the store holds of each step, and of those that they are linked to.

    A damaged record is a miss with that reason; a damaged head an error.
    """
    known = store.known_digests()  # one listing; steps that never ran cost nothing more
    there = [digest for digest in digests if digest in known]
    found = {**dict.fromkeys(digests, StoredStep()), **_read_all(store, there)}
    links = dict.fromkeys(each.record.link.digest for each in found.values() if each.record and each.record.link)
    return {**_read_all(store, [digest for digest in links if digest not in found]), **found}


def _read_all(store: Store, digests: list[str]) -> dict[str, StoredStep]:
    return dict(zip(digests, store.look_up_all(lambda digest: _read_one(store, digest), digests), strict=True))


def _read_one(store: Store, digest: str) -> StoredStep:
    versioned = store.head(digest)
    head = versioned.data if versioned else None
    if head is None or head.current is None:
        return StoredStep(head)
    try:
        return StoredStep(head, store.record(digest, head.current))
    except StoreError as error:
        return StoredStep(head, problem=str(error))
