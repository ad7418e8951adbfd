"""What a step's dependencies hold at the moment when it starts: fixed in its record, and what it is given to read."""

from collections.abc import Collection, Iterable
from typing import Any

from marin_exec.errors import StepFailed
from marin_exec.identity import resolve_config
from marin_exec.planned import PlannedStep
from marin_exec.records import DependencyRecord
from marin_exec.runners.state import State, StepStatus
from marin_exec.step import StepPath
from marin_exec.store import Piece, Store
from marin_exec.store.manifest import piece_digest
from marin_exec.store.pieces import piece_named


class Bindings:
    """Looks up outputs and milestones of a run's steps."""

    def __init__(self, store: Store, statuses: dict[str, StepStatus], left_open: Collection[str] = ()):
        """`left_open`: digests of steps whose output is not there; their bindings say so by an empty output digest."""
        self._store = store
        self._statuses = statuses
        self._left_open = left_open

    def of_config(self, status: StepStatus) -> tuple[DependencyRecord, ...]:
        """Returns what each dependency in a step's config holds now.

        Raises:
            StepFailed: a dependency is done and never published the milestone that is needed of it.
        """
        bound: dict[tuple[str, str | None], DependencyRecord] = {}
        for digest, ref in status.planned.references:
            key = (digest, ref.milestone)
            sub_paths = (bound[key].sub_paths if key in bound else ()) + ((ref.sub_path,) if ref.sub_path else ())
            bound[key] = self._bind(digest, ref.milestone, tuple(dict.fromkeys(sub_paths)))
        return tuple(bound.values())

    def of_after(self, status: StepStatus) -> tuple[DependencyRecord, ...]:
        """Returns what the steps hold that a step had to wait for."""
        return tuple(self._bind(digest, None, ()) for digest in status.planned.after if digest not in self._left_open)

    def milestone(self, digest: str, name: str) -> Piece | None:
        """Returns a milestone that counts in this run, or None while there is none.

        A step that is yet to start has none: a forced or changed one will publish its own.
        """
        at = self._pieces_at(digest)
        return piece_named(self._store, *at, "milestone", name) if at is not None else None

    def _pieces_at(self, digest: str) -> tuple[str, int] | None:
        """Returns the step and the chain whose milestones count; None while there are none."""
        status = self._statuses[digest]
        if status.record is not None:
            return status.record.pieces_at
        if status.lease is not None:
            return digest, status.lease.chain
        never_started = status.attempts == 0 and (status.planned.forced or status.state is State.PENDING)
        head = None if never_started else self._store.head(digest)
        return (digest, head.data.chain) if head is not None else None

    def _bind(self, digest: str, milestone: str | None, sub_paths: tuple[str, ...]) -> DependencyRecord:
        upstream = self._statuses[digest]
        record, name = upstream.record, upstream.planned.step.name
        if digest in self._left_open:
            path, content, run_id, record = "", "", "", None
        elif milestone is not None:
            piece = self.milestone(digest, milestone)
            if piece is None:
                published = list(record.milestones) if record else []
                raise StepFailed(
                    f"step {name}: is done, but never published the milestone {milestone!r} that another step depends on; "
                    f"it published {published or 'none'}. Depend on one of those, or publish it"
                )
            path, content = piece.attempt_path, piece_digest(piece)
            run_id = record.run_id if record else self._run_of(digest, piece.attempt)
        else:
            assert record is not None, f"step {name} is bound before it is there"
            path, content, run_id = record.output_path, record.output_digest, record.run_id
        return DependencyRecord(
            name=name,
            kind=upstream.planned.step.kind.name,
            digest=digest,
            sub_paths=sub_paths,
            milestone=milestone,
            path=record.output_path if record else path,
            output_digest=content,
            run_id=run_id,
        )

    def _run_of(self, digest: str, attempt: int) -> str:
        """Returns the run that made an attempt, from the attempt's log; "" if its driver died before it said so."""
        begun = self._store.begun_record(digest, attempt)
        return begun.run_id if begun else ""


def resolved_config(store: Store, planned: PlannedStep, bound: Iterable[DependencyRecord]) -> Any:
    """Returns a step's config with every dependency replaced by the path of what was bound for it."""
    paths = {(each.digest, each.milestone): store.url(each.path) for each in bound}
    digest_of = {id(ref.step): digest for digest, ref in planned.references}

    def path_of(ref: StepPath) -> str:
        base = paths[digest_of[id(ref.step)], ref.milestone]
        return f"{base}/{ref.sub_path}" if ref.sub_path else base

    return resolve_config(planned.step.config, path_of)
