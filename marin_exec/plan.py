"""A plan: what a run would do with each step, and why, as a pure value.

`make_plan` reads the store and writes nothing. It takes two passes over the steps, so it is linear in edges:

1. upwards, from sources to targets: is the current record of each step *valid*, that is, was it made from exactly what
   its dependencies' current records hold? A step whose dependency is to run again is not known to be valid.
2. back, from the targets: a step is *wanted* if it is a target or a step that will run needs it. Wanted steps that are
   not valid, or whose data is gone, run; nothing else does.

A run makes one plan and follows it; workers never plan again. What a plan cannot know (whether a forced re-run will
give the same output) the scheduler looks up when the step's turn comes, and the reason says so.
"""

from collections.abc import Sequence

from marin_exec.draft import Draft
from marin_exec.identity import identify
from marin_exec.pins import resolve_pins
from marin_exec.planned import Action, OnCodeChange, Plan, PlannedStep, PlanOptions
from marin_exec.selection import check_names, check_nothing_else_runs, select
from marin_exec.step import Step, StepPath, step_references, topological
from marin_exec.store import Store
from marin_exec.stored_steps import stored_steps

__all__ = [
    "Action",
    "OnCodeChange",
    "Plan",
    "PlanOptions",
    "PlannedStep",
    "check_names",
    "leaves",
    "make_plan",
]


def make_plan(steps: Sequence[Step], store: Store, options: PlanOptions | None = None) -> Plan:
    """Works out what a run of these steps would do.

    Raises:
        ConfigError: a config cannot be identified; two steps clash; the options name no step of the experiment, contradict
            each other, or allow for less than is needed; or `on_code_change` is "refuse" and code differs.
        StoreError: the store cannot be read.
    """
    options = options or PlanOptions()
    references: dict[int, list[StepPath]] = {}
    order = topological(list(steps), references)
    related = topological([other for step in order for other in step.see], references)
    known = {id(step) for step in order}
    everything = [*order, *(step for step in related if id(step) not in known)]
    identities = identify(everything, resolve_pins(store, everything))
    targets = _leaves(steps, order, references)
    chosen = select(options, targets, order, references)
    reachable = order if list(chosen.targets) == targets else topological(list(chosen.targets), references)
    names: dict[str, dict[str, None]] = {}
    for step in reachable:
        names.setdefault(identities[id(step)].digest, {})[step.name] = None
    every_name = {step.name for step in reachable}
    draft = Draft(store, options, chosen.forced, every_name, identities, references, stored_steps(store, names))
    for step in reachable:
        draft.judge(step, tuple(names[identities[id(step)].digest]))
    target_digests = tuple(dict.fromkeys(identities[id(step)].digest for step in chosen.targets))
    draft.choose(target_digests)
    if chosen.may_run is not None:
        may_run = frozenset(identities[each].digest for each in chosen.may_run)
        check_nothing_else_runs(options, may_run, draft.steps)
    return Plan(steps=draft.steps, targets=target_digests, options=options)


def leaves(steps: Sequence[Step]) -> list[Step]:
    """Returns the given steps whose whole output no other reachable step needs, in order."""
    references: dict[int, list[StepPath]] = {}
    return _leaves(steps, topological(list(steps), references), references)


def _leaves(steps: Sequence[Step], order: list[Step], references: dict[int, list[StepPath]]) -> list[Step]:
    inner = {id(ref.step) for step in order for ref in step_references(step, references) if ref.milestone is None}
    inner |= {id(each) for step in order for each in step.after}
    return [step for step in steps if id(step) not in inner]
