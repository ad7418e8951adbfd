"""A registered forecast and a run that waited for it, through the engine: the conditions are those that records prove."""

import json

import pytest
from engine import EXPERIMENTS, Engine


@pytest.fixture
def engine(tmp_path) -> Engine:
    return Engine(tmp_path, EXPERIMENTS / "registered_forecast.py")


def shown(engine: Engine, name: str) -> dict:
    return json.loads(engine.call("show", name, "--json").stdout)["record"]


def test_run_on_the_ladders_conditions_is_scored_and_one_on_others_is_refused(engine):
    done = engine.run()
    assert done.returncode == 0, done.stderr
    result = shown(engine, "score")["result"]
    assert result["within_range"] and result["marks_within_range"] == result["num_marks"] == 10
    assert abs(result["error"]) < 0.02
    assert shown(engine, "holdout")["result"]["score"]["coverage"]["95%"] == 1.0
    mixture = shown(engine, "mixture/autumn")["output_digest"][:16]
    other = engine.run("--target_mixture", "winter", "--target_context", "256")
    assert other.returncode == 1
    winter = shown(engine, "mixture/winter")["output_digest"][:16]
    for phrase in (
        "is outside what the forecast was registered for",
        f"mixture is '{winter}', registered is '{mixture}'",
        "context_length is 256, registered is 128",
    ):
        assert phrase in other.stderr
