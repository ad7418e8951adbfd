"""Making a step again beside its result, to see whether the same comes out. Nothing of the store changes, and nothing stays.

The step runs in a small store of its own below `.marin/scratch/`, by the same scheduler; its inputs are bound to the current
results of the real store. A scratch that a kill leaves behind is cleaned up by `gc`.
"""

import contextlib
import dataclasses
import os
import secrets
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from marin_exec.errors import ConfigError, StepFailed, StoreError
from marin_exec.experiment import Experiment
from marin_exec.plan import Action, Plan, PlannedStep, PlanOptions
from marin_exec.records import Head, Record
from marin_exec.run import run_plan
from marin_exec.store import Store, layout
from marin_exec.store.pieces import commit_piece, piece_named
from marin_exec.walking import remove


@dataclass(frozen=True)
class Remade:
    """A step's current result beside what came out when it was made again."""

    name: str
    digest: str
    attempt: int
    """Of the current result."""
    equal: bool
    """Whether the output digests are: files (or the kind's content digest) and typed result."""
    output_digests: tuple[str, str]
    files: tuple[tuple[str, str], ...]
    """Path and how it differs, e.g. "only before", "other content"."""
    result: tuple[Any, Any] | None
    """The typed results, if they differ."""
    seconds: tuple[float, float]


def remake(store: Store, plan: Plan, experiment: Experiment, name: str, **run_options: Any) -> Remade:
    """Makes a finished step again in a scratch store and compares.

    Args:
        plan: of the experiment, over the real store.
        run_options: as for `run_plan`: backend, address.

    Raises:
        ConfigError: the step has no valid result to compare with.
        StoreError: an input is not there.
        StepFailed: it did not end well this time.
    """
    planned = plan.named(name)
    if planned is None and any(sign in name for sign in "*?["):
        raise ConfigError(f"--rerun {name}: name one step, not a pattern")
    if planned is None or planned.record is None or planned.action is not Action.REUSE:
        why = planned.explanation if planned is not None else "nothing of the plan needs it"
        raise ConfigError(
            f"--rerun {name}: there is no current result to compare with ({why}); run the experiment first"
        )
    with _scratch(store) as scratch:
        alone = _plan_alone(plan, planned, store, scratch)
        outcome = run_plan(alone, scratch, experiment, **run_options)
        status = outcome.statuses[planned.digest]
        if status.record is None:
            raise StepFailed(f"step {name}: did not end well when it was made again: {status.note}")
        return _compared(planned.record, status.record)


@contextlib.contextmanager
def _scratch(store: Store) -> Generator[Store]:
    relative = f"{layout.SCRATCH}/{secrets.token_hex(8)}"
    try:
        yield Store.open(store.url(relative))
    finally:
        remove(store, relative)
        if store.is_local:
            with contextlib.suppress(OSError):  # another one is in it
                os.rmdir(store.url(layout.SCRATCH))


def _plan_alone(plan: Plan, planned: PlannedStep, store: Store, scratch: Store) -> Plan:
    """Returns a plan that runs one step, with its inputs as finished steps of the scratch store whose data is in the real one."""
    steps = {}
    for digest in planned.dependency_digests:
        upstream = plan.steps[digest]
        record = upstream.record
        if record is None or store.missing_files(record):
            raise StoreError(
                f"step {planned.step.name}: its input {upstream.step.name} is not there any more, so it cannot be made again; "
                f"make that first (marin-exec run ... --until {upstream.step.name})"
            )
        away = dataclasses.replace(record, output_path=store.url(record.output_path), link=None)
        head = Head(state="done", attempt=away.attempt, chain=away.chain, current=away.attempt)
        scratch.files.create(layout.head(digest), head.to_bytes())
        for other, ref in planned.references:
            if other == digest and ref.milestone is not None:
                _bring_milestone(store, scratch, record, ref.milestone)
        steps[digest] = dataclasses.replace(upstream, action=Action.REUSE, record=away, references=(), after=())
    alone = dataclasses.replace(
        planned,
        action=Action.RUN,
        reason=f"to compare with attempt {planned.record.attempt if planned.record else 0}",
        record=None,
        after=(),
        see=(),
        last_attempt=0,
        forced=True,
        resumption="",
    )
    return Plan(steps={**steps, planned.digest: alone}, targets=(planned.digest,), options=PlanOptions())


def _bring_milestone(store: Store, scratch: Store, record: Record, name: str) -> None:
    source = record if record.link is None else record.link
    piece = piece_named(store, source.digest, source.chain, "milestone", name)
    if piece is None:
        raise StoreError(f"milestone {name} of {record.name}: is not there any more")
    away = dataclasses.replace(piece, attempt_path=store.url(piece.attempt_path))
    commit_piece(scratch, record.digest, record.chain, "milestone", name, away)


def _compared(before: Record, after: Record) -> Remade:
    old, new = ({each.path: each for each in record.files} for record in (before, after))
    differing = []
    for path in sorted({*old, *new}):
        if path not in new:
            differing.append((path, "only before"))
        elif path not in old:
            differing.append((path, "only when made again"))
        elif old[path] != new[path]:
            sizes = f"{old[path].size_bytes:,} and {new[path].size_bytes:,} bytes"
            differing.append(
                (path, sizes if old[path].size_bytes != new[path].size_bytes else "other content, same size")
            )
    return Remade(
        name=before.name,
        digest=before.digest,
        attempt=before.attempt,
        equal=before.output_digest == after.output_digest,
        output_digests=(before.output_digest, after.output_digest),
        files=tuple(differing),
        result=None if before.result == after.result else (before.result, after.result),
        seconds=(before.seconds, after.seconds),
    )
