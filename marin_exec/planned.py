"""The values that a plan is made of."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from marin_exec.records import Link, Record
from marin_exec.source import SourceInfo
from marin_exec.step import Step, StepPath


class Action(StrEnum):
    RUN = "RUN"
    REUSE = "REUSE"
    LINK = "LINK"
    """Another recipe made the same from the same content: its output serves, and the record says so."""
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
    """What a plan is about; names may be patterns with *, ? and [...]. See `marin_exec.selection`."""

    only: tuple[str, ...] = ()
    """Just these steps: what they need must be there."""
    until: tuple[str, ...] = ()
    """These steps with what they need; by default the experiment's last steps."""
    start_from: tuple[str, ...] = ()
    """These steps again, and everything that is made from them; nothing else."""
    force: tuple[str, ...] = ()
    """Steps to run even if they are done; they start afresh."""
    with_descendants: bool = False
    """With `force`: also everything that is made from them."""
    on_code_change: OnCodeChange = OnCodeChange.SAY
    experiment: str = ""
    """The experiment's file. Earlier runs of it come first when a step is compared with one."""


@dataclass(frozen=True, kw_only=True)
class PlannedStep:
    """What a run would do with one step."""

    step: Step
    digest: str
    names: tuple[str, ...]
    """All names that the experiment gives to this work; the first is `step`'s."""
    identity: dict[str, Any]
    """The digested tree, as kept in the record."""
    references: tuple[tuple[str, StepPath], ...]
    """(digest of the step, reference) for each place in the config that refers to a step."""
    after: tuple[str, ...]
    """Digests of the steps in `after=`."""
    see: tuple[tuple[str, str], ...]
    """Name and digest of the steps in `see=`."""
    action: Action
    reason: str
    causes: tuple[str, ...]
    """Root causes of a RUN, each as "step: field old -> new"."""
    record: Record | None
    """The current record, if the step was ever done."""
    last_attempt: int
    """The number of the last attempt that anybody had begun when the plan was made; 0 if none."""
    source: SourceInfo
    code_changed: tuple[str, ...]
    """Functions that differ from those that made the current output, or the one that is linked to."""
    forced: bool
    link: Link | None = None
    """What a LINK would point at."""
    outlook: str = ""
    """What may yet spare it from running, which only its turn will tell."""
    resumption: str = ""
    """What becomes of a half-done step's shards and milestones; "" if there is nothing to say."""

    @property
    def explanation(self) -> str:
        """The reason, what may yet come, and what becomes of half-done work: one line for a person."""
        return "; ".join(part for part in (self.reason, self.outlook, self.resumption) if part)

    def reused(self, reason: str) -> "PlannedStep":
        """Returns the same as a REUSE. Plans hold thousands of these: copying is faster than `dataclasses.replace`."""
        new = object.__new__(PlannedStep)
        new.__dict__.update(self.__dict__, action=Action.REUSE, reason=reason)
        return new

    def serves(self, made: Record, on_code_change: OnCodeChange) -> bool:
        """Whether another step's output may stand for this one's if it was made from the same content."""
        if self.forced or self.step.kind.reads_lineage or made.digest == self.digest:
            return False
        lenient = on_code_change in (OnCodeChange.SAY, OnCodeChange.REUSE)
        return lenient or made.source["digest"] == self.source.digest

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

    @property
    def to_do(self) -> list[PlannedStep]:
        """Steps for which something is written: those to run, and those to link."""
        return self.with_action(Action.RUN, Action.WAIT, Action.LINK)

    def named(self, name: str) -> PlannedStep | None:
        """Returns the step of that name, or None if the plan has none."""
        return next((each for each in self.steps.values() if name in each.names), None)
