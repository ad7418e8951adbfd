"""How the steps of an experiment stand in the store right now."""

from typing import Any

from marin_exec.plan import Action, Plan, PlannedStep
from marin_exec.store import Store
from marin_exec.store.withdrawal import FREED


def step_states(plan: Plan, store: Store) -> list[dict[str, Any]]:
    """Returns one row a step: name, digest, state ("done", "running", "failed", "gone", "to link", "to run"), detail."""
    return [{**_state(each, store), "name": name} for each in plan.steps.values() for name in each.names]


def _state(each: PlannedStep, store: Store) -> dict[str, Any]:
    versioned = store.head(each.digest)
    head = versioned.data if versioned else None
    row: dict[str, Any] = {"name": each.step.name, "digest": each.digest}
    if head is not None and head.state == "held":
        said = store.latest_event(each.digest, head.attempt, "progress")
        detail = f"attempt {head.attempt} on {head.host} (pid {head.pid})" + (f": {said['message']}" if said else "")
        return {**row, "state": "running", "detail": detail}
    if each.action is Action.REUSE and each.record is not None:
        link = f": {each.record.link.phrase}" if each.record.link else ""
        detail = f"{each.record.finished[:19]} by run {each.record.run_id}{link}"
        return {**row, "state": "done", "detail": detail}
    if each.action is Action.GONE:
        return {**row, "state": "gone", "detail": each.reason}
    if each.action is Action.LINK:
        return {**row, "state": "to link", "detail": each.explanation}
    if head is not None and head.state == "free" and head.note.startswith((FREED, "invalidated")):
        return {**row, "state": "to run", "detail": head.note}
    if head is not None and head.state == "free" and head.note:
        state = "failed" if head.note.startswith("failed") else "stopped"
        return {**row, "state": state, "detail": f"attempt {head.attempt}: {head.note.removeprefix('failed: ')}"}
    return {**row, "state": "to run", "detail": each.explanation}
