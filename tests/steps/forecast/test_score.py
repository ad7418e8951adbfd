"""A forecast counts only for a run that waited for it: through the engine, with real records."""

import json

import pytest
from engine import EXPERIMENTS, Engine

from marin_exec import ConfigError, StepFailed
from steps.forecast.curves import read_curve
from steps.forecast.forecast import ForecastConfig, NamedRun


@pytest.fixture
def engine(tmp_path) -> Engine:
    return Engine(tmp_path, EXPERIMENTS / "forecast_order.py")


def result(engine: Engine, name: str) -> dict:
    return json.loads(engine.call("show", name, "--json").stdout)["record"]["result"]


def test_score_of_a_run_that_waited_is_exact_on_an_exact_law(engine):
    done = engine.run()
    assert done.returncode == 0, done.stderr
    scored = result(engine, "score")
    assert scored["error"] == pytest.approx(0.0, abs=1e-9)
    assert scored["within_range"] and scored["marks_within_range"] == scored["num_marks"] == 20
    assert scored["drop"] == pytest.approx(40 * ((8e12) ** -0.1 - (24e12) ** -0.1))


def test_score_of_a_run_that_did_not_wait_is_refused(engine):
    failed = engine.run("--waits", "false")
    assert failed.returncode == 1
    assert "was not known to target when its first attempt began; that attempt waited for nothing" in failed.stderr


def test_new_forecast_method_never_retrains_the_run_and_is_not_scored(engine):
    engine.run()
    plan = {
        s["name"]: s["action"] for s in json.loads(engine.call("plan", "--asymptote", "1.4", "--json").stdout)["steps"]
    }
    assert plan == {**{f"rung/{i}": "REUSE" for i in range(4)}, "forecast": "RUN", "target": "REUSE", "score": "RUN"}
    failed = engine.run("--asymptote", "1.4")
    assert failed.returncode == 1 and "A forecast made after the run began is not scored" in failed.stderr


def test_forecast_forced_again_with_equal_content_still_scores(engine):
    engine.run()
    assert engine.run("--force", "forecast", "--force", "score").returncode == 0


def test_curve_evaluated_at_another_interval_is_refused(tmp_path):
    rows = [{"progress": k / 20, "macro_loss": 3.0} for k in range(1, 21)]
    (tmp_path / "evals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "run.json").write_text(json.dumps({"num_steps": 400, "flops": 1}))
    assert len(read_curve("r", str(tmp_path), every=0.05).losses) == 20
    with pytest.raises(StepFailed, match=r"evaluation at .* falls on mark .* is (no progress|taken)"):
        read_curve("r", str(tmp_path), every=0.25)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rungs": ()}, "rungs: 0; three or more"),
        ({"asymptote": 2.5}, "asymptote_range: .* must hold the asymptote, 2.5"),
    ],
)
def test_forecast_config_that_cannot_be_fitted_is_refused_when_it_is_made(changed, message):
    right = {
        "rungs": tuple(NamedRun(name=f"r{n}", run=f"/runs/{n}") for n in range(3)),
        "target_name": "hero",
        "target_flops": 10**13,
        "asymptote": 1.5,
        "asymptote_range": (1.0, 2.0),
    }
    ForecastConfig(**right)
    with pytest.raises(ConfigError, match=message):
        ForecastConfig(**{**right, **changed})
