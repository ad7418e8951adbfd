"""Which steps a plan is about: `--only`, `--until`, `--from` and `--force`, by names or patterns.

* `only`: just these. What they need must be there.
* `until`: these, and what they need.
* `from`: these again, and everything that is made from them; nothing else. With `until`, only what leads there.
* `force`: these again, whatever else is chosen; with `with_descendants` also everything that is made from them.

What is made from a step is told by configs: a step that only waits for another (`after=`) is not made from it.
"""

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from marin_exec.errors import ConfigError
from marin_exec.near_names import did_you_mean
from marin_exec.planned import PlannedStep, PlanOptions
from marin_exec.step import Step, StepPath, step_references, topological

MAX_NAMED = 3
_PATTERN_SIGNS = frozenset("*?[")


@dataclass(frozen=True)
class Selection:
    """What was chosen among an experiment's steps."""

    targets: tuple[Step, ...]
    forced: frozenset[str]
    """Names of the steps to run even if they are done."""
    may_run: frozenset[int] | None
    """`id()` of the steps that may run; None if all may that are needed."""


def select(
    options: PlanOptions,
    targets: Sequence[Step],
    order: Sequence[Step],
    references: dict[int, list[StepPath]],
) -> Selection:
    """Returns what the options choose.

    Args:
        targets: those of the experiment, which are meant if nothing is chosen.
        order: all steps of the experiment, in topological order.
        references: see `marin_exec.step.step_references`.

    Raises:
        ConfigError: a name or pattern matches no step, or the options contradict each other.
    """
    _check_together(options)
    only, until, start_from, force = (
        _matching(patterns, order) for patterns in (options.only, options.until, options.start_from, options.force)
    )
    chosen = list(targets)
    may_run = None
    again: list[Step] = []
    if only:
        chosen, may_run = only, frozenset(map(id, only))
    elif until:
        chosen = until
    if start_from:
        within = _upstream(chosen, references)
        again = [step for step in _with_descendants(start_from, order, references) if id(step) in within]
        missing = [step.name for step in start_from if id(step) not in within]
        if missing:
            raise ConfigError(
                f"--from {missing[0]}: none of the steps in --until ({', '.join(options.until)}) is made from it; "
                "choose a step that it leads to, or leave --until away"
            )
        may_run = frozenset(map(id, again))
        used = {id(ref.step) for step in again for ref in step_references(step, references)}
        chosen = [step for step in again if id(step) not in used]
    forced: list[Step] = []
    if force:
        within = _upstream(chosen, references)
        below = _with_descendants(force, order, references) if options.with_descendants else force
        forced = [step for step in below if id(step) in within]
        _check_force(options, order, forced, may_run)
    return Selection(tuple(chosen), frozenset(step.name for step in (*again, *forced)), may_run)


def check_nothing_else_runs(options: PlanOptions, may_run: frozenset[str], steps: Mapping[str, PlannedStep]) -> None:
    """Raises ConfigError if a step would run that was not chosen by options that allow for no other.

    Args:
        may_run: digests of the steps that may.
        steps: the plan's, settled.
    """
    lacking = [each for each in steps.values() if each.action in ("RUN", "WAIT") and each.digest not in may_run]
    if not lacking:
        return
    option = f"--only {' '.join(options.only)}" if options.only else f"--from {' '.join(options.start_from)}"
    shown = "; ".join(f"{each.step.name} ({each.reason})" for each in lacking[:MAX_NAMED])
    more = f"; and {len(lacking) - MAX_NAMED} more" if len(lacking) > MAX_NAMED else ""
    raise ConfigError(
        f"{option} runs nothing else, and this is needed and not there: {shown}{more}. "
        f"Make it first with `marin-exec run EXPERIMENT --until {lacking[-1].step.name}`"
        + (", or take --until instead of --only to make both" if options.only else "")
    )


def check_names(names: Iterable[str], steps: Sequence[Step]) -> None:
    """Raises ConfigError for a name or pattern that matches no step, with the nearest names that exist."""
    _matching(tuple(names), steps)


def _check_together(options: PlanOptions) -> None:
    for other, values in (("--until", options.until), ("--from", options.start_from)):
        if options.only and values:
            raise ConfigError(
                f"--only {' '.join(options.only)} and {other} {' '.join(values)}: --only names exactly what may run; "
                "give one of them"
            )
    if options.with_descendants and not options.force:
        raise ConfigError("--with-descendants belongs to --force, which is not given; --from NAME does both in one")
    if options.with_descendants and options.only:
        raise ConfigError(
            f"--only {' '.join(options.only)} and --with-descendants: --only names exactly what may run; give one of them"
        )


def _check_force(
    options: PlanOptions, order: Sequence[Step], forced: Sequence[Step], may_run: frozenset[int] | None
) -> None:
    chosen = {step.name for step in forced if may_run is None or id(step) in may_run}
    for pattern in options.force:
        if chosen.isdisjoint(step.name for step in _matching((pattern,), order)):
            by = "--only" if options.only else "--until" if options.until else "--from"
            names = " ".join(options.only or options.until or options.start_from)
            raise ConfigError(
                f"--force {pattern}: none of the steps in {by} ({names}) needs it, so it would not run; give {by} {pattern} too"
            )


def _matching(patterns: Sequence[str], order: Sequence[Step]) -> list[Step]:
    """Returns the steps that any of the patterns names, in topological order."""
    found: dict[int, Step] = {}
    for pattern in patterns:
        is_pattern = not _PATTERN_SIGNS.isdisjoint(pattern)
        matched = [
            step for step in order if (fnmatch.fnmatchcase(step.name, pattern) if is_pattern else step.name == pattern)
        ]
        if not matched:
            _refuse(pattern, order)
        found |= {id(step): step for step in matched}
    return [step for step in order if id(step) in found]


def _refuse(pattern: str, order: Sequence[Step]) -> None:
    raise ConfigError(
        f"no step is named {pattern!r}; {did_you_mean(pattern, (step.name for step in order))} `marin-exec plan EXPERIMENT "
        "--verbose` lists all names, and *, ? and [...] match parts of them"
    )


def _upstream(targets: Sequence[Step], references: dict[int, list[StepPath]]) -> set[int]:
    return {id(step) for step in topological(list(targets), references)}


def _with_descendants(
    starts: Sequence[Step], order: Sequence[Step], references: dict[int, list[StepPath]]
) -> list[Step]:
    """Returns the steps and all that is made from them, in topological order."""
    below = {id(step) for step in starts}
    for step in order:
        if any(id(ref.step) in below for ref in step_references(step, references)):
            below.add(id(step))
    return [step for step in order if id(step) in below]
