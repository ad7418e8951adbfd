"""The record of an attempt: begun when the attempt starts, completed when it ends."""

import dataclasses
import time
from typing import Any

from marin_exec.provenance import RunContext
from marin_exec.records import DependencyRecord, Link, Record
from marin_exec.resources import Resources
from marin_exec.runners.state import StepStatus
from marin_exec.runners.task import AttemptOutput
from marin_exec.secrets import redact_tree
from marin_exec.store import Lease, Store, utc_now
from marin_exec.store.content import content_key, held_by


def begun_record(
    status: StepStatus,
    lease: Lease,
    attempt_path: str,
    context: RunContext,
    backend: dict[str, object],
    bound: tuple[DependencyRecord, ...],
    after: tuple[DependencyRecord, ...],
    first_after: tuple[DependencyRecord, ...],
) -> Record:
    """Returns all that can be said of an attempt at its start; without files, and with "" for output digest and end.

    It goes into the attempt's log, so that a milestone has a lineage long before its step is done.
    """
    planned = status.planned
    return Record(
        digest=planned.digest,
        name=planned.step.name,
        kind=planned.step.kind.name,
        kind_version=planned.step.kind.version,
        identity=planned.identity,
        attempt=lease.attempt,
        chain=lease.chain,
        run_id=context.run_id,
        output_path=attempt_path,
        files=(),
        output_digest="",
        dependencies=bound,
        after=after,
        first_after=first_after,
        content_key=content_key(planned.identity, held_by(bound)),
        see=planned.see,
        started=utc_now(),
        finished="",
        seconds=0.0,
        resources=_resources(planned.step.resources),
        source={"digest": planned.source.digest, "functions": planned.source.functions},
        provenance={**context.provenance, "backend": backend},
    )


def _resources(resources: Resources) -> dict[str, Any]:
    """Returns a step's resources as they may be stored: of environment variables only the names."""
    given = dataclasses.asdict(resources)
    return {**redact_tree(given), "env": sorted(given["env"])}


def finished_record(status: StepStatus, output: AttemptOutput) -> Record:
    """Returns the record of an attempt that ended well."""
    begun = status.started_record
    assert begun is not None
    return dataclasses.replace(
        begun,
        output_path=output.output_path or begun.output_path,
        files=output.files,
        output_digest=output.output_digest,
        result=output.result,
        result_type=output.result_type,
        measured=output.measured,
        finished=utc_now(),
        seconds=round(time.monotonic() - status.started, 3),
        resources={
            **begun.resources,
            "step_seconds": round(output.seconds, 3),
            "worker_peak_memory_bytes": output.worker_peak_memory_bytes,
            "host": output.host,
        },
        source=output.source or begun.source,
        pieces={"made": output.pieces_made, "taken_up": output.pieces_taken_up},
        milestones=output.milestones,
    )


def linked_record(begun: Record, target: Record, link: Link) -> Record:
    """Returns the record of a step that was linked: its own identity and inputs, and the other's output and code."""
    return dataclasses.replace(
        begun,
        output_path=target.output_path,
        files=target.files,
        output_digest=target.output_digest,
        result=target.result,
        result_type=target.result_type,
        measured=target.measured,
        milestones=target.milestones,
        source=target.source,
        finished=utc_now(),
        resources={},
        link=link,
    )


def first_after(
    store: Store, digest: str, lease: Lease, mine: tuple[DependencyRecord, ...]
) -> tuple[DependencyRecord, ...]:
    """Returns what the chain's first attempt had waited for: a resumed run does not forget what it knew at its start.

    An attempt whose driver was killed before it could say what it waited for did nothing either, so the next one counts.
    """
    for attempt in range(lease.chain, lease.attempt):
        begun = store.begun_record(digest, attempt)
        if begun is not None:
            return begun.after
    return mine
