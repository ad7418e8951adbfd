"""Early cutoff: a recipe that changed without changing what it makes costs its dependants nothing, and lineage says so."""

import json
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from engine import Engine
from inprocess import ThreadBackend, World

from marin_exec import InputPath, Out, Step, kind, runtime
from marin_exec.lineage import downstream, locate, upstream
from marin_exec.records import Record
from marin_exec.runners import taking
from marin_exec.runners.state import SETTLED
from marin_exec.store import claim
from marin_exec.store.content import content_key, held_by

STATE: dict[str, Any] = {}


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    key: Annotated[str, runtime]
    text: str = "a"
    note: str = ""
    """Changes the recipe and not what it makes."""


@dataclass(frozen=True, kw_only=True)
class CopyConfig:
    source: InputPath
    key: Annotated[str, runtime]
    suffix: str = ""


def ran(config: Any, what: str) -> None:
    STATE.setdefault(config.key, []).append(what)


@kind("linking/text", version=1)
def text(config: TextConfig, out: Out) -> None:
    ran(config, "text")
    Path(out.file("text.txt")).write_text(STATE.get(config.key + " text", config.text))


@kind("linking/copy", version=1)
def copy(config: CopyConfig, out: Out) -> dict[str, int]:
    ran(config, "copy")
    source = Path(config.source)
    content = (source if source.is_file() else source / "text.txt").read_text() + config.suffix
    Path(out.file("text.txt")).write_text(content)
    return {"letters": len(content)}


@kind("linking/last", version=1)
def last(config: CopyConfig, out: Out) -> None:
    ran(config, "last")
    Path(out.file("last.txt")).write_text(Path(config.source, "text.txt").read_text())


@kind("linking/report", version=1, reads_lineage=True)
def report(config: CopyConfig, out: Out) -> str:
    ran(config, "report")
    return Path(config.source, "text.txt").read_text()


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


@pytest.fixture
def key(request) -> str:
    STATE.pop(request.node.name, None)
    STATE.pop(request.node.name + " text", None)
    return request.node.name


def line(key: str, note: str = "", letters: str = "a", suffix: str = "") -> Step:
    base = Step("text", text, TextConfig(key=key, text=letters, note=note))
    middle = Step("copy", copy, CopyConfig(source=base, key=key, suffix=suffix))
    return Step("last", last, CopyConfig(source=middle, key=key))


def states(statuses: dict[str, Any]) -> list[str]:
    return [str(statuses[name].state) for name in ("text", "copy", "last")]


def test_same_content_by_another_recipe_is_linked_and_the_plan_said_what_it_could_not_know(world, key):
    first = world.run(line(key))
    planned = world.plan(line(key, note="x"))
    assert [each.action.value for each in planned.steps.values()] == ["RUN", "RUN", "RUN"]
    assert planned.named("copy").explanation.endswith("; linked if its inputs come out as before")
    assert planned.named("copy").causes == ("text: config.note '' -> 'x'",)
    statuses = world.run(line(key, note="x"))
    assert states(statuses) == ["done", "linked", "linked"]
    assert STATE[key] == ["text", "copy", "last", "text"]
    record, original = statuses["copy"].record, first["copy"].record
    assert (record.output_path, record.files, record.result) == (
        original.output_path,
        original.files,
        original.result,
    )
    assert record.digest != original.digest and record.identity != original.identity
    assert (record.link.digest, record.link.attempt, record.link.how) == (original.digest, 1, "content")
    assert record.dependencies[0].digest == statuses["text"].record.digest
    assert statuses["last"].note.startswith("linked to last (")
    assert set(world.actions(line(key, note="x")).values()) == {"REUSE"}
    assert world.plan(line(key, note="x")).named("copy").reason.startswith("linked to copy (")


def test_link_is_planned_once_all_inputs_are_known_and_needs_no_backend(world, key):
    world.run(line(key))
    world.run(line(key, note="x"), until=["text"])
    planned = world.plan(line(key, note="x"))
    assert [each.action.value for each in planned.steps.values()] == ["REUSE", "LINK", "LINK"]
    assert not planned.to_run and len(planned.to_do) == 2
    assert (
        "linked to copy (" in planned.named("copy").reason and "config.note '' -> 'x'" in planned.named("copy").reason
    )
    backend = ThreadBackend()
    scheduler = world.scheduler(planned, backend)
    assert scheduler.begin() is False and backend.submitted == []
    assert states({each.planned.step.name: each for each in scheduler.statuses.values()}) == [
        "reused",
        "linked",
        "linked",
    ]


def test_link_never_points_at_a_link(world, key):
    original = world.run(line(key))["copy"].record
    world.run(line(key, note="x"))
    third = world.run(line(key, note="y"))["copy"].record
    assert third.link.digest == original.digest
    assert len(list(Path(world.store.prefix, ".marin/content", original.content_key).iterdir())) == 1


def test_other_content_runs(world, key):
    world.run(line(key))
    assert states(world.run(line(key, letters="b"))) == ["done", "done", "done"]


def test_link_is_a_miss_with_that_reason_once_its_target_holds_other_content(world, key):
    first = world.run(line(key))
    world.run(line(key, note="x"))
    target = first["copy"].record
    STATE[key + " text"] = "z"
    world.run(line(key), until=["copy"], force=["text"])
    planned = world.plan(line(key, note="x")).named("copy")
    assert planned.action == "RUN" and "which now holds other content (" in planned.reason
    assert target.digest[:16] in planned.reason and planned.causes[0].startswith("copy: linked to copy (")


def test_link_whose_data_is_gone_is_a_miss_and_the_original_is_not_offered_again(world, key):
    first = world.run(line(key))
    world.run(line(key, note="x"))
    Path(world.store.url(first["copy"].record.output_path), "text.txt").unlink()
    planned = world.plan(line(key, note="x"), until=["copy"]).named("copy")
    assert planned.action == "RUN" and "data gone or damaged: text.txt (missing)" in planned.reason
    assert world.plan(line(key, note="y"), until=["copy"]).named("copy").action == "RUN"
    assert states({**first, **world.run(line(key, note="x"), until=["copy"])}) == ["reused", "done", "done"]


def test_forced_step_is_never_linked(world, key):
    world.run(line(key))
    world.run(line(key, note="x"), until=["text"])
    statuses = world.run(line(key, note="x"), force=["copy"])
    assert states(statuses) == ["reused", "done", "linked"]


def test_step_that_reads_lineage_is_never_linked(world, key):
    def reported(note: str) -> Step:
        return Step("report", report, CopyConfig(source=Step("text", text, TextConfig(key=key, note=note)), key=key))

    world.run(reported(""))
    assert world.run(reported("x"))["report"].state == "done"


@pytest.mark.parametrize(
    ("policy", "expected"), [("say", "LINK"), ("reuse", "LINK"), ("rerun", "RUN"), ("refuse", "RUN")]
)
def test_other_code_is_linked_only_where_it_would_be_reused(world, key, monkeypatch, policy, expected):
    world.run(line(key))
    world.run(line(key, note="x"), until=["text"])
    from marin_exec import draft
    from marin_exec.source import SourceInfo

    real = draft.source_of
    changed = SourceInfo("0" * 64, {**real(copy).functions, "linking.copy": "changed"})
    monkeypatch.setattr(draft, "source_of", lambda fn: changed if fn is copy else real(fn))
    planned = world.plan(line(key, note="x"), code=policy).named("copy")
    assert planned.action == expected
    if expected == "LINK":
        assert planned.reason.endswith("; code changed in linking.copy")
        record = world.run(line(key, note="x"), code=policy)["copy"].record
        assert record.source["functions"] != changed.functions, "the record names the code that made the output"
        assert world.plan(line(key, note="x")).named("copy").code_changed == ("linking.copy",)


def test_entry_whose_commit_never_happened_counts_for_nothing(world, key):
    record = world.run(line(key))["copy"].record
    world.run(line(key, note="x"), until=["text"])
    for path in Path(world.store.prefix, ".marin/steps", record.digest).glob("head.json.*"):
        path.unlink()
    assert world.plan(line(key, note="x")).named("copy").action == "RUN"
    assert states(world.run(line(key, note="x"))) == ["reused", "done", "linked"]


@pytest.mark.parametrize("junk", ["not-a-digest.json", "0" * 64 + ".json"])
def test_junk_in_the_index_is_passed_over(world, key, junk):
    record = world.run(line(key))["copy"].record
    Path(world.store.prefix, ".marin/content", record.content_key, junk).write_text("{")
    assert states(world.run(line(key, note="x"))) == ["done", "linked", "linked"]


def test_entry_that_a_power_cut_emptied_is_found_all_the_same(world, key):
    world.run(line(key))
    for entry in Path(world.store.prefix, ".marin/content").rglob("*.json"):
        entry.write_bytes(b"")
    assert states(world.run(line(key, note="x"))) == ["done", "linked", "linked"]


def test_two_drivers_that_link_at_once_leave_one_link(world, key):
    world.run(line(key))
    world.run(line(key, note="x"), until=["text"])
    schedulers = [world.scheduler(world.plan(line(key, note="x"))) for _ in range(4)]
    threads = [threading.Thread(target=each.run) for each in schedulers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    found = [states({s.planned.step.name: s for s in each.statuses.values()})[1:] for each in schedulers]
    assert sorted(state for each in found for state in each) == ["linked"] * 2 + ["reused"] * 6
    assert STATE[key] == ["text", "copy", "last", "text"]


@pytest.mark.parametrize("losing_claims", [1, 2, 3])
def test_driver_that_is_beaten_to_a_link_settles_every_step_once(world, key, monkeypatch, losing_claims):
    world.run(line(key))
    world.run(line(key, note="x"), until=["text"])
    claims = iter(range(100))

    def beaten(*arguments):
        return None if next(claims) < losing_claims else claim(*arguments)

    monkeypatch.setattr(taking, "claim", beaten)
    settled = []
    scheduler = world.scheduler(
        world.plan(line(key, note="x")),
        on_change=lambda status: settled.append(status.planned.step.name) if status.state in SETTLED else None,
    )
    run = threading.Thread(target=scheduler.run, daemon=True)  # what settles twice may never end
    run.start()
    run.join(20)
    assert not run.is_alive()
    assert sorted(settled) == ["copy", "last"]
    assert states({status.planned.step.name: status for status in scheduler.statuses.values()}) == [
        "reused",
        "linked",
        "linked",
    ]


def test_two_steps_that_make_the_same_bytes_keep_an_edge_and_a_history_each(world, key):
    """Whether the second was run or linked: equal content never makes one of two origins."""
    first, second = (Step(n, text, TextConfig(key=key, note=n)) for n in ("first", "second"))
    uses = [Step(f"uses/{each.name}", copy, CopyConfig(source=each, key=key)) for each in (first, second)]
    world.run(uses[0])
    statuses = world.run(*uses)
    assert statuses["uses/second"].state == "linked" and STATE[key].count("copy") == 1
    records = {name: each.record for name, each in statuses.items()}
    assert records["first"].output_digest == records["second"].output_digest
    assert records["first"].output_path != records["second"].output_path
    for name, other in (("first", "second"), ("second", "first")):
        below = downstream(world.store, locate(world.store, name)).nodes
        assert {each.name for each in below} >= {name, f"uses/{name}"} and other not in {each.name for each in below}
        above = upstream(world.store, locate(world.store, f"uses/{name}")).nodes
        assert name in {each.name for each in above}


def test_store_of_a_time_before_links_serves_what_it_has_and_links_nothing_by_what_it_lacks(world, key):
    """Records and heads without the fields that came later, and no index: missing keys are not equal keys."""
    world.run(line(key))
    later = {
        "content_key",
        "link",
        "first_after",
        "heartbeat_seconds",
        "previous_holder",
        "previous_state",
        "invalidated",
    }
    steps = Path(world.store.prefix, ".marin/steps")
    found = [*steps.glob("*/attempts/*.record.json"), *steps.glob("*/head.json.*")]
    assert len(found) == 6
    for path in found:
        old = {name: value for name, value in json.loads(path.read_text()).items() if name not in later}
        path.write_text(json.dumps(old))
    for name in ("content", "runs", "links"):
        shutil.rmtree(Path(world.store.prefix, ".marin", name), ignore_errors=True)
    assert set(world.actions(line(key)).values()) == {"REUSE"}
    assert [node.name for node in upstream(world.store, locate(world.store, "last")).nodes] == ["last", "copy", "text"]
    assert states(world.run(line(key, note="x"))) == ["done"] * 3
    assert STATE[key] == ["text", "copy", "last"] * 2
    assert states(world.run(line(key, note="y"))) == ["done", "linked", "linked"]


def test_lineage_of_a_link_shows_what_it_was_linked_to_and_its_own_inputs(world, key):
    first = world.run(line(key))
    second = world.run(line(key, note="x"))
    start = locate(world.store, second["last"].record.digest[:16])
    assert start.record.link is not None
    found = upstream(world.store, start)
    relations = {(edge.relation, edge.parent.split("/")[0], edge.child.split("/")[0]) for edge in found.edges}
    for name in ("copy", "last"):
        assert ("link", first[name].record.digest, second[name].record.digest) in relations
    assert ("input", second["text"].record.digest, second["copy"].record.digest) in relations
    assert ("input", first["text"].record.digest, first["copy"].record.digest) in relations
    assert all(node.record is not None for node in found.nodes)
    below = downstream(world.store, locate(world.store, first["copy"].record.digest[:16]))
    assert {node.digest for node in below.nodes} == {
        each[name].record.digest for each in (first, second) for name in ("copy", "last")
    }


def test_store_holds_at_most_four_small_files_a_step(world, key):
    statuses = world.run(line(key))
    linked = world.run(line(key, note="x"))
    small = [path for path in Path(world.store.prefix, ".marin").rglob("*") if path.is_file()]
    for record in [each.record for each in (*statuses.values(), *linked.values())]:
        mine = [path for path in small if path.stem == record.digest or f"steps/{record.digest}/" in str(path)]
        assert 2 <= len(mine) <= 4, mine


def test_later_change_is_compared_with_the_link_and_not_with_what_ran_before_it(world, key):
    world.run(line(key))
    world.run(line(key, note="x"))
    planned = world.plan(line(key, note="x", suffix="s"))
    assert planned.named("copy").causes == ("copy: config.suffix '' -> 's'",)
    assert planned.named("last").causes == ("copy: config.suffix '' -> 's'",)


def keyed(record: Record) -> str:
    return content_key(record.identity, held_by(record.dependencies))


def test_content_key_is_of_config_sub_path_and_what_inputs_hold(world, key):
    def key_of(source: Any, **config: Any) -> str:
        return keyed(world.run(Step("copy", copy, CopyConfig(source=source, key=key, **config)))["copy"].record)

    base = Step("text", text, TextConfig(key=key))
    other_recipe, other_content = (
        Step("text", text, TextConfig(key=key, note="x")),
        Step("text", text, TextConfig(key=key, text="b")),
    )
    keys = [key_of(base), key_of(base / "text.txt"), key_of(other_content), key_of(base, suffix="s")]
    assert len(set(keys)) == 4 and key_of(other_recipe) == keys[0] and key_of(other_recipe / "text.txt") == keys[1]
    assert keyed(world.run(base)["text"].record) == ""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    data: InputPath
    key: Annotated[str, runtime]


@kind("linking/train", version=1)
def train(config: TrainConfig, out: Out) -> None:
    ran(config, "train")
    Path(out.file("step-1/text.txt")).write_text("weights of " + Path(config.data, "text.txt").read_text())
    out.publish("step-1")
    Path(out.file("end.txt")).write_text("end")


def test_milestone_of_a_linked_step_is_the_originals(world, key):
    def steps(note: str, suffix: str = "") -> Step:
        trained = Step("train", train, TrainConfig(data=Step("text", text, TextConfig(key=key, note=note)), key=key))
        return Step("evaluate", last, CopyConfig(source=trained.milestone("step-1"), key=key, suffix=suffix))

    world.run(steps(""))
    trained = Step("train", train, TrainConfig(data=Step("text", text, TextConfig(key=key, note="x")), key=key))
    statuses = world.run(steps("x"), trained)
    assert {name: str(each.state) for name, each in statuses.items()} == {
        "text": "done",
        "train": "linked",
        "evaluate": "linked",
    }
    fresh = world.run(steps("x", suffix="s"))["evaluate"]
    assert fresh.state == "done" and fresh.record.dependencies[0].milestone == "step-1"
    text_file = Path(world.store.url(fresh.record.output_path), "last.txt")
    assert text_file.read_text() == "weights of a"
    made = [
        node.record for node in upstream(world.store, locate(world.store, str(text_file))).nodes if node.name == "train"
    ]
    assert [each is not None and each.link is not None for each in made] == [True, False]


def remade(world: World, key: str, content: str, *, gone_too: bool = False) -> Any:
    """Runs two readers of one source; then the source's data is lost, it makes `content`, and a third reader needs it."""
    base = Step("text", text, TextConfig(key=key))
    side = Step("side", text, TextConfig(key=key, note="side"))

    @dataclass(frozen=True, kw_only=True)
    class Two:
        source: InputPath
        other: InputPath
        key: Annotated[str, runtime]

    @kind("linking/two", version=1)
    def two(config: Two, out: Out) -> str:
        ran(config, "two")
        return Path(config.source, "text.txt").read_text() + Path(config.other, "text.txt").read_text()

    first = Step("first", two, Two(source=base, other=side, key=key))
    record = world.run(first)["text"].record
    Path(world.store.url(record.output_path), "text.txt").unlink()
    if gone_too:
        gone = world.plan(first).named("side").record
        Path(world.store.url(gone.output_path), "text.txt").unlink()
    STATE[key + " text"] = content
    steps = (first, Step("second", copy, CopyConfig(source=base, key=key)))
    return world.plan(*steps).named("first"), world.run(*steps)


def test_finished_step_whose_input_is_remade_with_other_content_is_made_again_in_the_same_run(world, key):
    planned, statuses = remade(world, key, "other")
    assert planned.action == "REUSE" and planned.explanation.endswith("; made again if text comes out different")
    assert statuses["first"].state == "done" and statuses["first"].record.result == "othera"


def test_finished_step_whose_input_is_remade_with_equal_content_is_reused(world, key):
    _, statuses = remade(world, key, "a")
    assert statuses["first"].state == "reused" and STATE[key].count("two") == 1


def test_finished_step_whose_input_cannot_be_remade_stays_as_it_was(world, key, monkeypatch):
    class Broken:
        def __str__(self) -> str:
            raise ValueError("no")

    _, statuses = remade(world, key, Broken())  # write_text refuses it
    assert statuses["text"].state == "failed" and statuses["second"].state == "blocked"
    assert statuses["first"].state == "reused" and statuses["first"].record.result == "aa"
    assert statuses["first"].note == "as it was: text failed"


def test_finished_step_that_would_be_made_again_and_lacks_another_input_says_so_and_the_next_run_makes_both(world, key):
    _, statuses = remade(world, key, "other", gone_too=True)
    assert statuses["first"].state == "failed"
    assert "its input side is gone; run again, which makes both" in statuses["first"].failure.reason


EXPERIMENT = """
from dataclasses import dataclass
from pathlib import Path
from marin_exec import InputPath, Step, kind

@dataclass(frozen=True)
class Params:
    note: str = ""

@dataclass(frozen=True)
class Config:
    note: str = ""
    source: InputPath = ""

@kind("linking/cli", version=1)
def text(config, out):
    Path(out.file("text.txt")).write_text("text")

def pipeline(params: Params):
    return Step("end", text, Config(source=Step("start", text, Config(note=params.note))))
"""


def test_run_that_only_links_starts_no_ray_and_prints_where_the_output_is(tmp_path):
    engine = Engine(tmp_path, experiment=tmp_path / "linked.py")
    engine.experiment.write_text(EXPERIMENT)
    first = engine.run()
    assert engine.run("--until", "start", "--note", "x").returncode == 0
    linked = engine.run("--note", "x", backend="ray")
    assert linked.returncode == 0 and "starting Ray" not in linked.stderr, linked.stderr
    assert "link    end  (linked to end (" in linked.stderr and "1 linked" in linked.stderr
    assert linked.stdout == first.stdout
    assert engine.call("plan", "--check", "--note", "x").returncode == 0


def test_why_of_a_step_that_was_renamed_and_changed_names_what_it_may_have_been(tmp_path):
    engine = Engine(tmp_path, experiment=tmp_path / "linked.py")
    engine.experiment.write_text(EXPERIMENT)
    assert engine.run().returncode == 0
    engine.experiment.write_text(EXPERIMENT.replace('Step("start"', 'Step("begin"'))
    told = engine.call("why", "begin", "--note", "x").stdout
    assert "because: never run" in told and "perhaps renamed from start (" in told and "config.note '' -> 'x'" in told
