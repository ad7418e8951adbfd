"""Links, pins, adoption, blessing and comparisons where outputs are URLs: on GCS and S3."""

from dataclasses import dataclass

import fsspec
import pytest
from inprocess import World

from marin_exec import InputPath, Out, Step, adopt, kind, pin
from marin_exec.adopted import files_at
from marin_exec.ancestry import compare
from marin_exec.lineage import locate, upstream
from marin_exec.plan import PlanOptions, make_plan
from marin_exec.provenance import RunContext
from marin_exec.runners.blessing import bless, blessing_target
from marin_exec.store import Store
from marin_exec.store.manifest import output_digest


@dataclass(frozen=True, kw_only=True)
class Config:
    source: InputPath = ""
    word: str = ""
    note: str = ""


@kind("remote-linking/text", version=1)
def text(config: Config, out: Out) -> None:
    before = ""
    if config.source:
        with fsspec.open(f"{config.source}/text.txt") as file:
            before = file.read().decode()
    with fsspec.open(out.file("text.txt"), "wb") as file:
        file.write((before + config.word).encode())


def line(note: str = "", word: str = "b", source: Step | None = None) -> Step:
    base = source or Step("a", text, Config(word="a", note=note))
    return Step("c", text, Config(source=Step("b", text, Config(source=base, word=word)), word="c"))


@pytest.fixture(params=["gcs_server", "s3_server"])
def world(request, tmp_path, monkeypatch) -> World:
    server = request.getfixturevalue(request.param)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    world = World(tmp_path)
    world.store = Store.open(server.new_prefix())
    return world


def content(path: str) -> str:
    with fsspec.open(path) as file:
        return file.read().decode()


def test_equal_content_is_linked_and_lineage_and_diff_tell_why(world):
    first, second = world.run(line())["c"].record, world.run(line(note="x"))["c"].record
    assert second.link.digest == first.digest and second.output_path == first.output_path
    assert set(world.actions(line(note="x")).values()) == {"REUSE"}
    found = upstream(world.store, locate(world.store, second.digest))
    assert {edge.relation for edge in found.edges} == {"input", "link"}
    assert all(node.record is not None for node in found.nodes)
    compared = compare(world.store, first, second)
    assert compared["same_output"] and [row["name"] for row in compared["steps"] if row["root"]] == ["a"]
    later = world.plan(line(note="x", word="B")).named("c")
    assert later.causes == ("b: config.word 'b' -> 'B'",)


def test_pin_by_url_and_adoption_of_another_prefix(world):
    record = world.run(line())["b"].record
    url = world.store.url(record.output_path)
    pinned = Step("c", text, Config(source=pin(Step("b", text, Config(word="other")), url), word="d"))
    assert content(world.store.url(world.run(pinned)["c"].record.output_path) + "/text.txt") == "abd"
    elsewhere = f"{world.store.prefix}-elsewhere"
    with fsspec.open(f"{elsewhere}/deep/text.txt", "wb") as file:
        file.write(b"adopted")
    adopted = adopt(elsewhere, output_digest(files_at(elsewhere).files, None), name="adopted")
    child = Step("child", text, Config(source=adopted / "deep", word="!"))
    statuses = world.run(child)
    assert statuses["adopted"].record.output_path == elsewhere
    assert content(world.store.url(statuses["child"].record.output_path) + "/text.txt") == "adopted!"
    assert set(world.actions(child).values()) == {"REUSE"}
    with fsspec.open(f"{elsewhere}/deep/text.txt", "wb") as file:
        file.write(b"changed later")
    assert world.plan(adopted).named("adopted").reason == "data gone or damaged: deep/text.txt (13 bytes, 7 recorded)"


def test_blessed_output_serves(world):
    world.run(line())
    changed = line(word="B")
    plan = make_plan([changed], world.store, PlanOptions(until=("b",)))
    planned = plan.named("b")
    context = RunContext(run_id="run-bless", experiment="test", provenance={"user": "ada"})
    record = bless(plan, planned, world.store, blessing_target(plan, planned, world.store, None), "it serves", context)
    assert record.link.by == "ada"
    assert world.actions(changed) == {"a": "REUSE", "b": "REUSE", "c": "LINK"}
