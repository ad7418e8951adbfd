"""Which steps can be started now: every step is looked at when something that it waits for changes, not each round.

A step that needs all of another step waits for its end; one that needs a milestone waits for that alone.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterator

from marin_exec.runners.state import AVAILABLE, SETTLED, StepStatus

Need = tuple[str, str | None]
"""Digest of a step, and the name of the milestone that is needed of it; None for its whole output."""


class StartQueue:
    """The steps of a plan that wait for others, and those that do not any more, in the plan's order."""

    def __init__(self, statuses: dict[str, StepStatus]):
        self._digests = list(statuses)
        self._position = {digest: n for n, digest in enumerate(self._digests)}
        self._needs: dict[str, set[Need]] = {}
        self._dependants: dict[str, list[str]] = defaultdict(list)
        self._ready: list[int] = []
        self._for_milestones: dict[str, None] = {}
        for digest, status in statuses.items():
            if status.state in SETTLED:
                continue
            planned = status.planned
            needs = {(other, ref.milestone) for other, ref in planned.references}
            needs |= {(other, None) for other in planned.after}
            self._needs[digest] = {need for need in needs if not self._met_at_once(need, statuses)}
            for other in dict.fromkeys(other for other, _ in self._needs[digest]):
                self._dependants[other].append(digest)
            self._sort_in(digest)

    def _met_at_once(self, need: Need, statuses: dict[str, StepStatus]) -> bool:
        other = statuses[need[0]]
        # A milestone of a step that is not needed whole (and so has no record) is looked up like any other.
        return other.state in AVAILABLE and (need[1] is None or other.record is not None)

    def _sort_in(self, digest: str) -> None:
        needs = self._needs[digest]
        if not needs:
            self._for_milestones.pop(digest, None)
            heapq.heappush(self._ready, self._position[digest])
        elif all(milestone is not None for _, milestone in needs):
            self._for_milestones[digest] = None

    def put_back(self, digest: str) -> None:
        """Makes a step ready again whose attempt ended without a result."""
        heapq.heappush(self._ready, self._position[digest])

    def pop(self) -> str | None:
        """Returns the first ready step, which is taken out; None if there is none."""
        return self._digests[heapq.heappop(self._ready)] if self._ready else None

    def wait_for_milestones(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """Returns the steps that wait for nothing but milestones, with those: (digest, name)."""
        return [
            (digest, sorted((other, name) for other, name in self._needs[digest] if name is not None))
            for digest in self._for_milestones
        ]

    def published(self, digest: str, need: Need) -> None:
        """Notes that a milestone which a step waits for is there."""
        self._needs[digest].discard(need)
        self._sort_in(digest)

    def became_available(self, digest: str) -> None:
        """Notes that a step's output is there, milestones included."""
        for child in self._dependants.pop(digest, ()):
            left = {need for need in self._needs[child] if need[0] != digest}
            if left != self._needs[child]:
                self._needs[child] = left
                self._sort_in(child)

    def need_whole(self, digest: str) -> Iterator[str]:
        """Yields the steps that still wait for a step's end: none of them can start if it failed."""
        for child in self._dependants.get(digest, ()):
            if (digest, None) in self._needs[child]:
                yield child

    def need_milestones(self, digest: str) -> Iterator[tuple[str, list[str]]]:
        """Yields the steps that still wait for milestones of a step, with their names."""
        for child in self._dependants.get(digest, ()):
            names = [name for other, name in self._needs[child] if other == digest and name is not None]
            if names:
                yield child, names
