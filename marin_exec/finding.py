"""Finding steps of a store by what a person has: a path, a name or a digest, also of steps that were never finished."""

from dataclasses import dataclass

from marin_exec.errors import StoreError
from marin_exec.lineage import location_of
from marin_exec.near_names import did_you_mean
from marin_exec.records import Record
from marin_exec.store import Store
from marin_exec.store.layout import begins_digest


@dataclass(frozen=True)
class FoundStep:
    """A step that was begun at least once."""

    name: str
    digest: str
    attempt: int
    """The attempt that the path lies in, else the last one."""
    others: tuple[str, ...]
    """Digests of other steps of that name, whose last attempts began earlier."""


def find_step(store: Store, artifact: str) -> FoundStep:
    """Returns the step that a path, a name or the first digits (6 or more) of a digest mean.

    Of several steps of one name it is the one that was begun last.

    Raises:
        StoreError: nothing in the store matches; the message lists near names.
    """
    location = location_of(store, artifact)
    if location is not None:
        digest = store.full_digest(location.digest16)
        return FoundStep(location.name, digest, location.attempt or _last_attempt(store, digest, artifact), ())
    named = _digests_named(store, artifact)
    if not named and begins_digest(artifact):
        digest = store.full_digest(artifact)
        attempt = _last_attempt(store, digest, artifact)
        begun = last_begun(store, digest)
        return FoundStep(begun.name if begun else digest[:16], digest, attempt, ())
    if not named:
        raise StoreError(_nothing_found(store, artifact))
    by_time = sorted(named, key=lambda digest: _began(store, digest))
    return FoundStep(artifact, by_time[-1], _last_attempt(store, by_time[-1], artifact), tuple(by_time[:-1]))


def last_begun(store: Store, digest: str) -> Record | None:
    """Returns what is known of the last attempt of a step that said something; None if none did."""
    for attempt in reversed(store.attempts(digest)):
        found = store.begun_record(digest, attempt)
        if found is not None:
            return found
    return None


def _last_attempt(store: Store, digest: str, artifact: str) -> int:
    attempts = store.attempts(digest)
    if not attempts:
        raise StoreError(
            f"{artifact}: step {digest[:16]} was claimed once, and no attempt of it has a log; run it again"
        )
    return attempts[-1]


def _digests_named(store: Store, name: str) -> list[str]:
    """Returns the steps of a name: by their output directories, or, where those were cleaned up, by their logs."""
    folder, _, base = name.rpartition("/")
    beginnings = set(store.outputs_in(folder).get(base, ()))
    if beginnings:
        return [digest for digest in store.known_digests() if digest[:16] in beginnings]
    return [digest for digest, known in _all_names(store).items() if known == name]


def _all_names(store: Store) -> dict[str, str]:
    digests = sorted(store.known_digests())
    found = store.look_up_all(lambda digest: last_begun(store, digest), digests)
    return {digest: record.name for digest, record in zip(digests, found, strict=True) if record is not None}


def _began(store: Store, digest: str) -> str:
    found = last_begun(store, digest)
    return found.started if found is not None else ""


def _nothing_found(store: Store, artifact: str) -> str:
    hint = did_you_mean(artifact, _all_names(store).values()) or "nothing was run in this store yet"
    return f"{artifact!r}: no path in {store.prefix}, no step's name and no digest of 6 digits or more; {hint}"
