"""Steps, and how they depend on each other: what an experiment file is made of.

A `Step` is a frozen handle. Making one does nothing: no I/O, no clock, no environment is read. Its identity is worked
out later, by `marin_exec.identity`, from its kind and its config.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from marin_exec.errors import ConfigError
from marin_exec.kinds import Kind, check_name, kind_of
from marin_exec.resources import Resources, Retry

LONGEST_NAME_PART = 200
"""Characters: with a dash and 16 digits it is the name of a directory, for which file systems have 255 bytes."""


@dataclass(frozen=True, eq=False)
class Step:
    """One content-hashed unit of work: `fn(config, out)`.

    Args:
        name: display name and first part of the output path, e.g. "dedup/fuzzy". Not identity.
        fn: the step function, preferably declared with `@kind`.
        config: a frozen dataclass (or None). A `Step`, `step / "sub/path"` or `step.milestone("name")` anywhere in it is a
            dependency; the function receives its path instead.
        after: steps that must be done before this one starts; not identity, but recorded.
        see: related steps, noted in lineage; nothing waits for them.
        limits: names and numbers, e.g. {"huggingface": 4}: of the steps that name a limit, at most so many run at a time,
            over all runs in the store. Not identity.

    Raises:
        ConfigError: the name is not valid, `fn` is not callable, it is to run in ranks and its kind cannot, or a limit is
            not a name with a whole number from 1 on.
    """

    name: str
    fn: Callable[..., Any]
    config: Any = None
    _: dataclasses.KW_ONLY
    resources: Resources = Resources()
    retry: Retry = Retry()
    after: tuple["Step", ...] = ()
    see: tuple["Step", ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    pinned: str = ""
    """Set by `pin`: the digest or path of the finished step that stands for this one."""

    def __post_init__(self) -> None:
        check_name("step", self.name)
        longest = max(self.name.split("/"), key=len)
        if len(longest) > LONGEST_NAME_PART:
            raise ConfigError(
                f"step {self.name}: the part {longest!r} has {len(longest)} characters; at most {LONGEST_NAME_PART} are allowed "
                f"between '/', for it names a directory. Name what the step is; what is in its config need not be in its name"
            )
        if not callable(self.fn):
            raise ConfigError(f"step {self.name}: fn is {self.fn!r}; a function fn(config, out) is needed")
        if self.resources.ranks > 1 and not self.kind.gang:
            raise ConfigError(
                f"step {self.name}: asks for {self.resources.ranks} ranks, and its kind {self.kind.name!r} does not say that "
                f"it can run in ranks. Leave ranks at 1, or let the function look at out.rank and declare @kind(..., gang=True)"
            )
        for attribute in ("after", "see"):
            value = tuple(getattr(self, attribute))
            for other in value:
                if not isinstance(other, Step):
                    raise ConfigError(f"step {self.name}: {attribute}= holds {other!r}; only steps are allowed there")
            object.__setattr__(self, attribute, value)
        for limit, number in self.limits.items():
            if not isinstance(limit, str) or not limit or type(number) is not int or number < 1:
                raise ConfigError(
                    f"step {self.name}: limits= holds {limit!r}: {number!r}; a name and a whole number from 1 on are needed"
                )

    @property
    def kind(self) -> Kind:
        return kind_of(self.fn)

    def __truediv__(self, sub_path: str) -> "StepPath":
        return StepPath(self, _clean_sub_path(self.name, sub_path))

    def milestone(self, name: str) -> "StepPath":
        """Returns a dependency on one published milestone of this step: it waits for that, not for the whole step."""
        return StepPath(self, _clean_sub_path(self.name, name), milestone=_clean_sub_path(self.name, name))

    def __repr__(self) -> str:
        return f"Step({self.name!r})"


def pin(step: Step, to: str) -> Step:
    """Returns a step that is held to a finished output, whatever its recipe says now.

    What depends on it has that output's digest in its own, so no change above reaches it; nothing upstream is planned.
    Use what is returned wherever the step stood.

    Args:
        step: the step as it is declared now; its name and kind stay.
        to: the digest (at least 16 digits) of a finished step of the same kind, or a path of its output. A path is looked
            up when a plan is made; a whole digest means the same in every store.

    Raises:
        ConfigError: not a step, or no digest or path. That the output is there is checked when a plan is made.
    """
    if not isinstance(step, Step) or not isinstance(to, str) or not to.strip():
        raise ConfigError(f"pin({step!r}, {to!r}): a step, and the digest or path of a finished output are needed")
    return dataclasses.replace(step, config=None, after=(), see=(), pinned=to)


@dataclass(frozen=True, eq=False)
class StepPath:
    """A path inside a step's output, as a dependency."""

    step: Step
    sub_path: str
    milestone: str | None = None

    def __truediv__(self, sub_path: str) -> "StepPath":
        return StepPath(self.step, f"{self.sub_path}/{_clean_sub_path(self.step.name, sub_path)}", self.milestone)


def _clean_sub_path(name: str, sub_path: str) -> str:
    parts = sub_path.split("/")
    if not sub_path or any(part in ("", ".", "..") for part in parts):
        raise ConfigError(
            f"step {name}: sub-path {sub_path!r}; a relative path without empty, '.' or '..' parts is needed"
        )
    return sub_path


def references(value: Any) -> Iterator[StepPath]:
    """Yields every dependency in a config value: dataclasses, lists, tuples, dicts and sets are walked.

    Iterative, and linear in the size of the value: what is held in several places is walked once.

    Raises:
        ConfigError: the value contains itself.
    """
    path: list[tuple[int, Iterator[Any]]] = [(0, iter([value]))]
    inside: set[int] = set()
    walked: dict[int, Any] = {}  # holds the values, so that no id is used twice
    while path:
        container, rest = path[-1]
        for each in rest:
            if isinstance(each, Step):
                yield StepPath(each, "")
            elif isinstance(each, StepPath):
                yield each
            elif id(each) in inside:
                raise ConfigError(f"a {type(each).__name__} in it contains itself; a config must be a tree")
            elif id(each) not in walked and (members := _members(each)) is not None:
                walked[id(each)] = each
                inside.add(id(each))
                path.append((id(each), members))
                break
        else:
            inside.discard(container)
            path.pop()


def _members(value: Any) -> Iterator[Any] | None:
    """Returns what a container holds; None for any other value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return iter([getattr(value, each.name) for each in dataclasses.fields(value)])
    if isinstance(value, Mapping):
        return iter(list(value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return iter(list(value))
    return None


def step_references(step: Step, known: dict[int, list[StepPath]] | None = None) -> list[StepPath]:
    """Returns every dependency in a step's config; `known` keeps them by `id(step)`, so that each is looked for once.

    Raises:
        ConfigError: the config contains itself.
    """
    if known is not None and id(step) in known:
        return known[id(step)]
    try:
        found = list(references(step.config))
    except ConfigError as error:
        raise ConfigError(f"step {step.name}: config: {error}") from None
    if known is not None:
        known[id(step)] = found
    return found


def dependencies(step: Step, known: dict[int, list[StepPath]] | None = None) -> list[Step]:
    """Returns the distinct steps that a step's config refers to, in order of first appearance."""
    return list({id(ref.step): ref.step for ref in step_references(step, known)}.values())


def topological(targets: list[Step], known: dict[int, list[StepPath]] | None = None) -> list[Step]:
    """Returns all steps reachable through configs and `after=`, each once, dependencies before dependants.

    Iterative (a chain of 10,000 steps is fine) and linear in edges.

    Args:
        targets: where to begin.
        known: see `step_references`.

    Raises:
        ConfigError: something in `targets` is not a Step, or a step needs itself.
    """
    order: list[Step] = []
    placed: dict[int, bool] = {}  # False while a step's dependencies are being walked, True when it is in `order`
    for target in targets:
        if not isinstance(target, Step):
            raise ConfigError(f"an experiment's steps hold {target!r}; pipeline() must return steps")
        stack: list[tuple[Step, Iterator[Step]]] = []
        if id(target) not in placed:
            placed[id(target)] = False
            stack.append((target, iter([*dependencies(target, known), *target.after])))
        while stack:
            step, rest = stack[-1]
            for needed in rest:
                if id(needed) not in placed:
                    placed[id(needed)] = False
                    stack.append((needed, iter([*dependencies(needed, known), *needed.after])))
                    break
                if not placed[id(needed)]:  # a list in its config was changed after the step was made
                    raise _needs_itself(needed, [each for each, _ in stack])
            else:
                placed[id(step)] = True
                order.append(step)
                stack.pop()
    return order


def _needs_itself(step: Step, stack: list[Step]) -> ConfigError:
    circle = stack[next(n for n, each in enumerate(stack) if each is step) :]
    shown = " needs ".join(each.name for each in [*circle, step])
    return ConfigError(
        f"step {step.name}: needs itself ({shown}); build configs from tuples, before the step that uses them"
    )
