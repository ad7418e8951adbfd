"""What fixes an input whatever its recipe says: pins, and data that is adopted where it lies."""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from engine import Engine
from inprocess import World

from marin_exec import ConfigError, InputPath, Out, Step, adopt, kind, pin, runtime
from marin_exec.adopted import files_at
from marin_exec.lineage import locate, upstream
from marin_exec.store.manifest import output_digest

RAN: dict[str, list[str]] = {}


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    key: Annotated[str, runtime]
    source: InputPath = ""
    word: str = "a"


@kind("pins/text", version=1)
def text(config: TextConfig, out: Out) -> str:
    RAN.setdefault(config.key, []).append(config.word)
    before = Path(config.source, "text.txt").read_text() if config.source else ""
    Path(out.file("text.txt")).write_text(before + config.word)
    return before + config.word


@kind("pins/other", version=1)
def other(config: TextConfig, out: Out) -> str:
    return config.word


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


@pytest.fixture
def key(request) -> str:
    RAN.pop(request.node.name, None)
    return request.node.name


def raw(key: str, word: str = "raw") -> Step:
    return Step("raw", text, TextConfig(key=key, word=word))


def tokens(key: str, word: str = "raw", own: str = "tokens") -> Step:
    return Step("tokens", text, TextConfig(key=key, source=raw(key, word), word=own))


def model(key: str, source: Any, word: str = "model") -> Step:
    return Step("model", text, TextConfig(key=key, source=source, word=word))


def test_pin_holds_what_children_see_and_nothing_upstream_is_planned(world, key):
    first = world.run(model(key, tokens(key)))
    record = first["tokens"].record
    for to in (
        record.digest,
        record.digest[:16],
        world.store.url(record.output_path),
        record.output_path + "/text.txt",
    ):
        pinned = pin(tokens(key, word="changed", own="changed too"), to)
        planned = world.plan(model(key, pinned))
        assert [each.step.name for each in planned.steps.values()] == ["tokens", "model"]
        assert {each.action.value for each in planned.steps.values()} == {"REUSE"}
        assert planned.named("model").digest == first["model"].record.digest
    assert planned.named("tokens").reason.startswith(f"pinned to {record.digest[:16]}, made by run run-1")
    statuses = world.run(model(key, pinned, word="other model"))
    assert RAN[key] == ["raw", "tokens", "model", "other model"]
    assert statuses["model"].record.result == "rawtokensother model"
    assert statuses["model"].record.dependencies[0].digest == record.digest


def test_pin_of_a_part_or_a_milestone_is_one(world, key):
    record = world.run(tokens(key))["tokens"].record
    pinned = pin(tokens(key, own="new"), record.digest)
    reader = Step("reader", text, TextConfig(key=key, source=pinned / "sub", word="x"))
    assert world.plan(reader).named("reader").dependency_digests == (record.digest,)


def test_pin_is_reused_although_its_code_changed(world, key, monkeypatch):
    record = world.run(tokens(key))["tokens"].record
    from marin_exec import draft

    real = draft.source_of
    monkeypatch.setattr(draft, "source_of", lambda fn: replace(real(fn), digest="0" * 64, functions={"pins.text": "x"}))
    pinned = pin(tokens(key), record.digest)
    assert world.plan(model(key, pinned), code="rerun").named("tokens").action == "REUSE"
    assert world.plan(model(key, pinned), code="refuse").named("tokens").code_changed == ()


def test_pin_to_what_is_not_there_is_refused_when_planning(world, key, tmp_path):
    record = world.run(tokens(key))["tokens"].record
    elsewhere = World(tmp_path / "elsewhere")
    cases = [
        (world, "0" * 64, "which has no result in"),
        (world, "0" * 16, "no step in .* begins so"),
        (world, "somewhere/else", "not part of a step's output"),
        (world, "/somewhere/else", "not in the store"),
        (elsewhere, record.digest, "which has no result in"),
    ]
    for where, to, message in cases:
        with pytest.raises(ConfigError, match=f"step tokens: pinned to .*{message}"):
            where.plan(model(key, pin(tokens(key), to)))
    with pytest.raises(ConfigError, match="a step of kind pins/text; one of kind pins/other is needed"):
        world.plan(pin(Step("other", other, TextConfig(key=key)), record.digest))
    with pytest.raises(ConfigError, match="is pinned, and so never run"):
        world.plan(model(key, pin(tokens(key), record.digest)), force=["tokens"])
    world.run(tokens(key), force=["tokens"])
    with pytest.raises(ConfigError, match="is attempt 1 of a step whose result is attempt 2 now"):
        world.plan(pin(tokens(key), record.output_path))
    os.unlink(world.store.url(world.store.current(record.digest).output_path) + "/text.txt")
    with pytest.raises(ConfigError, match=r"data is gone or damaged: .*/text.txt \(missing\)"):
        world.plan(model(key, pin(tokens(key), record.digest)))


def test_pin_of_no_step_or_to_nothing_is_refused(key):
    for step, to in ((raw(key), ""), (raw(key) / "x", "0" * 64), (raw(key), None)):
        with pytest.raises(ConfigError, match="a step, and the digest or path"):
            pin(step, to)


# -- adoption


@pytest.fixture
def data(tmp_path) -> Path:
    folder = tmp_path / "data of others"
    (folder / "deep").mkdir(parents=True)
    (folder / "text.txt").write_text("adopted")
    (folder / "deep" / "more.txt").write_text("more")
    return folder


def digest_of(folder: Path) -> str:
    return output_digest(files_at(str(folder)).files, None)


def test_adopted_data_is_read_where_it_lies_and_is_a_hit_afterwards(world, key, data):
    step = model(key, adopt(str(data), digest_of(data), name="inputs/adopted"))
    statuses = world.run(step)
    record = statuses["inputs/adopted"].record
    assert statuses["model"].record.result == "adoptedmodel"
    assert record.output_path == str(data) and record.output_digest == digest_of(data)
    assert statuses["model"].record.dependencies[0].path == str(data)
    assert set(world.actions(step).values()) == {"REUSE"}
    assert sorted(path.name for path in data.rglob("*")) == ["deep", "more.txt", "text.txt"]
    names = [node.name for node in upstream(world.store, locate(world.store, "model")).nodes]
    assert names == ["model", "inputs/adopted"]


def test_adopted_identity_is_the_literal_digest_wherever_the_data_lies(world, key, data, tmp_path):
    here = adopt(str(data), digest_of(data), name="a")
    moved = adopt("file://" + str(tmp_path / "moved") + "/", digest_of(data), name="b")
    digests = {each.digest for each in world.plan(here, moved).steps.values()}
    assert len(digests) == 1
    world.run(here)
    data.rename(tmp_path / "moved")
    assert "data gone or damaged" in world.plan(moved).named("b").reason
    assert world.run(moved)["b"].record.output_path == str(tmp_path / "moved")
    assert world.actions(moved) == {"b": "REUSE"}


def test_adopted_data_that_is_other_than_stated_is_a_mismatch(world, key, data):
    statuses = world.run(model(key, adopt(str(data), "0" * 64, name="a")))
    failure = statuses["a"].failure
    assert statuses["model"].state == "blocked" and failure.mismatch
    assert digest_of(data) in failure.reason and "states " + "0" * 64 in failure.reason


def test_adopted_data_that_changed_later_says_what_changed(world, key, data):
    step = model(key, adopt(str(data), digest_of(data), name="a"))
    world.run(step)
    (data / "text.txt").write_text("grown, somehow")
    (data / "new.txt").write_text("")
    (data / "deep" / "more.txt").unlink()
    planned = world.plan(model(key, step.config.source, word="again"))
    assert planned.named("a").action == "RUN" and "deep/more.txt (missing) and 1 more" in planned.named("a").reason
    failure = world.run(model(key, step.config.source, word="again"))["a"].failure
    assert (
        "Since it was adopted: deep/more.txt removed, new.txt added, text.txt changed (7 -> 14 bytes)" in failure.reason
    )


def test_adopted_data_with_equal_sizes_is_found_by_verify(world, key, data):
    record = world.run(adopt(str(data), digest_of(data), name="a"))["a"].record
    (data / "text.txt").write_text("ADOPTED")
    assert world.actions(adopt(str(data), record.output_digest, name="a")) == {"a": "REUSE"}
    assert [path for path, _ in world.store.verify(record)] == ["text.txt"]


def test_adopted_data_on_another_filesystem(world, key):
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe_file("/elsewhere/x.txt", b"x")
    try:
        digest = output_digest(files_at("memory://elsewhere").files, None)
        step = adopt("memory://elsewhere", digest, name="a")
        assert world.run(step)["a"].record.output_path == "memory://elsewhere"
        assert world.actions(step) == {"a": "REUSE"}
        memory.pipe_file("/elsewhere/x.txt", b"xx")
        assert "x.txt (2 bytes, 1 recorded)" in world.plan(step).named("a").reason
    finally:
        memory.rm("/elsewhere", recursive=True)


@pytest.mark.parametrize(
    ("path", "digest", "message"),
    [("data", "0" * 64, "a relative path"), ("/data", "xyz", "64 hexadecimal digits"), ("/data", "A" * 64, "64 hexa")],
)
def test_adopt_what_cannot_be_meant_is_refused(path, digest, message):
    with pytest.raises(ConfigError, match=message):
        adopt(path, digest, name="a")


def test_adopt_nothing_or_one_file_is_refused(data, tmp_path):
    (tmp_path / "empty").mkdir()
    for path, message in (
        ("nowhere", "does not exist"),
        ("empty", "holds no file"),
        (f"{data.name}/text.txt", "is a file"),
    ):
        with pytest.raises(ConfigError, match=message):
            files_at(str(tmp_path / path))


EXPERIMENT = """
from dataclasses import dataclass
from pathlib import Path
from marin_exec import InputPath, Step, adopt, kind

@dataclass(frozen=True)
class Config:
    source: InputPath

@kind("adoption/reader", version=1)
def read(config, out):
    return Path(config.source, "text.txt").read_text()

def pipeline():
    return Step("reader", read, Config(adopt({path!r}, {digest!r}, name="inputs/adopted")))
"""


def test_adopt_verb_prints_the_digest_that_an_experiment_states_and_a_mismatch_exits_with_4(tmp_path, data):
    engine = Engine(tmp_path)
    printed = engine.call("adopt", str(data))
    assert printed.returncode == 0 and printed.stdout.strip() == digest_of(data)
    found = json.loads(engine.call("adopt", str(data), "--json").stdout)
    assert found == {"path": str(data), "digest": digest_of(data), "files": 2, "bytes": 11}
    engine.experiment = tmp_path / "adopting.py"
    engine.experiment.write_text(EXPERIMENT.format(path=str(data), digest=found["digest"]))
    done = engine.run()
    assert done.returncode == 0, done.stderr
    (data / "text.txt").write_text("other!!")
    engine.experiment.write_text(EXPERIMENT.format(path=str(data), digest="1" * 64) + "# other bytecode\n")
    refused = engine.run()
    assert refused.returncode == 4 and "the experiment states " + "1" * 64 in refused.stderr
    nowhere = engine.call("adopt", str(tmp_path / "nowhere"))
    assert nowhere.returncode == 2 and "does not exist" in nowhere.stderr
