"""Whatever people do to an experiment and its store: what a run serves is what the experiment gives, computed by hand.

A machine edits a small experiment, runs it, damages the store, cleans it up and kills runs, in any order. After each
run it asks the model (`modelled_steps.value`) what every step should hold. A longer search by hand:

    MARIN_MODEL_EXAMPLES=2000 pytest tests/marin_exec/test_nothing_stale.py
"""

import os
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import modelled_steps as model
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from inprocess import FAST, ThreadBackend
from modelled_steps import FLAVOURS, Node
from store.faulty import Call, make_faulty

from marin_exec import ConfigError, StoreError
from marin_exec.cleaning import clean
from marin_exec.draft import LINKED_IF
from marin_exec.garbage import survey
from marin_exec.lineage import locate, upstream
from marin_exec.plan import Action, OnCodeChange, Plan, PlannedStep, PlanOptions, make_plan
from marin_exec.provenance import RunContext
from marin_exec.records import Record
from marin_exec.runners.blessing import bless, blessing_target
from marin_exec.runners.scheduler import Scheduler
from marin_exec.runners.state import State, StepStatus
from marin_exec.store import Store, drop_root, layout, register_root
from marin_exec.store.roots import root_id
from marin_exec.store.withdrawal import invalidate

EXAMPLES = int(os.environ.get("MARIN_MODEL_EXAMPLES", "40"))
MOST_NODES = 5
TRIES = 5
"""Runs until an experiment is complete, whatever was broken before: each may bring to light one more thing that is gone."""

MEMORY = "/dev/shm"
"""Where syncing a file costs nothing: on a disk it takes most of the time, and what survives a power cut is tested elsewhere."""

numbers = st.integers(0, MOST_NODES - 1)
texts = st.sampled_from(["a", "bb", "ccc"])


class Killed(BaseException):
    """Stands for SIGKILL: nothing handles it."""


class Mortal(ThreadBackend):
    """Its attempts die with the driver."""

    def _run(self, token: str, task: Any) -> None:
        try:
            super()._run(token, task)
        except Killed:
            return


@dataclass(frozen=True)
class Registered:
    """What a run registered as in use."""

    root: str
    nodes: tuple[Node, ...]
    options: PlanOptions


class Experiments(RuleBasedStateMachine):
    """One store, and an experiment that is edited."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else None)
        self.store = Store.open(str(Path(self.folder.name, "store")))
        self.key = self.folder.name
        self.nodes: tuple[Node, ...] = ()
        self.history: list[tuple[Node, ...]] = []
        self.registered: dict[str, Registered] = {}
        self.contents: dict[tuple[str, str], str] = {}
        """By step and output digest, what its text.txt held when it was made."""
        self.runs = 0
        self.lost_records = False

    def teardown(self) -> None:
        self.folder.cleanup()
        model.FAIL_ONCE.difference_update({each for each in model.FAIL_ONCE if each[0] == self.key})

    # -- planning and running

    def plan(self, nodes: tuple[Node, ...] | None = None, options: PlanOptions | None = None) -> Plan:
        return make_plan(model.build(self.nodes if nodes is None else nodes, self.key), self.store, options)

    def plannable(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        """Returns the experiment as it can be planned: without its pins, if what one of them holds on to is gone."""
        try:
            self.plan(nodes)
        except ConfigError as error:
            assert ": pinned to" in str(error), error
            return tuple(replace(node, pinned="") for node in nodes)
        return nodes

    def context(self) -> RunContext:
        self.runs += 1
        return RunContext(run_id=f"run-{self.runs}", experiment="model", provenance={"user": "ada"})

    def scheduler(self, plan: Plan, store: Store | None = None, backend: ThreadBackend | None = None) -> Scheduler:
        return Scheduler(
            plan=plan,
            store=store or self.store,
            backend=backend or ThreadBackend(),
            context=self.context(),
            timing=FAST,
        )

    def register(self, plan: Plan, nodes: tuple[Node, ...]) -> None:
        register_root(self.store, "model", plan.targets, plan.steps)
        root = root_id("model", plan.targets, plan.steps)
        self.registered[root] = Registered(root, nodes, _afterwards(plan))

    def run(self, nodes: tuple[Node, ...], options: PlanOptions) -> None:
        """Runs until it is complete, and checks everything."""
        for _ in range(TRIES):
            try:
                plan = self.plan(nodes, options)
            except ConfigError as error:
                assert any(part in str(error) for part in ALLOWED), error
                return
            self.register(plan, nodes)
            plan = self.plan(nodes, options)
            backend = ThreadBackend()
            statuses = self.scheduler(plan, backend=backend).run() if plan.to_do else {}
            self.note(statuses)
            ran = {task.digest for task in backend.submitted}
            complete = all(each.state in (State.DONE, State.REUSED, State.LINKED) for each in statuses.values())
            self.check_predicted(plan, ran, statuses, complete)
            if complete:
                self.check_complete(nodes, _afterwards(plan))
                return
            options = _afterwards(plan)
            for status in statuses.values():
                allowed = status.failure is None or any(part in status.failure.reason for part in ALLOWED_FAILURES)
                assert allowed, status.failure
        raise AssertionError(f"not complete after {TRIES} runs: {_shown(plan)}")

    def note(self, statuses: dict[str, StepStatus]) -> None:
        for status in statuses.values():
            if status.state is State.DONE and status.record is not None:
                self.contents[status.record.digest, status.record.output_digest] = self.read(status.record)

    def read(self, record: Record) -> str:
        return Path(self.store.url(record.output_path), "text.txt").read_text()

    # -- what must hold

    def check_predicted(self, plan: Plan, ran: set[str], statuses: dict[str, StepStatus], complete: bool) -> None:
        for digest, planned in plan.steps.items():
            said = f"{planned.step.name} {planned.action} {planned.explanation} -> {statuses.get(digest)}"
            if planned.action in (Action.GONE, Action.LINK) or (planned.action is Action.REUSE and not planned.outlook):
                assert digest not in ran, said
            sure = "reused if its output is the same" not in planned.reason and planned.outlook != LINKED_IF
            if planned.action is Action.RUN and sure and complete:
                assert digest in ran, said

    def check_complete(self, nodes: tuple[Node, ...], options: PlanOptions) -> None:
        """Nothing is left to do, and each step of the plan holds what it should."""
        again = self.plan(nodes, options)
        assert not again.to_do, _shown(again)
        by_name = {node.name: node for node in nodes}
        expected: dict[str, str] = {}
        for digest, planned in again.steps.items():  # dependencies first
            node = by_name[planned.step.name.removesuffix("-too")]
            if planned.action is Action.REUSE:
                expected[digest] = self.check_step(planned, node, again, by_name, expected)
        for digest in again.targets:
            assert again.steps[digest].action is Action.REUSE, _shown(again)
            self.check_lineage(digest)

    def check_step(
        self,
        planned: PlannedStep,
        node: Node,
        plan: Plan,
        by_name: dict[str, Node],
        expected: dict[str, str],
    ) -> str:
        """Checks what a step serves, and returns it."""
        record = planned.record
        assert record is not None
        assert self.store.verify(record) == [], planned.explanation
        held = self.read(record)
        made_before = self.contents.setdefault((record.digest, record.output_digest), held)
        assert held == made_before, planned.explanation
        blessed = record.link is not None and record.link.how == "blessed"
        if planned.step.pinned or blessed:
            if record.link is not None:
                original = self.store.current(record.link.digest)
                assert original is not None and original.output_digest == record.output_digest
            return held
        code = model.code_of(record.source["digest"])
        if node.version is None or plan.options.on_code_change is OnCodeChange.RERUN:
            assert code == node.code, planned.explanation
        bound = {(each.digest, each.milestone): each for each in record.dependencies}
        inputs = []
        for digest, ref in planned.references:
            if ref.milestone is not None:
                inputs.append(self.milestone(plan.steps[digest], by_name))
            elif digest in expected:
                inputs.append(expected[digest])
            else:  # not needed any more
                inputs.append(self.contents[digest, bound[digest, None].output_digest])
        assert held == model.value(node.flavour, code, node.text, inputs), (planned.explanation, inputs)
        return held

    def milestone(self, planned: PlannedStep, by_name: dict[str, Node]) -> str:
        """Returns what a step's milestone holds: that of the output which a person chose, or what its own recipe gives."""
        record = planned.record
        if record is not None and (planned.step.pinned or record.link is not None):
            return Path(self.store.url(record.output_path), model.MILESTONE, "text.txt").read_text()
        node = by_name[planned.step.name.removesuffix("-too")]
        return model.milestone_value(node.text, ["" for _ in node.inputs])

    def check_lineage(self, digest: str) -> None:
        lineage = upstream(self.store, locate(self.store, digest))
        found = {node.digest for node in lineage.nodes}
        for node in lineage.nodes:
            assert node.record is not None or self.lost_records, node
            for bound in node.record.dependencies if node.record is not None else ():
                assert bound.digest in found, (node.name, bound)

    # -- what people do

    @initialize(
        shape=st.lists(
            st.tuples(st.sampled_from(FLAVOURS), texts, st.sets(numbers, max_size=2), st.booleans()),
            min_size=2,
            max_size=MOST_NODES,
        )
    )
    def begin(self, shape: list[tuple[str, str, set[int], bool]]) -> None:
        nodes: list[Node] = []
        for number, (flavour, text, wanted, early) in enumerate(shape):
            inputs = tuple((i, early and nodes[i].flavour == "milestones") for i in sorted(wanted) if i < number)
            nodes.append(Node(name=f"n{number}", flavour=flavour, text=text, inputs=inputs))
        self.nodes = tuple(nodes)

    def edit(self, number: int, **fields: Any) -> None:
        self.history.append(self.nodes)
        i = number % len(self.nodes)
        self.nodes = (*self.nodes[:i], replace(self.nodes[i], **fields), *self.nodes[i + 1 :])

    def node(self, number: int) -> Node:
        return self.nodes[number % len(self.nodes)]

    @rule(i=numbers, text=texts, note=st.sampled_from(["", "x", "y"]))
    def edit_config(self, i: int, text: str, note: str) -> None:
        self.edit(i, text=text, note=note)

    @rule(i=numbers, what=st.sampled_from(["code", "version", "name", "renamed_kind", "renamed_field", "alias"]))
    def edit_code(self, i: int, what: str) -> None:
        node = self.node(i)
        changed = {
            "code": 1 - node.code,
            "version": {1: 2, 2: None, None: 1}[node.version],
            "name": f"{node.name}b" if len(node.name) < 4 else node.name[:2],
            "renamed_kind": not node.renamed_kind,
            "renamed_field": not node.renamed_field,
            "alias": not node.alias,
        }
        self.edit(i, **{what: changed[what]})

    @rule(i=numbers, inputs=st.sets(numbers, max_size=2), early=st.booleans(), after=st.sets(numbers, max_size=1))
    def edit_inputs(self, i: int, inputs: set[int], early: bool, after: set[int]) -> None:
        number = i % len(self.nodes)
        self.edit(
            i,
            inputs=tuple(
                (each, early and self.nodes[each].flavour == "milestones") for each in sorted(inputs) if each < number
            ),
            after=tuple(each for each in after if each < number),
        )

    @rule(back=st.integers(1, 3))
    def edit_back(self, back: int) -> None:
        if len(self.history) >= back:
            self.nodes = self.history[-back]

    @rule(i=numbers)
    def fail_once(self, i: int) -> None:
        node = self.node(i)
        model.FAIL_ONCE.add((self.key, node.name if node.flavour != "shards" else f"{node.name}/s0"))

    # -- runs

    @rule(policy=st.sampled_from(["say", "say", "reuse", "rerun"]))
    def run_all(self, policy: str) -> None:
        self.nodes = self.plannable(self.nodes)
        self.run(self.nodes, PlanOptions(on_code_change=OnCodeChange(policy)))

    @rule(i=numbers, how=st.sampled_from(["force", "descendants", "start_from", "until", "only"]))
    def run_some(self, i: int, how: str) -> None:
        self.nodes = self.plannable(self.nodes)
        name = (self.node(i).name,)
        chosen: dict[str, Any] = {"force": name, "with_descendants": True} if how == "descendants" else {how: name}
        self.run(self.nodes, PlanOptions(**chosen))

    @rule(back=st.integers(0, 3))
    def run_two_at_once(self, back: int) -> None:
        self.nodes = self.plannable(self.nodes)
        other = self.plannable(self.history[-back] if 0 < back <= len(self.history) else self.nodes)
        plans = [(nodes, self.plan(nodes)) for nodes in (self.nodes, other)]
        for nodes, plan in plans:
            self.register(plan, nodes)
        schedulers = [self.scheduler(self.plan(nodes)) for nodes, _ in plans]
        threads = [threading.Thread(target=scheduler.run) for scheduler in schedulers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
            assert not thread.is_alive()
        for scheduler in schedulers:
            self.note(scheduler.statuses)
        for nodes, _ in plans:
            self.run(nodes, PlanOptions())

    @rule(changes=st.integers(1, 6))
    def run_cancelled(self, changes: int) -> None:
        self.nodes = self.plannable(self.nodes)
        plan = self.plan()
        self.register(plan, self.nodes)
        scheduler = self.scheduler(plan)
        seen: list[StepStatus] = []

        def cancel(status: StepStatus) -> None:
            seen.append(status)
            scheduler.cancelled = scheduler.cancelled or len(seen) >= changes

        scheduler.on_change = cancel
        self.note(scheduler.run())

    @rule(calls=st.integers(1, 60))
    def run_killed(self, calls: int) -> None:
        """Nothing more reaches the store after a number of calls, from the driver or its attempts."""
        self.nodes = self.plannable(self.nodes)
        store = Store.open(self.store.prefix)
        plan = make_plan(model.build(self.nodes, self.key), store)
        self.register(plan, self.nodes)
        files = make_faulty(store)
        driver = threading.current_thread()

        def die(call: Call) -> None:
            if call.number > calls:
                raise Killed if threading.current_thread() is driver else OSError("its process is dead")

        files.rule = die
        try:
            self.note(self.scheduler(plan, store, Mortal()).run())
        except Killed:
            return

    # -- what befalls a store

    def some_record(self, i: int) -> Record | None:
        found = [digest for digest in sorted(self.store.known_digests()) if self.store.head(digest) is not None]
        records = []
        for digest in found:
            head = self.store.head(digest)
            if head is not None and head.data.current is not None:
                records.append(self.store.readable_record(digest, head.data.current))
        there = sorted((each for each in records if each is not None), key=lambda each: (each.name, each.started))
        return there[i % len(there)] if there else None

    @rule(i=st.integers(0, 20), file=numbers, damage=st.sampled_from(["removed", "truncated", "flipped"]))
    def damage_output(self, i: int, file: int, damage: str) -> None:
        record = self.some_record(i)
        if record is None or self.store.missing_files(record):
            return
        path = Path(self.store.url(record.output_path), record.files[file % len(record.files)].path)
        before = path.read_bytes()
        path.unlink()  # a new file, so that whoever shares the old one by hard link keeps it
        if damage == "truncated":
            path.write_bytes(before[:-1])
        elif damage == "flipped":
            path.write_bytes(bytes([before[0] ^ 1]) + before[1:])
            assert [name for name, _ in self.store.verify(record)] == [
                str(path.relative_to(self.store.url(record.output_path)))
            ]
            path.unlink()  # sizes alone are looked at by plans, so nobody may meet this one

    @rule(i=st.integers(0, 20))
    def lose_record(self, i: int) -> None:
        record = self.some_record(i)
        if record is not None:
            os.unlink(self.store.url(layout.record(record.digest, record.attempt)))
            self.lost_records = True

    @rule(i=st.integers(0, 20))
    def invalidate_result(self, i: int) -> None:
        self.nodes = self.plannable(self.nodes)
        record = self.some_record(i)
        if record is None:
            return
        try:
            invalidate(self.store, record.digest, "ada", "it is no good")
        except StoreError as error:
            assert "held by" in str(error), error
            return
        for planned in self.plan(self.plannable(self.nodes)).steps.values():
            assert planned.digest != record.digest or planned.action not in (Action.REUSE, Action.LINK)

    @rule(i=numbers, other=st.one_of(st.none(), st.integers(0, 20)))
    def bless_step(self, i: int, other: int | None) -> None:
        self.nodes = self.plannable(self.nodes)
        name = self.node(i).name
        chosen = self.some_record(other) if other is not None else None
        try:
            plan = self.plan(options=PlanOptions(until=(name,)))
            planned = plan.named(name)
            assert planned is not None
            target = blessing_target(plan, planned, self.store, chosen.digest if chosen is not None else None)
            record = bless(plan, planned, self.store, target, "it serves", self.context())
        except ConfigError:
            return
        register_root(self.store, "model: blessed", [record.digest])
        self.contents.setdefault((record.digest, record.output_digest), self.read(record))
        after = self.plan(options=PlanOptions(until=(name,))).named(name)
        assert after is not None and after.action is Action.REUSE, after

    @rule(i=numbers)
    def pin_or_unpin(self, i: int) -> None:
        self.nodes = self.plannable(self.nodes)
        node = self.node(i)
        digest = (
            next(each.digest for each in self.plan().steps.values() if node.name in each.names)
            if not node.pinned
            else ""
        )
        head = self.store.head(digest) if digest else None
        if node.pinned or (head is not None and head.data.current is not None):
            self.edit(i, pinned="" if node.pinned else digest)

    @rule(drop=st.booleans())
    def clean_up(self, drop: bool) -> None:
        if drop and self.registered:
            oldest = next(iter(self.registered))
            drop_root(self.store, oldest)
            del self.registered[oldest]
        before = {root: self.reused(each) for root, each in self.registered.items()}
        found = survey(self.store, grace_seconds=0, now=time.time() + 5, silent=set)
        clean(found, "ada")
        for root, each in self.registered.items():
            lost = before[root] - self.reused(each)
            assert not lost, lost

    def reused(self, each: Registered) -> set[str]:
        try:
            plan = self.plan(each.nodes, each.options)
        except ConfigError:
            return set()
        return {step.digest for step in plan.with_action(Action.REUSE)}


ALLOWED = ("runs nothing else, and this is needed", "would not run; give", "is pinned, and so never run")
ALLOWED_FAILURES = ("fails this once", "run again, which makes both")


def _afterwards(plan: Plan) -> PlanOptions:
    """Returns the options of a run that is about the same steps and makes none again."""
    options = replace(plan.options, force=(), start_from=(), with_descendants=False)
    if not plan.options.start_from:
        return options
    return replace(options, until=tuple(plan.steps[digest].step.name for digest in plan.targets))


def _shown(plan: Plan) -> str:
    return "\n".join(f"{each.action:<6} {each.step.name}  {each.explanation}" for each in plan.steps.values())


TestNothingStale = Experiments.TestCase
TestNothingStale.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=14,
    deadline=None,
    derandomize="MARIN_MODEL_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
)
