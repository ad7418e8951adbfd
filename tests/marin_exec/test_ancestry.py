"""`diff A B`: the root differences of two outputs over all that they were made from, and what only follows."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from inprocess import World

from marin_exec import InputPath, Out, Step, kind
from marin_exec.ancestry import compare
from marin_exec.cli.diff_verb import diff
from marin_exec.records import Record

NOISE: list[str] = []


@dataclass(frozen=True, kw_only=True)
class Config:
    sources: tuple[InputPath, ...] = ()
    word: str = ""
    note: str = ""


@kind("ancestry/join", version=1)
def join(config: Config, out: Out) -> dict[str, int]:
    text = config.word + "".join(Path(each, "text.txt").read_text() for each in config.sources)
    Path(out.file("text.txt")).write_text(text)
    return {"letters": len(text)}


@kind("ancestry/noisy", version=1)
def noisy(config: Config, out: Out) -> None:
    NOISE.append("x")
    Path(out.file("text.txt")).write_text(f"{len(NOISE)}")


@dataclass(frozen=True, kw_only=True)
class Changes:
    word: str = "raw"
    note: str = ""
    rung: str = "1"
    extra: bool = False
    name: str = "clean"


def pipeline(changes: Changes) -> Step:
    """raw -> clean -> rung/0..4 -> end, and side -> end."""
    raw = Step("raw", join, Config(word=changes.word, note=changes.note))
    clean = Step(changes.name, join, Config(sources=(raw,)))
    rungs = [
        Step(f"rung/{n}", join, Config(sources=(clean,), word=changes.rung if n == 1 else str(n))) for n in range(5)
    ]
    extra = [Step("extra", join, Config(word="e"))] if changes.extra else []
    return Step("end", join, Config(sources=(*rungs, Step("side", join, Config(word="side")), *extra)))


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


def compared(world: World, a: Changes, b: Changes) -> dict[str, Any]:
    ends = [world.run(pipeline(each))["end"].record for each in (a, b)]
    return compare(world.store, *ends)


def names(rows: list[dict[str, Any]], root: bool) -> list[str]:
    return [row["name"] for row in rows if row["root"] is root]


def test_one_change_at_the_source_is_the_only_root_and_the_rest_follows_in_order(world):
    found = compared(world, Changes(), Changes(word="RAW"))
    assert names(found["steps"], True) == ["raw"]
    assert names(found["steps"], False) == ["clean", *(f"rung/{n}" for n in range(5)), "end"]
    (root,) = [row for row in found["steps"] if row["root"]]
    assert root["fields"] == [{"path": "config.word", "a": "'raw'", "b": "'RAW'"}]
    assert found["agree"] == ["side"] and not found["same_output"] and not found["same_identity"]
    (clean,) = [row for row in found["steps"] if row["name"] == "clean"]
    assert clean["inputs"] == [{"path": "config.sources[0]", "a": "raw", "b": "raw", "same_content": False}]
    assert clean["fields"] == [] and not clean["unexplained"]


def test_two_changes_are_two_roots(world):
    found = compared(world, Changes(), Changes(word="RAW", rung="one"))
    assert names(found["steps"], True) == ["raw", "rung/1"]


def test_change_that_makes_no_difference_says_so_down_to_the_end(world):
    found = compared(world, Changes(), Changes(note="x"))
    assert names(found["steps"], True) == ["raw"] and found["same_output"] and not found["same_identity"]
    assert all(row["same_output"] for row in found["steps"])
    assert all(each["same_content"] for row in found["steps"] for each in row["inputs"])
    assert all(row["b"]["link"] for row in found["steps"] if not row["root"])


def test_renamed_step_is_matched_by_what_it_is(world):
    found = compared(world, Changes(), Changes(name="cleaned"))
    assert found["same_identity"] and found["steps"] == [] and found["only_a"] == found["only_b"] == []


def test_renamed_step_that_changed_too_is_matched_by_its_kind_if_it_is_the_only_one(world):
    found = compared(world, Changes(), Changes(name="cleaned", word="RAW"))
    assert found["only_a"] == found["only_b"] == [] and "cleaned" in names(found["steps"], False)


def test_step_of_one_ancestry_alone_is_listed(world):
    found = compared(world, Changes(), Changes(extra=True))
    assert [each["name"] for each in found["only_b"]] == ["extra"] and found["only_a"] == []
    assert names(found["steps"], True) == ["end"], "its own config names one more input"


def test_output_that_differs_though_nothing_else_does_is_a_root(world):
    step = Step("end", join, Config(sources=(Step("noisy", noisy, Config()),)))
    first = world.run(step)["end"].record
    second = world.run(step, force=["noisy", "end"])["end"].record
    found = compare(world.store, first, second)
    assert names(found["steps"], True) == ["noisy"] and names(found["steps"], False) == ["end"]
    assert found["same_identity"] and not found["same_output"]
    (root,) = [row for row in found["steps"] if row["root"]]
    assert root["unexplained"] and (root["a"]["attempt"], root["b"]["attempt"]) == (1, 2)


def test_code_and_environment_are_told_with_the_steps_that_they_were_so_for(world, monkeypatch):
    from marin_exec.runners import running

    first = world.run(pipeline(Changes()))["end"].record
    real = running.finished_record

    def other_place(status: Any, output: Any) -> Record:
        record = real(status, output)
        functions = {**record.source["functions"], "test_ancestry.join": "changed"}
        provenance = {**record.provenance, "git": {"commit": "beef"}, "packages": {"jax": "9"}, "python": "3.99"}
        return dataclasses.replace(record, source={"digest": "0" * 64, "functions": functions}, provenance=provenance)

    monkeypatch.setattr(running, "finished_record", other_place)
    second = world.run(pipeline(Changes(word="RAW")))["end"].record
    found = compare(world.store, first, second)
    assert set(names(found["steps"], True)) == {"raw", "clean", *(f"rung/{n}" for n in range(5)), "end"}
    assert all(row["functions"] == ["test_ancestry.join"] for row in found["steps"])
    environment = {row["key"]: (row["a"], row["b"], sorted(row["steps"])) for row in found["environment"]}
    ran = sorted(row["name"] for row in found["steps"])
    assert environment == {
        "git.commit": ("c0ffee", "beef", ran),
        "packages.jax": (None, "9", ran),
        "python": (None, "3.99", ran),
    }
    assert found["provenance"]["git.commit"] == ["c0ffee", "beef"]


def test_ancestor_whose_record_is_gone_is_named_and_stops_nothing(world):
    ends = [world.run(pipeline(changes))["end"].record for changes in (Changes(), Changes(word="RAW"))]
    digest = world.plan(pipeline(Changes())).named("raw").digest
    for path in Path(world.store.prefix, ".marin/steps", digest).rglob("*"):
        if path.is_file():
            path.unlink()
    found = compare(world.store, *ends)
    (raw,) = [row for row in found["steps"] if row["name"] == "raw"]
    assert raw["a"]["attempt"] is None and not raw["root"] and not raw["same_output"]


def printed(world: World, a: Record, b: Record) -> str:
    from click.testing import CliRunner

    arguments = [a.digest[:20], b.digest[:20], "--prefix", world.store.prefix]
    result = CliRunner().invoke(diff, arguments, catch_exceptions=False)
    assert isinstance(json.loads(CliRunner().invoke(diff, [*arguments, "--json"]).stdout), dict)
    return result.stdout


def test_text_has_a_line_or_two_a_step_and_the_roots_first(world):
    ends = [world.run(pipeline(changes))["end"].record for changes in (Changes(), Changes(word="RAW"))]
    lines = printed(world, *ends).splitlines()
    assert lines[2] == "different output" and lines[3] == "root differences (1 step)"
    assert lines[4].startswith("  raw  (") and lines[5].split() == ["config.word", "'raw'", "->", "'RAW'"]
    assert lines[6] == "what follows from them (7 steps)"
    assert lines[7].startswith("  clean  (") and lines[7].endswith("  output differs, because of raw")
    assert lines[-1] == "agree: side"


def test_ancestry_of_a_wide_and_deep_graph_is_compared_in_linear_time(world):
    """12 layers of 6 steps with 3 parents each: path by path there are half a million ways up."""

    def layers(word: str) -> Step:
        above = [Step(f"0/{n}", join, Config(word=word if n == 0 else str(n))) for n in range(6)]
        for layer in range(1, 12):
            parents = [tuple(above[(n + k) % 6] for k in range(3)) for n in range(6)]
            above = [Step(f"{layer}/{n}", noisy, Config(sources=parents[n], word=str(n))) for n in range(6)]
        return Step("end", noisy, Config(sources=tuple(above)))

    ends = [world.run(layers(word))["end"].record for word in ("a", "b")]
    found = compare(world.store, *ends)
    assert names(found["steps"], True) == ["0/0"] and len(found["steps"]) + len(found["agree"]) == 73
