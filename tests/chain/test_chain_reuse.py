"""What a second run does: nothing, wherever it is started from; and what a plan says after a change."""

import json
import time

import pytest
from chain_store import ChainStore, Checkout

pytestmark = pytest.mark.timeout(900)  # the first test of a session waits for the cold run

DOWNSTREAM_OF_FUZZY = {
    "dedup/fuzzy",
    "heldout",
    "decontaminate",
    "mix/cells",
    "tokenizer",
    "tokens/train",
    "tokens/evaluation",
    "mix/weights",
    "ladder/d16",
    "ladder/d32",
    "ladder/d48",
    "ladder/d16-seed1",
    "ladder/noise",
    "forecast",
    "hero",
    "forecast/score",
    "evaluate/hero-step-50",
    "report",
}


@pytest.fixture(scope="module")
def clone(finished, tmp_path_factory) -> ChainStore:
    checkout = Checkout.copied_to(tmp_path_factory.mktemp("elsewhere") / "clone")
    return ChainStore(path=finished.path, parameters=finished.parameters, checkout=checkout)


def imported(stderr: str) -> set[str]:
    """Returns the top-level modules in a report of PYTHONPROFILEIMPORTTIME."""
    lines = [line for line in stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def assert_nothing_happens(store: ChainStore, steps: int) -> None:
    before, began = store.tree(), time.monotonic()
    done = store.call("run")
    seconds = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    assert f"{steps} steps: {steps} REUSE; nothing to run" in done.stderr
    assert store.tree() == before
    modules = imported(done.stderr)
    assert "numpy" in modules, "the report of imports is not there, so it says nothing of Ray"
    assert not modules & {"ray", "jax", "levanter"}
    assert seconds < 10


def test_run_twice_second_reuses_all_writes_nothing_and_starts_no_ray(finished):
    store = ChainStore(path=finished.path, parameters=finished.parameters, environment={"PYTHONPROFILEIMPORTTIME": "1"})
    assert_nothing_happens(store, len(store.json("ls")["steps"]))


def test_run_from_another_checkout_reuses_all_and_writes_nothing(clone):
    store = ChainStore(
        path=clone.path,
        parameters=clone.parameters,
        checkout=clone.checkout,
        environment={"PYTHONPROFILEIMPORTTIME": "1"},
    )
    assert_nothing_happens(store, len(store.json("ls")["steps"]))


def test_containment_changed_exactly_its_downstream_would_run_for_that_cause(finished):
    before = finished.tree()
    planned = finished.planned("--containment", "0.8")
    to_run = {name: each for name, each in planned.items() if each["action"] == "RUN"}
    assert set(to_run) == DOWNSTREAM_OF_FUZZY
    assert {each["action"] for name, each in planned.items() if name not in to_run} == {"REUSE"}
    for each in to_run.values():
        assert each["causes"] == ["dedup/fuzzy: config.containment 0.9 -> 0.8"]
        assert "config.containment 0.9 -> 0.8" in each["reason"]
    assert finished.tree() == before


def test_runtime_fields_changed_nothing_would_run(finished):
    planned = finished.planned("--bands_per_pass", "3", "--log_every", "7")
    assert {each["action"] for each in planned.values()} == {"REUSE"}


def test_source_commented_nothing_is_said_and_code_changed_is_said_and_reused(clone):
    fuzzy = "steps/dedup/fuzzy.py"
    line = "    return 1 - (1 - jaccard**rows) ** bands\n"
    clone.checkout.edit(fuzzy, line, f"    # The S-curve of banding.\n{line}")
    commented = clone.json("plan")
    assert commented["counts"] == {"REUSE": len(commented["steps"])}
    assert not any(each["code_changed"] for each in commented["steps"])
    clone.checkout.edit(fuzzy, line, "    return 1.0 - (1 - jaccard**rows) ** bands\n")
    before = clone.tree()
    said = clone.call("run")
    assert said.returncode == 0, said.stderr
    reused = [line for line in said.stderr.splitlines() if "code changed" in line]
    assert len(reused) == 1
    assert reused[0].startswith("dedup/fuzzy: reused, though code changed in")
    assert "fuzzy.candidate_chance" in reused[0]
    assert clone.tree() == before
    rerun = json.loads(clone.call("plan", "--json", "--on-code-change", "rerun").stdout)
    assert {each["name"] for each in rerun["steps"] if each["action"] == "RUN"} >= {"dedup/fuzzy"}
