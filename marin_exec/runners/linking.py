"""Early cutoff at a step's turn: its inputs are known now, so an output that was made from the same content can serve.

The same rule as the plan's, by what the inputs really hold. Nothing is run for it, and no backend is needed.
"""

from marin_exec.planned import OnCodeChange
from marin_exec.records import DependencyRecord, Record
from marin_exec.runners.state import StepStatus
from marin_exec.store import Store
from marin_exec.store.content import content_key, current_or_none, held_by, link_broken, made_from


def link_target(
    store: Store, status: StepStatus, bound: tuple[DependencyRecord, ...], policy: OnCodeChange
) -> Record | None:
    """Returns a record whose output can stand for this step's, given what its inputs hold; None if there is none."""
    planned = status.planned
    if planned.forced or planned.step.kind.reads_lineage or not bound:
        return None
    key = content_key(planned.identity, held_by(bound))
    return made_from(store, key, lambda record: planned.serves(record, policy))


def still_good(
    store: Store, status: StepStatus, record: Record, bound: tuple[DependencyRecord, ...], policy: OnCodeChange
) -> bool:
    """Whether a record found when the step's turn came serves: made from the same inputs, its data there."""
    planned = status.planned
    if planned.forced and record.attempt <= planned.last_attempt:
        return False  # it was made, or being made, when this run was asked to make it again
    if policy is OnCodeChange.RERUN and record.source["digest"] != planned.source.digest:
        return False
    if record.link is not None and link_broken(record.link, current_or_none(store, record.link.digest)):
        return False
    now = held_by(bound)
    same_inputs = held_by(record.dependencies).keys() == now.keys() and all(
        each.output_digest in ("", now[each.digest, each.milestone]) for each in record.dependencies
    )
    return same_inputs and not store.missing_files(record)


def gone_input(store: Store, bound: tuple[DependencyRecord, ...], statuses: dict[str, StepStatus]) -> str:
    """Returns the name of an input whose data is not there; "" if all can be read.

    A plan keeps no data for a step that it takes to be reused or linked. If that turns out otherwise, this is asked.
    """
    for each in bound:
        record = statuses[each.digest].record
        if record is not None and each.milestone is None and store.missing_files(record):
            return each.name
    return ""
