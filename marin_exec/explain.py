"""Why a step has to run: the nearest earlier run, and the root cause through any chain of upstreams.

All from shared storage: records keep the digested tree, so the first fields that differ can be named without a server.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from marin_exec.identity import Difference, dependency_references, differences
from marin_exec.lineage import all_current, record_bound
from marin_exec.planned import PlannedStep
from marin_exec.records import DependencyRecord, Record
from marin_exec.source import changed_functions
from marin_exec.store import Store
from marin_exec.store.content import current_or_none, linked_to
from marin_exec.store.file_changes import changed_files
from marin_exec.store.layout import LINKS
from marin_exec.wording import some_of

MAX_SHOWN = 3
MAX_CAUSES = 20
"""So that a plan stays linear: below thousands of changed sources, a step names the first."""


def replaced(store: Store, child: Record, bound: DependencyRecord, now: Record | None) -> tuple[str, str]:
    """Returns what changed in an input since a record was made from it, and by what run, as ends of two sentences."""
    if now is None:
        return "", ""
    before = record_bound(store, bound) if bound.milestone is None else None
    files = changed_files(before.files, now.files) if before is not None else ""
    what = f": {files}" if files else ""
    while_it_ran = child.started < now.finished < child.finished
    return what + (", while this ran" if while_it_ran else ""), f" by run {now.run_id}{what}"


@dataclass(frozen=True)
class Relative:
    """A finished run of a step's kind under another name: perhaps the step was renamed and changed in one go."""

    record: Record
    differences: list[Difference]


def nearest_of_kind(store: Store, planned: PlannedStep, names: Collection[str]) -> Relative | None:
    """Returns the finished run of a step's kind that differs in the fewest fields, the latest of such.

    Reads every record of the store.

    Args:
        names: of steps that still exist, which the step cannot have been called before.
    """
    kind = planned.step.kind.digested_name
    found = [
        Relative(record, differences(record.identity, planned.identity))
        for record in all_current(store)
        if record.identity["kind"] == kind and record.name not in names
    ]
    found.sort(key=lambda each: each.record.finished, reverse=True)
    return min(found, key=lambda each: len(each.differences), default=None)


class Explainer:
    """Compares steps that have no record with the nearest earlier run of the same name and kind."""

    def __init__(
        self,
        store: Store,
        current: Mapping[str, Record | None],
        names: Collection[str] = (),
        experiment: str = "",
    ):
        """`current`: records by digest; `names`: of the steps in the plan; `experiment`: its file."""
        self._store = store
        self._names = names
        self._experiment = os.path.basename(experiment)
        self._current = current
        self._earlier: dict[tuple[str, str], Record | None] = {}
        self._trees: dict[str, tuple[str, dict[str, Any]]] = {}
        self._functions: dict[str, Mapping[str, str]] = {}
        self._linked = cache(lambda: frozenset(store.files.names(LINKS)))
        self._outputs: dict[str, dict[str, list[str]]] = {}
        self._whole_digests: dict[str, list[str]] | None = None
        self._causes: dict[tuple[str, str], tuple[str, ...]] = {}

    def never_run(self, name: str, kind: str, digest: str, tree: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
        """Returns the one-line reason and the root causes of a step that has no record under this digest."""
        earlier = self.nearest(name, kind)
        if earlier is None:
            return "never run", (f"{name}: never run",)
        causes = self._causes_between(earlier, digest)
        last = f"last run {earlier.finished[:10]}"
        own = [cause.removeprefix(f"{name}: ") for cause in causes if cause.startswith(f"{name}: ")]
        changed: dict[str, list[str]] = {}
        for cause in causes:
            if not cause.startswith(f"{name}: "):
                step, _, change = cause.partition(": ")
                changed.setdefault(change, []).append(step)
        parts = own + [f"upstream {some_of(steps, MAX_SHOWN)}: {change}" for change, steps in changed.items()]
        more = len(parts) - MAX_SHOWN
        shown = "; ".join(parts[:MAX_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        return f"{shown or 'never run'} ({last})", causes

    def nearest(self, name: str, kind: str) -> Record | None:
        """Returns the latest finished run of that step name and kind (as digested), of the same experiment if there is one."""
        if (name, kind) not in self._earlier:
            found = {digest: self._readable(digest) for digest in self._digests_named(name)}
            linked = [link for digest in found if digest in self._linked() for link in linked_to(self._store, digest)]
            found |= {digest: self._readable(digest) for digest in linked if digest not in found}
            records = [each for each in found.values() if each is not None and each.identity["kind"] == kind]
            self._earlier[name, kind] = max(records, key=self._nearness, default=None)
        return self._earlier[name, kind]

    def _nearness(self, record: Record) -> tuple[bool, str]:
        made_by = os.path.basename(str((record.provenance or {}).get("experiment", "")))
        return made_by == self._experiment, record.finished

    def _digests_named(self, name: str) -> list[str]:
        """Returns the digests of the steps of a name that have begun to write; each folder is listed once."""
        folder, _, base = name.rpartition("/")
        if folder not in self._outputs:
            self._outputs[folder] = self._store.outputs_in(folder)
        if self._whole_digests is None:
            self._whole_digests = {}
            for digest in self._store.known_digests():
                self._whole_digests.setdefault(digest[:16], []).append(digest)
        beginnings = self._outputs[folder].get(base, [])
        return [digest for each in beginnings for digest in self._whole_digests.get(each, [])]

    def _readable(self, digest: str) -> Record | None:
        """Returns a step's current record; None if it has none, or it is damaged: then it explains nothing."""
        if digest in self._current:
            return self._current[digest]
        return current_or_none(self._store, digest)

    def _causes_between(self, old: Record, digest: str) -> tuple[str, ...]:
        """Returns "step: field old -> new" for all root differences between an earlier record and a step of the plan."""
        key = (old.digest, digest)
        if key in self._causes:
            return self._causes[key]
        self._causes[key] = ()
        name, tree = self._trees[digest]
        old_refs, new_refs = dependency_references(old.identity), dependency_references(tree)
        causes: list[str] = []
        for difference in differences(old.identity, tree):
            was, now = old_refs.get(difference.path), new_refs.get(difference.path)
            upstream = self._old_record(was, old) if was and now and was != now else None
            if upstream is not None and now in self._trees and self._is_the_same(upstream, now):
                causes.extend(self._causes_between(upstream, now))
            elif difference.path == "source":
                functions = changed_functions(old.source["functions"], self._functions[digest])
                causes.append(f"{name}: code changed in {', '.join(functions)}")
            else:
                before = upstream.name if upstream is not None else difference.old or "absent"
                after = (
                    self._trees[now][0] if upstream is not None and now in self._trees else difference.new or "absent"
                )
                causes.append(f"{name}: {difference.path} {before} -> {after}")
        self._causes[key] = tuple(dict.fromkeys(causes))[:MAX_CAUSES]
        return self._causes[key]

    def _is_the_same(self, old: Record, digest: str) -> bool:
        """Whether an earlier input is what a step of the plan was: by its name, or if it was renamed, by its kind."""
        name, tree = self._trees[digest]
        return old.name == name or (old.name not in self._names and old.identity["kind"] == tree["kind"])

    def note(self, name: str, digest: str, tree: dict[str, Any], functions: Mapping[str, str]) -> None:
        """Makes a step known that is to be explained, or may stand upstream of one; `functions` are its source's parts."""
        self._trees[digest] = (name, tree)
        self._functions[digest] = functions

    def _old_record(self, digest: str, child: Record) -> Record | None:
        """Returns the record of the upstream that an earlier run was made from."""
        bound = next((each for each in child.dependencies if each.digest == digest), None)
        if bound is None:
            return None
        return self._readable(digest)
