"""A person's word that an earlier output serves: what it takes, what it is shown as, and when it ends."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from engine import Engine

from marin_exec.store import Store, claim

EXPERIMENT = """
from dataclasses import dataclass
from pathlib import Path
from marin_exec import InputPath, Step, kind

@dataclass(frozen=True, kw_only=True)
class Config:
    source: InputPath = ""
    word: str

@dataclass(frozen=True, kw_only=True)
class Params:
    raw: str = "raw"
    clean: str = "clean"

@kind("blessing/text", version=1)
def text(config, out):
    before = Path(config.source, "text.txt").read_text() if config.source else ""
    Path(out.file("text.txt")).write_text(before + config.word)

@kind("blessing/other", version=1)
def other(config, out):
    return config.word

def pipeline(params: Params):
    raw = Step("raw", text, Config(word=params.raw))
    clean = Step("clean", text, Config(source=raw, word=params.clean))
    return [Step("end", text, Config(source=clean, word="end")), Step("other", other, Config(word="x"))]
"""


def finished_in(folder: Path) -> Engine:
    engine = Engine(folder, experiment=folder / "blessed.py", environment={"USER": "ada", "LOGNAME": "ada"})
    engine.experiment.write_text(EXPERIMENT)
    assert engine.run().returncode == 0
    return engine


@pytest.fixture
def engine(tmp_path) -> Engine:
    return finished_in(tmp_path)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory) -> Engine:
    """A store in which the experiment has run, for what is refused."""
    return finished_in(tmp_path_factory.mktemp("untouched"))


def bless(engine: Engine, step: str, *arguments: str) -> Any:
    command = [*engine.command("plan")[:1], "bless", str(engine.experiment), step, *arguments]
    return subprocess.run(command, env=engine.env(), capture_output=True, text=True, timeout=60, check=False)


def actions(engine: Engine, *arguments: str) -> dict[str, tuple[str, str]]:
    plan = json.loads(engine.call("plan", "--json", *arguments).stdout)
    return {each["name"]: (each["action"], each["reason"]) for each in plan["steps"]}


def record_of(engine: Engine, name: str) -> dict[str, Any]:
    return json.loads(engine.call("show", name, "--json").stdout)["record"]


def test_bless_makes_the_latest_run_of_the_step_serve_and_says_so_everywhere(engine):
    old = record_of(engine, "clean")
    change = ("--clean", "clean!")
    done = bless(engine, "clean", "--why", "only the comment changed", *change)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"clean\t{engine.store}/{old['output_path']}\n"
    phrase = f"blessed by ada as clean ({old['digest'][:16]}): only the comment changed"
    assert done.stderr == phrase + "\n"
    plan = actions(engine, *change)
    assert plan["clean"][0] == "REUSE" and plan["clean"][1].startswith(phrase)
    assert plan["end"][0] == "LINK", "what is made from it has the same input as before"
    assert engine.run(*change).returncode == 0
    new = record_of(engine, "clean")
    assert new["digest"] != old["digest"] and new["output_digest"] == old["output_digest"]
    assert (new["link"]["by"], new["link"]["how"], new["link"]["reason"]) == (
        "ada",
        "blessed",
        "only the comment changed",
    )
    for verb in ("show", "lineage"):
        assert phrase in engine.call(verb, new["digest"]).stdout


def test_bless_of_a_step_whose_inputs_were_never_made_needs_none_of_them(engine):
    change = ("--raw", "raw!")
    assert bless(engine, "clean", "--why", "the same text", *change).returncode == 0
    plan = actions(engine, *change)
    assert (plan["raw"][0], plan["clean"][0], plan["end"][0]) == ("GONE", "REUSE", "LINK")
    assert engine.run("--until", "raw", *change).returncode == 0
    assert actions(engine, *change)["clean"][0] == "REUSE", "it was blessed whatever that input would hold"


def test_bless_ends_when_a_bound_input_or_the_original_comes_to_hold_something_else(engine):
    change = ("--clean", "clean!")
    assert bless(engine, "clean", "--why", "x", *change).returncode == 0
    digest = record_of(engine, "raw")["digest"]
    script = engine.experiment.read_text()
    engine.experiment.write_text(script.replace("before + config.word)", "before + config.word + '?')  # other code"))
    assert engine.run("--until", "raw", "--force", "raw").returncode == 0
    assert record_of(engine, "raw")["digest"] == digest
    action, reason = actions(engine, *change)["clean"]
    assert action == "RUN" and reason.startswith("upstream raw now holds other content (")
    assert engine.run("--until", "clean", "--force", "clean").returncode == 0
    action, reason = actions(engine, *change)["clean"]
    assert action == "RUN" and "which now holds other content (" in reason


def test_bless_of_changed_code_ends_the_note_and_keeps_the_records(engine):
    script = engine.experiment.read_text()
    engine.experiment.write_text(
        script.replace("before + config.word)", "config.word if not before else before + config.word)")
    )
    assert "code changed in" in actions(engine)["clean"][1]
    before = record_of(engine, "clean")
    assert bless(engine, "clean", "--why", "a refactoring").returncode == 0
    assert actions(engine)["clean"][1].startswith("blessed by ada as clean")
    assert "code changed" not in actions(engine)["clean"][1]
    after = record_of(engine, "clean")
    assert (after["attempt"], after["link"]["attempt"]) == (2, 1) and after["output_path"] == before["output_path"]
    assert actions(engine)["end"][0] == "REUSE"
    lineage = json.loads(engine.call("lineage", "clean", "--json").stdout)
    assert [edge["relation"] for edge in lineage["edges"]].count("link") == 1
    assert len({node["key"] for node in lineage["nodes"]}) == 3
    assert Store.open(str(engine.store)).record(after["digest"], 1).to_json() == before


def test_bless_as_another_output_by_digest_or_path(engine):
    other = record_of(engine, "raw")
    for arguments in (
        ("--as", other["digest"][:16], "--clean", "a"),
        ("--as", f"{engine.store}/{other['output_path']}", "--clean", "b"),
    ):
        assert bless(engine, "clean", "--why", "it serves", *arguments).returncode == 0
        assert actions(engine, *arguments[2:])["clean"][1].startswith("blessed by ada as raw (")


@pytest.mark.parametrize(
    ("step", "arguments", "said"),
    [
        ("clean", ("--why", "x"), "is done already"),
        ("clean", ("--clean", "c", "--why", "  "), "a reason is needed"),
        ("clean", ("--clean", "c"), "--why"),
        ("claen", ("--why", "x"), "did you mean clean"),
        ("cl*", ("--clean", "c", "--why", "x"), "name one step"),
        ("clean", ("--clean", "c", "--why", "x", "--as", "0" * 64), "has no result in"),
        ("clean", ("--clean", "c", "--why", "x", "--as", "nowhere"), "not part of a step's output"),
    ],
)
def test_bless_that_cannot_be_meant_is_refused_and_writes_nothing(untouched, step, arguments, said):
    before = untouched.tree()
    refused = bless(untouched, step, *arguments)
    assert refused.returncode == 2 and said in refused.stderr, refused.stderr
    assert untouched.tree() == before


def test_bless_is_refused_for_other_kinds_damaged_outputs_and_held_steps(engine, tmp_path):
    change = ("--clean", "c", "--why", "x")
    assert (
        "a step of kind blessing/other"
        in bless(engine, "clean", *change, "--as", record_of(engine, "other")["digest"]).stderr
    )
    digest = json.loads(engine.call("why", "clean", "--clean", "c", "--json").stdout)["digest"]
    lease = claim(Store.open(str(engine.store)), digest, None, host="there", pid=7)
    assert lease is not None
    assert "is held by there (pid 7, attempt 1)" in bless(engine, "clean", *change).stderr
    lease.release("done with it")
    Path(engine.store, record_of(engine, "clean")["output_path"], "text.txt").unlink()
    assert "text.txt (missing)" in bless(engine, "clean", *change).stderr
    fresh = Engine(tmp_path / "fresh", experiment=engine.experiment)
    assert "no finished run of that name and kind" in bless(fresh, "clean", *change).stderr
