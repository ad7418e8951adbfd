"""A plan is what a run does: reuse, causes, forcing, failures - through the command line, in real processes."""

import json
import os
import shlex
import shutil
import subprocess

import pytest
from engine import Engine

from marin_exec.encoding import digest_of_tree
from marin_exec.identity import FORMAT


@pytest.fixture
def engine(tmp_path) -> Engine:
    return Engine(tmp_path)


def actions(engine: Engine, *arguments: str) -> dict[str, str]:
    plan = json.loads(engine.call("plan", "--json", *arguments).stdout)
    return {step["name"]: step["action"] for step in plan["steps"]}


def causes(engine: Engine, *arguments: str) -> dict[str, list[str]]:
    plan = json.loads(engine.call("plan", "--json", *arguments).stdout)
    return {step["name"]: step["causes"] for step in plan["steps"] if step["action"] == "RUN"}


def test_run_twice_second_reuses_everything_and_writes_nothing(engine):
    assert engine.run().returncode == 0
    assert sorted(set(engine.ran())) == [
        "numbers",
        "power-2",
        "power-3",
        "shard-0",
        "shard-1",
        "shard-2",
        "shard-3",
        "total",
    ]
    before, ran = engine.tree(), engine.ran()
    again = engine.run()
    assert again.returncode == 0
    assert "4 REUSE; nothing to run" in again.stderr
    assert engine.tree() == before
    assert engine.ran() == ran


def test_plan_writes_nothing_even_on_an_empty_store(engine):
    assert engine.call("plan").returncode == 0
    assert not engine.store.exists()


def test_plan_names_the_root_cause_on_each_step_downstream(engine):
    engine.run()
    changed = causes(engine, "--power", "5")
    assert changed == {
        "power/cubes": ["power/cubes: config.power 3 -> 5"],
        "total": ["power/cubes: config.power 3 -> 5"],
    }


def test_plan_follows_a_cause_through_a_chain_of_upstreams(engine):
    engine.run()
    changed = causes(engine, "--count", "6")
    assert set(changed) == {"numbers", "power/squares", "power/cubes", "total"}
    assert all(each == ["numbers: config.count 4 -> 6"] for each in changed.values())


def test_runtime_field_changed_nothing_reruns(engine):
    engine.run()
    assert set(actions(engine, "--workers", "7").values()) == {"REUSE"}


def test_plan_check_exits_3_while_something_would_run(engine):
    assert engine.call("plan", "--check").returncode == 3
    engine.run()
    assert engine.call("plan", "--check").returncode == 0


def test_max_runs_exceeded_exits_5_and_starts_nothing(engine):
    refused = engine.run("--max-runs", "3")
    assert refused.returncode == 5
    assert "4 steps would run" in refused.stderr
    assert not engine.store.exists() and engine.ran() == []


def test_only_brings_about_the_named_step_and_what_it_needs(engine):
    assert engine.run("--until", "power/squares").returncode == 0
    assert {"numbers", "power-2"} <= set(engine.ran()) and "power-3" not in engine.ran()


def test_only_unknown_name_exits_2_and_names_near_ones(engine):
    refused = engine.run("--until", "power/square")
    assert refused.returncode == 2
    assert "power/squares" in refused.stderr


def test_force_reruns_one_step_and_equal_output_leaves_children_alone(engine):
    engine.run()
    assert engine.run("--force", "power/squares").returncode == 0
    assert engine.ran().count("power-2") == 2
    assert engine.ran().count("total") == 1  # same bytes came out, so nothing below was remade
    show = json.loads(engine.call("show", "power/squares", "--json").stdout)
    assert show["record"]["attempt"] == 2


def test_step_that_raises_siblings_go_on_and_dependants_are_blocked(engine):
    failed = engine.run("--fail", "2")
    assert failed.returncode == 1
    assert {"power-2", "power-3"} <= set(engine.ran()) and "total" not in engine.ran()
    assert "FAILED power/squares (attempt 1): ValueError: asked to fail at power 2" in failed.stderr
    assert "blocked total" in failed.stderr
    assert 'raise ValueError(f"asked to fail at power {config.power}")' in failed.stderr
    states = {row["name"]: row["state"] for row in json.loads(engine.call("status", "--json").stdout)["steps"]}
    assert states == {"numbers": "done", "power/squares": "failed", "power/cubes": "done", "total": "to run"}
    assert engine.run().returncode == 0
    assert engine.ran().count("power-3") == 1


def test_output_deleted_is_made_again_with_the_reason(engine):
    engine.run()
    (gone,) = engine.store.glob("power/squares-*/a1-*/values.json")
    gone.unlink()
    # The total is done, so nothing needs the data: it is gone, and nothing runs.
    assert actions(engine)["power/squares"] == "GONE"
    assert set(actions(engine, "--count", "4").values()) == {"REUSE", "GONE"}
    (total,) = engine.store.glob("total-*/a1-*/total.txt")
    total.write_text("")
    plan = {each["name"]: each for each in json.loads(engine.call("plan", "--json").stdout)["steps"]}
    assert plan["total"]["action"] == "RUN" and "total.txt" in plan["total"]["reason"]
    assert plan["power/squares"]["action"] == "RUN" and "values.json" in plan["power/squares"]["reason"]
    assert engine.run().returncode == 0
    assert set(actions(engine).values()) == {"REUSE"}


def test_two_drivers_at_once_run_each_step_once(engine):
    first = engine.start("--backend", "local", "--shard_seconds", "0.3")
    second = engine.start("--backend", "local", "--shard_seconds", "0.3")
    codes = [each.wait(timeout=120) for each in (first, second)]
    assert codes == [0, 0], [each.stderr.read() for each in (first, second)]
    assert sorted(engine.ran()) == sorted(set(engine.ran()))
    for each in (first, second):
        each.stdout.close()
        each.stderr.close()


def test_status_why_show_diff_lineage_and_ls_read_one_store(engine):
    engine.run()
    before = engine.tree()
    why = json.loads(engine.call("why", "total", "--json").stdout)
    assert why["action"] == "REUSE"
    diff = json.loads(engine.call("diff", "power/squares", "power/cubes", "--json").stdout)
    assert [(row["path"], row["a"], row["b"]) for row in diff["fields"]] == [("config.power", "2", "3")]
    up = json.loads(engine.call("lineage", "total", "--json").stdout)
    assert up["nodes"][0]["name"] == "total" and {n["name"] for n in up["nodes"]} == {
        "total",
        "power/squares",
        "power/cubes",
        "numbers",
    }
    down = json.loads(engine.call("lineage", "numbers", "--down", "--json").stdout)
    assert {node["name"] for node in down["nodes"]} == {"numbers", "power/squares", "power/cubes", "total"}
    listed = json.loads(engine.call("ls", "--json").stdout)
    assert len(listed["steps"]) == 4
    assert engine.tree() == before


def test_lineage_of_a_file_finds_its_step_from_its_path_alone(engine):
    engine.run()
    (path,) = engine.store.glob("total-*/a1-*/total.txt")
    engine.environment["MARIN_PREFIX"] = "/nonexistent"
    found = json.loads(engine.call("lineage", str(path), "--json").stdout)
    assert found["artifact"]["name"] == "total" and found["artifact"]["sub_path"] == "total.txt"


def test_store_moved_elsewhere_everything_is_still_a_hit(engine, tmp_path):
    engine.run()
    moved = tmp_path / "elsewhere"
    engine.store.rename(moved)
    engine.environment["MARIN_PREFIX"] = str(moved)
    assert set(actions(engine).values()) == {"REUSE"}


def test_outputs_without_their_records_count_for_nothing(engine, tmp_path):
    """Every file is there, under the very names: a copy of the outputs alone, or what a job left that died at its end."""
    engine.run()
    whole = tmp_path / "whole"
    shutil.copytree(engine.store, whole)
    shutil.rmtree(whole / ".marin")
    engine.environment["MARIN_PREFIX"] = str(whole)
    found = {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()}
    assert len(found) == 7 and set(actions(engine).values()) == {"RUN"}
    assert engine.run().returncode == 0
    assert engine.ran().count("total") == 2 and set(actions(engine).values()) == {"REUSE"}
    assert {path: path.read_bytes() for path in found} == found  # nothing was written among what lay there


def test_output_that_does_not_fit_fails_its_step_and_the_rest_of_it_is_no_output(engine, tmp_path):
    """As on a full disk: a write is cut short. Here the process may write no file of more than a megabyte."""
    engine.experiment = tmp_path / "large.py"
    engine.experiment.write_text(
        "from pathlib import Path\nfrom marin_exec import Step\n"
        "def large(config, out):\n    Path(out.file('large.bin')).write_bytes(bytes(3_000_000))\n"
        "def pipeline():\n    return [Step('large', large)]\n"
    )
    limited = f"ulimit -f 1024; exec {shlex.join(engine.command('run', '--backend', 'local'))}"
    failed = subprocess.run(["bash", "-c", limited], env=engine.env(), capture_output=True, text=True, timeout=60)
    assert failed.returncode == 1 and "FAILED large (attempt 1): OSError" in failed.stderr, failed.stderr
    (rest,) = engine.store.glob("large-*/a1-*/large.bin")
    assert rest.stat().st_size < 3_000_000
    assert json.loads(engine.call("ls", "--json").stdout)["steps"] == []
    assert engine.run().returncode == 0
    record = json.loads(engine.call("show", "large", "--json").stdout)["record"]
    assert record["attempt"] == 2 and [each["size_bytes"] for each in record["files"]] == [3_000_000]


def test_recorded_identity_is_what_was_digested_exactly(engine):
    engine.run()
    record = json.loads(engine.call("show", "total", "--json").stdout)["record"]
    assert digest_of_tree(record["identity"], FORMAT) == record["digest"]


@pytest.mark.parametrize("prefix", ["s3://bucket/x", "gs://bucket/x", "ftp://host/x"])
def test_store_of_another_scheme_is_refused_by_name(engine, prefix):
    engine.environment["MARIN_PREFIX"] = prefix
    refused = engine.run()
    assert refused.returncode == 1 and prefix.split(":")[0] in refused.stderr


def test_store_without_write_permission_is_refused_before_anything_starts(engine):
    engine.environment["MARIN_PREFIX"] = "/proc/marin-exec-store"  # not even root can make a folder there
    refused = engine.run()
    assert refused.returncode == 1
    assert "/proc/marin-exec-store: cannot be written" in refused.stderr
    assert engine.ran() == []


def test_experiment_errors_exit_2_and_name_file_and_line(engine, tmp_path):
    engine.experiment = tmp_path / "broken.py"
    engine.experiment.write_text("def pipeline():\n    return [undefined_name]\n")
    refused = engine.run()
    assert refused.returncode == 2
    assert "NameError" in refused.stderr and "broken.py:2" in refused.stderr


def test_config_with_a_lambda_exits_2_and_names_the_field(engine, tmp_path):
    engine.experiment = tmp_path / "with_lambda.py"
    engine.experiment.write_text(
        "from dataclasses import dataclass\nfrom typing import Any\nfrom marin_exec import Step\n"
        "@dataclass(frozen=True)\nclass Config:\n    rule: Any\n"
        "def work(config, out):\n    return {}\n"
        "def pipeline():\n    return [Step('s', work, Config(rule=lambda text: text))]\n"
    )
    refused = engine.run()
    assert refused.returncode == 2
    assert "step s: config.rule" in refused.stderr


def test_step_that_writes_nothing_fails_with_what_to_do(engine, tmp_path):
    engine.experiment = tmp_path / "silent.py"
    engine.experiment.write_text(
        "from marin_exec import Step\ndef work(config, out):\n    pass\n"
        "def pipeline():\n    return [Step('silent', work)]\n"
    )
    failed = engine.run()
    assert failed.returncode == 1
    assert "step silent: wrote nothing" in failed.stderr
    assert json.loads(engine.call("ls", "--json").stdout)["steps"] == []


def test_code_comment_changed_nothing_is_said_but_code_changed_is_reused_and_said(engine, tmp_path):
    source = engine.experiment.read_text()
    engine.experiment = tmp_path / "chain.py"
    engine.experiment.write_text(source)
    engine.run()
    engine.experiment.write_text(source.replace('    ran("total")', '    # a comment\n    ran("total")'))
    assert "code changed" not in engine.run().stderr
    engine.experiment.write_text(source.replace("str(sum(values))", "str(sum(values) + 0)"))
    said = engine.run()
    assert said.returncode == 0 and "total: reused, though code changed in chain.total" in said.stderr
    assert engine.run("--on-code-change", "refuse").returncode == 2
    assert engine.run("--on-code-change", "rerun").returncode == 0
    assert engine.ran().count("total") == 2 and engine.ran().count("numbers") == 1


def test_code_of_many_steps_changed_is_said_in_one_line(engine, tmp_path):
    many = (
        "from dataclasses import dataclass\nfrom marin_exec import Step, kind\n"
        "@dataclass(frozen=True)\nclass Config:\n    n: int\n"
        "@kind('piece', version=1)\ndef piece(config, out):\n    return {'n': config.n}\n"
        "def pipeline():\n    return [Step(f'piece/{i}', piece, Config(i)) for i in range(9)]\n"
    )
    engine.experiment = tmp_path / "many.py"
    engine.experiment.write_text(many)
    assert engine.run().returncode == 0
    engine.experiment.write_text(many.replace("{'n': config.n}", "{'n': config.n + 0}"))
    said = [line for line in engine.run().stderr.splitlines() if "code changed" in line]
    assert (
        len(said) == 1 and said[0].startswith("piece/0, ") and "and 3 more: reused, though code changed in" in said[0]
    )


QUICKLY_EDITED = """
from marin_exec import Step

def write(config, out):
    return 1

def pipeline():
    return [Step("start", write)]
"""


def test_experiment_edited_to_the_same_size_within_a_second_is_planned_as_it_is_now(tmp_path):
    """Python's cached bytecode is told from its source by size and whole seconds."""
    engine = Engine(tmp_path, experiment=tmp_path / "edited.py", environment={"PYTHONDONTWRITEBYTECODE": ""})
    for name in ("start", "begin"):
        engine.experiment.write_text(QUICKLY_EDITED.replace("start", name))
        os.utime(engine.experiment, (1_800_000_000, 1_800_000_000))
        assert f"RUN  {name} " in engine.call("plan").stdout
