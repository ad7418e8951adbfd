"""Enumerates every interleaving of some processes that run real code against a small model of a shared world.

An actor is plain code that calls the world. It is run from its start each time, with the answers that it got so far; at
its first call without an answer it is stopped, by an exception that no code catches, and the explorer chooses whose
call takes effect next, and how. So no threads are needed, and a state is what it is: the world, and each actor's answers.
Two ways that lead to one state are followed once. A process that crashes or is paused is one that is not chosen any more,
so every property has to hold in every state, not at the end alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol


class Stopped(BaseException):
    """Ends an actor's code at its first call that has no answer yet."""


@dataclass(frozen=True)
class Call:
    """What an actor wants of the world next."""

    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Raised:
    """An answer that is an error."""

    error: type[Exception]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Ended:
    """An actor's code has come to its end."""

    result: Any


class Calls:
    """The world as one actor's code sees it: `ask` gives the next answer, or stops the code."""

    def __init__(self, answers: tuple[Any, ...]):
        self._answers = iter(answers)
        self.pending: Call | None = None

    def ask(self, name: str, *arguments: Any) -> Any:
        if self.pending is not None:
            raise Stopped  # a `finally` on the way out
        for answer in self._answers:
            if isinstance(answer, Raised):
                raise answer.error(*answer.arguments)
            return answer
        self.pending = Call(name, arguments)
        raise Stopped


class World[State](Protocol):
    """A model of what actors share. States must be hashable values."""

    def outcomes(self, state: State, actor: int, call: Call) -> Iterator[tuple[State, Any]]:
        """Yields all that may come of an actor's call: the state then, and the answer.

        Raises:
            AssertionError: a property does not hold.
        """
        ...

    def spontaneous(self, state: State) -> Iterator[State]:
        """Yields what may happen without a call, such as a request that was long under way."""
        ...

    def check_end(self, state: State, actor: int, result: Any) -> None:
        """Raises AssertionError if an actor may not end so in this state."""
        ...


Actor = Callable[[Calls], Any]


class _Histories:
    """The answers that an actor may have got so far, each history with a number and with what the actor does next."""

    def __init__(self, actor: Actor):
        self._actor = actor
        self._answers: list[tuple[Any, ...]] = []
        self._longer: dict[tuple[int, Any], int] = {}
        self.next: list[Call | Ended] = []
        self._add(())

    def _add(self, answers: tuple[Any, ...]) -> int:
        calls = Calls(answers)
        try:
            following: Call | Ended = Ended(self._actor(calls))
        except Stopped:
            assert calls.pending is not None
            following = calls.pending
        self._answers.append(answers)
        self.next.append(following)
        return len(self.next) - 1

    def longer(self, history: int, answer: Any) -> int:
        """Returns the number of a history with one more answer."""
        if (history, answer) not in self._longer:
            self._longer[history, answer] = self._add((*self._answers[history], answer))
        return self._longer[history, answer]


def explore(world: World[Any], start: Any, actors: list[Actor]) -> int:
    """Visits every state that can be reached; returns how many there are.

    Raises:
        AssertionError: a property does not hold in one of them; its notes are the way there.
    """
    histories = [_Histories(actor) for actor in actors]
    numbers: dict[Any, int] = {start: 0}
    states = [start]
    outcomes: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    spontaneous: dict[int, list[int]] = {}

    def number(state: Any) -> int:
        found = numbers.setdefault(state, len(states))
        if found == len(states):
            states.append(state)
        return found

    def outcomes_of(state: int, actor: int, history: int) -> list[tuple[int, int]]:
        """Returns the states that an actor's next call leads to, with the actor's history then."""
        step = histories[actor].next[history]
        if isinstance(step, Ended):
            world.check_end(states[state], actor, step.result)
            return []
        return [
            (number(after), histories[actor].longer(history, answer))
            for after, answer in world.outcomes(states[state], actor, step)
        ]

    first = (0, *(0 for _ in actors))
    came_from: dict[tuple[int, ...], tuple[int, ...] | None] = {first: None}
    stack = [first]
    while stack:
        here = stack.pop()
        state = here[0]
        try:
            if state not in spontaneous:
                spontaneous[state] = [number(after) for after in world.spontaneous(states[state])]
            following = [(after, *here[1:]) for after in spontaneous[state]]
            for actor, history in enumerate(here[1:]):
                key = (state, actor, history)
                if key not in outcomes:
                    outcomes[key] = outcomes_of(*key)
                following += [
                    (after, *here[1 : actor + 1], longer, *here[actor + 2 :]) for after, longer in outcomes[key]
                ]
        except AssertionError as error:
            error.add_note(_way(here, came_from, states, histories))
            raise
        for each in following:
            if each not in came_from:
                came_from[each] = here
                stack.append(each)
    return len(came_from)


def _way(
    end: tuple[int, ...],
    came_from: dict[tuple[int, ...], tuple[int, ...] | None],
    states: list[Any],
    histories: list[_Histories],
) -> str:
    """Returns the states on the way to one, and what each actor was about to do there."""
    lines = []
    here: tuple[int, ...] | None = end
    while here is not None:
        next_calls = [histories[actor].next[history] for actor, history in enumerate(here[1:])]
        lines.append(f"{states[here[0]]}\n    next: {next_calls}")
        here = came_from[here]
    return "\n".join(reversed(lines))
