"""verify: damage is listed file by file; a step made again beside its result is compared and leaves nothing behind."""

import json
import os
from pathlib import Path

import pytest
from engine import Engine

EXPERIMENT = """
import os
from dataclasses import dataclass
from pathlib import Path
from marin_exec import InputPath, Out, Step, kind


@dataclass(frozen=True)
class Config:
    rows: int = 3


@dataclass(frozen=True)
class UseConfig:
    base: InputPath
    checkpoint: InputPath


@kind("verify/base", version=1)
def base(config: Config, out: Out) -> dict[str, int]:
    Path(out.file("checkpoints/one.txt")).write_text("1")
    out.publish("checkpoints/one.txt")
    for n in range(config.rows):
        Path(out.file(f"part-{n}.txt")).write_text(str(n) * 100)
    return {"rows": config.rows}


@kind("verify/use", version=1)
def use(config: UseConfig, out: Out) -> dict[str, int]:
    word = os.environ.get("WORD", "a")
    if word == "fails":
        raise RuntimeError("not this time")
    Path(out.file("same.txt")).write_text(Path(config.base, "part-0.txt").read_text() + Path(config.checkpoint).read_text())
    Path(out.file("word.txt")).write_text(word)
    if word == "longer":
        Path(out.file("more.txt")).write_text("")
    return {"letters": len(word)}


def pipeline() -> list[Step]:
    first = Step("base", base, Config())
    return [Step("use", use, UseConfig(first, first.milestone("checkpoints/one.txt")))]
"""


@pytest.fixture
def engine(tmp_path) -> Engine:
    experiment = tmp_path / "verified.py"
    experiment.write_text(EXPERIMENT)
    engine = Engine(tmp_path, experiment)
    assert engine.run().returncode == 0
    return engine


def part(engine: Engine, number: int) -> Path:
    return next(engine.store.glob(f"base-*/a1-*/part-{number}.txt"))


def test_whole_outputs_are_whole_and_damage_is_listed_file_by_file_with_exit_code_1(engine):
    whole = engine.call("verify", "--all", "--checksums")
    assert whole.returncode == 0 and "2 outputs" in whole.stdout and "all whole" in whole.stdout
    part(engine, 0).unlink()
    part(engine, 1).write_text("short")
    flipped = part(engine, 2)
    flipped.write_text("3" * 100)
    by_size = json.loads(engine.call("verify", "--all", "--json").stdout)
    (damaged,) = by_size["damaged"]
    assert damaged["name"] == "base"
    assert damaged["files"] == [
        {"path": "part-0.txt", "reason": "missing"},
        {"path": "part-1.txt", "reason": "5 bytes, 100 recorded"},
    ]
    by_content = engine.call("verify", "base", "--checksums")
    assert by_content.returncode == 1 and by_content.stdout.count("part-") == 3 and "1 damaged" in by_content.stdout
    assert engine.call("verify", "use", "--checksums").returncode == 0
    only_one = engine.call("verify", str(flipped), "--checksums")
    assert only_one.returncode == 1 and "part-2.txt" in only_one.stdout and "part-1" not in only_one.stdout


def test_record_that_is_damaged_is_damage_and_a_path_that_is_not_of_the_output_too(engine):
    odd = engine.call("verify", str(part(engine, 0).parent / "never.txt"))
    assert odd.returncode == 1 and "not in the record" in odd.stdout
    next(engine.store.glob(".marin/steps/*/attempts/1.record.json")).write_text("{")
    answer = engine.call("verify", "--all")
    assert answer.returncode == 1 and "damaged Record" in answer.stdout


@pytest.mark.parametrize(
    "arguments", [(), ("base", "--all"), ("--rerun", "use"), ("verified.py", "--rerun", "use", "--all")]
)
def test_contradicting_arguments_are_refused(engine, arguments):
    assert engine.call("verify", *arguments).returncode == 2


def verify_by_making(engine: Engine, word: str, *more: str) -> tuple[int, str]:
    before = engine.tree()
    engine.environment["WORD"] = word
    answer = engine.call("verify", str(engine.experiment), "--rerun", "use", "--backend", "local", *more)
    after = engine.tree()
    assert after.keys() == before.keys(), "nothing is left behind"
    assert {path: each for path, each in after.items() if not (engine.store / path).is_dir()} == {
        path: each for path, each in before.items() if not (engine.store / path).is_dir()
    }, "nothing is changed"
    return answer.returncode, answer.stdout if answer.stdout else answer.stderr


def test_step_made_again_is_equal_or_what_differs_is_said_and_the_store_is_as_before(engine):
    code, said = verify_by_making(engine, "a")
    assert code == 0 and said.startswith("use: equal to attempt 1")
    code, said = verify_by_making(engine, "b")
    assert code == 1 and "word.txt  other content, same size" in said and "same.txt" not in said
    code, said = verify_by_making(engine, "longer", "--json")
    remade = json.loads(said)
    assert code == 1 and not remade["equal"]
    assert remade["files"] == [["more.txt", "only when made again"], ["word.txt", "1 and 6 bytes"]]
    assert remade["result"] == [{"letters": 1}, {"letters": 6}]
    code, said = verify_by_making(engine, "fails")
    assert code == 1 and "not this time" in said


def test_step_without_a_current_result_or_with_an_input_gone_is_refused(engine):
    code, said = verify_by_making(engine, "a")
    assert code == 0
    for path in part(engine, 0).parent.glob("part-*"):
        path.unlink()
    code, said = verify_by_making(engine, "a")
    assert code == 1 and "its input base is not there any more" in said
    next(engine.store.glob("use-*/a1-*/word.txt")).unlink()
    code, said = verify_by_making(engine, "a")
    assert code == 2 and "no current result to compare with" in said


def test_scratch_of_a_killed_comparison_is_garbage(engine):
    left = engine.store / ".marin/scratch/0123456789abcdef/base-0123456789abcdef/a1-01234567"
    left.mkdir(parents=True)
    (left / "data").write_text("x" * 10)
    for path in [left / "data", *left.parents]:
        os.utime(path, (0, 0))
    found = json.loads(engine.call("gc", "--json", "--delete").stdout)
    assert [each["reason"] for each in found["garbage"]] == ["scratch of a killed verify --rerun"]
    assert found["removed"]["bytes"] == 10 and not (engine.store / ".marin/scratch/0123456789abcdef").exists()
