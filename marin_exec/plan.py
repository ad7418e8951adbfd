"""A plan: what a run would do with each step, and why, as a pure value.

`make_plan` reads the store and writes nothing. It takes two passes over the steps, so it is linear in edges:

1. upwards, from sources to targets: is the current record of each step *valid*, that is, was it made from exactly what
   its dependencies' current records hold? A step whose dependency is to run again is not known to be valid.
2. back, from the targets: a step is *wanted* if it is a target or a step that will run needs it. Wanted steps that are
   not valid, or whose data is gone, run; nothing else does.

A run makes one plan and follows it; workers never plan again. What a plan cannot know (whether a forced re-run will
give the same output) the scheduler looks up when the step's turn comes, and the reason says so.
"""

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from marin_exec.errors import ConfigError
from marin_exec.explain import Explainer
from marin_exec.identity import Identity, identify
from marin_exec.records import Head, Record
from marin_exec.source import SourceInfo, changed_functions, source_of
from marin_exec.step import Step, StepPath, references, topological
from marin_exec.store import Store, Versioned
from marin_exec.store.manifest import milestone_digest


class Action(StrEnum):
    RUN = "RUN"
    REUSE = "REUSE"
    WAIT = "WAIT"
    """Another driver holds the lease: wait for it and reuse what it makes, or take over if it died."""
    GONE = "GONE"
    """Made once, or not at all; its data is not there, and nothing that is to run needs it."""


class OnCodeChange(StrEnum):
    """What to do with a step whose code differs from the code that made its output."""

    SAY = "say"
    """Reuse finished outputs and say so; a half-done step starts afresh."""
    REUSE = "reuse"
    """As SAY, and a half-done step goes on with the shards and milestones that the other code made."""
    RERUN = "rerun"
    REFUSE = "refuse"


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    only: tuple[str, ...] = ()
    """Names of steps to bring about, with what they need; by default the experiment's last steps."""
    force: tuple[str, ...] = ()
    """Names of steps to run even if they are done; they start afresh."""
    on_code_change: OnCodeChange = OnCodeChange.SAY


@dataclass(frozen=True, kw_only=True)
class PlannedStep:
    """What a run would do with one step."""

    step: Step
    digest: str
    identity: dict[str, Any]
    """The digested tree, as kept in the record."""
    references: tuple[tuple[str, StepPath], ...]
    """(digest of the step, reference) for each place in the config that refers to a step."""
    after: tuple[str, ...]
    """Digests of the steps in `after=`."""
    action: Action
    reason: str
    causes: tuple[str, ...]
    """Root causes of a RUN, each as "step: field old -> new"."""
    record: Record | None
    """The current record, if the step was ever done."""
    source: SourceInfo
    code_changed: tuple[str, ...]
    """Functions that differ from those that made the current output."""
    forced: bool

    @property
    def dependency_digests(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(digest for digest, _ in self.references))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every step reachable from the targets, dependencies first, by digest."""

    steps: dict[str, PlannedStep]
    targets: tuple[str, ...]
    options: PlanOptions

    def with_action(self, *actions: Action) -> list[PlannedStep]:
        return [each for each in self.steps.values() if each.action in actions]

    @property
    def to_run(self) -> list[PlannedStep]:
        """Steps that this plan runs or waits for; empty means that nothing has to be started."""
        return self.with_action(Action.RUN, Action.WAIT)


@dataclass(frozen=True)
class _Found:
    """What the store holds of one step."""

    head: Head | None
    record: Record | None


def leaves(steps: Sequence[Step]) -> list[Step]:
    """Returns the given steps that no other reachable step depends on, in order."""
    inner = {id(ref.step) for step in topological(list(steps)) for ref in references(step.config)}
    inner |= {id(each) for step in topological(list(steps)) for each in step.after}
    return [step for step in steps if id(step) not in inner]


def make_plan(steps: Sequence[Step], store: Store, options: PlanOptions | None = None) -> Plan:
    """Works out what a run of these steps would do.

    Raises:
        ConfigError: a config cannot be identified, two steps clash, a name in the options is not a step of the
            experiment, or `on_code_change` is "refuse" and code differs.
    """
    options = options or PlanOptions()
    order = topological(list(steps))
    identities = identify(order)
    check_names(options.only + options.force, order)
    targets = [step for step in order if step.name in options.only] if options.only else leaves(steps)
    reachable = topological(targets)
    found = _read_store(store, {identities[id(step)].digest for step in reachable})
    draft = _Draft(store, options, identities, found)
    for step in reachable:
        draft.judge(step)
    draft.choose({identities[id(step)].digest for step in targets})
    return Plan(
        steps=draft.planned(),
        targets=tuple(dict.fromkeys(identities[id(step)].digest for step in targets)),
        options=options,
    )


def check_names(names: Collection[str], steps: Sequence[Step]) -> None:
    """Raises ConfigError for a name that no step has, with the nearest names that exist."""
    known = {step.name for step in steps}
    for name in names:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.4) or sorted(known)[:10]
            raise ConfigError(
                f"no step is named {name!r}; did you mean {', '.join(near)}? `marin-exec plan EXPERIMENT` lists all names"
            )


def _read_store(store: Store, digests: Collection[str]) -> dict[str, _Found]:
    known = store.known_digests()  # one listing; steps that never ran cost nothing more
    found = {}
    for digest in digests:
        versioned: Versioned[Head] | None = store.head(digest) if digest in known else None
        head = versioned.data if versioned else None
        record = store.record(digest, head.current) if head and head.current is not None else None
        found[digest] = _Found(head, record)
    return found


class _Draft:
    """The working state of `make_plan`."""

    def __init__(self, store: Store, options: PlanOptions, identities: dict[int, Identity], found: dict[str, _Found]):
        self._store = store
        self._options = options
        self._identities = identities
        self._found = found
        self._steps: dict[str, PlannedStep] = {}
        self._explainer = Explainer(store, {digest: each.record for digest, each in found.items()})

    def judge(self, step: Step) -> None:
        """First pass: notes whether the step's current record is valid, as action REUSE or RUN with the reason."""
        identity = self._identities[id(step)]
        if identity.digest in self._steps:
            return  # the same work, written twice in the experiment
        record = self._found[identity.digest].record
        refs = tuple((self._identities[id(ref.step)].digest, ref) for ref in references(step.config))
        source = source_of(step.fn)
        changed = tuple(changed_functions(record.source["functions"], source.functions)) if record else ()
        forced = step.name in self._options.force
        self._explainer.note(step.name, identity.digest, identity.tree)
        draft = PlannedStep(
            step=step,
            digest=identity.digest,
            identity=identity.tree,
            references=refs,
            after=tuple(self._identities[id(each)].digest for each in step.after),
            action=Action.RUN,
            reason="",
            causes=(),
            record=record,
            source=source,
            code_changed=changed,
            forced=forced,
        )
        if changed and self._options.on_code_change is OnCodeChange.REFUSE:
            raise ConfigError(
                f"step {step.name}: the code that made its output differs in {', '.join(changed)}, and "
                f"--on-code-change is 'refuse'. Take 'say' to reuse the output, or 'rerun' to make it again"
            )
        reason, causes = self._invalid_because(draft)
        action = Action.RUN if reason else Action.REUSE
        if action is Action.REUSE:
            reason = f"made by run {record.run_id}" if record else ""
            if changed:
                reason += f"; code changed in {', '.join(changed)} (reused)"
        self._steps[identity.digest] = dataclasses.replace(draft, action=action, reason=reason, causes=causes)

    def _invalid_because(self, draft: PlannedStep) -> tuple[str, tuple[str, ...]]:
        name = draft.step.name
        if draft.forced:
            return "forced", (f"{name}: forced",)
        if draft.record is None:
            return self._explainer.never_run(name, draft.step.kind.name, draft.digest, draft.identity)
        if draft.code_changed and self._options.on_code_change is OnCodeChange.RERUN:
            what = f"code changed in {', '.join(draft.code_changed)}"
            return what, (f"{name}: {what}",)
        for digest in draft.dependency_digests:
            upstream = self._steps[digest]
            if upstream.record is not None and upstream.action is Action.RUN:
                reason = f"upstream {upstream.step.name} will run ({upstream.reason}); reused if its output is the same"
                return reason, upstream.causes
        for bound in draft.record.dependencies:
            now = self.produced(bound.digest, bound.milestone)
            if now is not None and now != bound.output_digest:
                upstream = self._steps[bound.digest]
                what = (
                    f"upstream {upstream.step.name} now holds other content "
                    f"({bound.output_digest[:16]} -> {now[:16]}) than this was made from"
                )
                return what, (f"{upstream.step.name}: output replaced by run {upstream.record.run_id}",)
        return "", ()

    def produced(self, digest: str, milestone: str | None) -> str | None:
        """Returns the output digest of a step's current record, or of a milestone of it; None if it has none now."""
        record = self._found[digest].record if digest in self._found else None
        if milestone is not None:
            chain = record.chain if record else None
            return milestone_digest(self._store, digest, chain, milestone) if chain is not None else None
        return record.output_digest if record else None

    def choose(self, targets: Collection[str]) -> None:
        """Second pass, backwards: settles the action of each step by whether it is wanted."""
        wanted = set(targets)
        for digest in reversed(self._steps):
            draft = self._steps[digest]
            head = self._found[digest].head
            if draft.action is Action.REUSE:
                assert draft.record is not None
                missing = self._store.missing_files(draft.record)
                if missing:
                    path, why = missing[0]
                    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
                    what = f"data gone or damaged: {path} ({why}){more}"
                    action = Action.RUN if digest in wanted else Action.GONE
                    causes = (f"{draft.step.name}: {what}",) if digest in wanted else ()
                    draft = dataclasses.replace(draft, action=action, reason=what, causes=causes)
            elif digest not in wanted:
                draft = dataclasses.replace(draft, action=Action.GONE, reason=f"not needed ({draft.reason})", causes=())
            if draft.action is Action.RUN and head is not None and head.state == "held" and not draft.forced:
                why = f"held by {head.host} (pid {head.pid}, attempt {head.attempt}); reuse its output, or take over if it died"
                draft = dataclasses.replace(draft, action=Action.WAIT, reason=why)
            if draft.action in (Action.RUN, Action.WAIT):
                wanted.update(draft.dependency_digests)
                wanted.update(draft.after)
            self._steps[digest] = draft

    def planned(self) -> dict[str, PlannedStep]:
        return dict(self._steps)
