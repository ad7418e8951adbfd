"""Pins: which finished output a pinned step stands for, looked up in the store when a plan is made."""

from collections.abc import Sequence

from marin_exec.errors import ConfigError, StoreError
from marin_exec.identity import Identity
from marin_exec.records import Record
from marin_exec.step import Step
from marin_exec.store import Store
from marin_exec.store.layout import begins_digest, is_digest

SHORTEST_DIGEST = 16


def resolve_pins(store: Store, steps: Sequence[Step]) -> dict[int, Identity]:
    """Returns the identity of each pinned step among these, by `id(step)`.

    Raises:
        ConfigError: a pin leads to nothing in the store, to a step of another kind, or to data that is gone.
    """
    return {id(step): _resolve(store, step) for step in steps if step.pinned}


def _resolve(store: Store, step: Step) -> Identity:
    where = f"step {step.name}: pinned to {step.pinned!r}"
    try:
        record = record_of(store, step.pinned)
    except StoreError as error:
        raise ConfigError(f"{where}: {error}") from error
    if record is None:
        raise ConfigError(f"{where}, which has no result in {store.prefix}; `marin-exec ls` lists what has")
    if record.identity["kind"] != step.kind.digested_name:
        raise ConfigError(f"{where}, a step of kind {record.kind}; one of kind {step.kind.name} is needed")
    missing = store.missing_files(record)
    if missing:
        path, why = missing[0]
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ConfigError(
            f"{where}, whose data is gone or damaged: {store.url(record.output_path)}/{path} ({why}){more}. Restore it, or "
            "take the pin away so that the step is made again"
        )
    return Identity(record.digest, record.identity)


def record_of(store: Store, to: str) -> Record | None:
    """Returns the current record of the step that a digest (at least 16 digits) begins, or a path lies in.

    Raises:
        StoreError: there is no such step, the path is in another store, or of an attempt that is not the step's result.
    """
    if is_digest(to):
        return store.current(to)
    if begins_digest(to, SHORTEST_DIGEST):
        return store.current(store.full_digest(to))
    location = store.locate(to)
    record = store.current(store.full_digest(location.digest16))
    if record is not None and location.attempt not in (None, record.attempt):
        raise StoreError(
            f"is attempt {location.attempt} of a step whose result is attempt {record.attempt} now; only a step's "
            f"result can be meant. Give {record.digest}, or to {store.url(record.output_path)}"
        )
    return record
