"""The experiment at full scale: it plans anywhere, what a laptop can do runs, and the rest is refused there."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from experiments.hero_535b import METHODS, Params, pipeline
from marin_exec.cli import cli
from marin_exec.identity import identify
from marin_exec.runners.capacity import shortfall
from marin_exec.step import topological
from steps.recipe.hero import HERO_535B

EXPERIMENT = str(Path(__file__).resolve().parents[3] / "experiments" / "hero_535b.py")
STEPS = {step.name: step for step in topological(pipeline(Params()))}
ANYWHERE = {name for name in STEPS if name.startswith(("recipe/", "public/"))}


def call(verb: str, *arguments: str, prefix: Path) -> Result:
    return CliRunner().invoke(cli, [verb, EXPERIMENT, "--prefix", str(prefix), *arguments])


def test_hero_plans_in_a_fresh_store(tmp_path):
    done = call("plan", prefix=tmp_path)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == f"{len(STEPS)} steps: {len(STEPS)} RUN"
    assert len(re.findall(r"(?m)^RUN +evaluate/step-\d+ ", done.stdout)) == 66
    assert not list(tmp_path.iterdir()), "planning writes nothing"


def test_hero_on_a_laptop_gives_its_price_what_does_not_agree_and_the_public_forecast(tmp_path):
    wanted = ("recipe/price", "recipe/lint", "public/score-matched")
    until = [argument for name in wanted for argument in ("--until", name)]
    done = call("run", "--backend", "local", *until, prefix=tmp_path)
    assert done.exit_code == 0, done.output
    price = next(tmp_path.glob("recipe/price-*/a1-*/price.md")).read_text()
    assert "0.36% of the large run's FLOPs without the output head, 0.42% with it" in price
    lint = next(tmp_path.glob("recipe/lint-*/a1-*/lint.md")).read_text()
    assert "training steps: 390,139" in lint and "18.75T tokens (15 + 3.75) in the mixture" in lint
    forecast = json.loads(next(tmp_path.glob("public/forecast-matched-*/a1-*/forecast.json")).read_text())
    assert forecast["predictions"][-1]["loss"] == pytest.approx(2.0387846, abs=5e-8)  # as it was published
    assert forecast["applicability"]["num_steps"] == HERO_535B.run("d6144").horizon.num_steps


def test_hero_is_refused_where_nothing_runs_in_many_processes(tmp_path):
    done = call("run", "--backend", "local", "--until", "hero", prefix=tmp_path)
    assert done.exit_code == 2 and "needs 16 ranks, and --backend local is one process" in done.output
    assert not list(tmp_path.glob("[a-z]*")), "nothing was started"


def test_hero_full_scale_steps_lack_something_on_a_laptop():
    """What the runner compares before it starts a step on a cluster of this machine alone."""
    laptop = [{"CPU": 16.0, "GPU": 1.0, "memory": float(2**36)}]
    lacking = {name for name, step in STEPS.items() if shortfall(step.resources, laptop)}
    assert lacking == {
        name for name in STEPS if name.split("/")[0] in ("data", "ladder", "hero", "evaluate")
    } - {"ladder/curves"}  # fmt: skip
    assert ANYWHERE.isdisjoint(lacking)


def test_hero_fits_eleven_racks_and_no_fewer():
    machines = [{"GPU": 4.0, "CPU": 72.0}] * 16
    assert "for each of 176 ranks, and the cluster has that for 160" in shortfall(
        STEPS["hero"].resources, machines * 10
    )
    assert shortfall(STEPS["hero"].resources, machines * 11) == ""
    assert shortfall(STEPS["ladder/d768"].resources, machines) == ""


def test_hero_waits_for_its_forecasts_and_for_the_lint():
    waits = {step.name for step in STEPS["hero"].after}
    assert waits == {"recipe/lint", *(f"forecast/{name}" for name in METHODS)}
    assert all([step.name for step in STEPS[f"ladder/{run.name}"].after] == ["recipe/lint"] for run in HERO_535B.rungs)


def test_hero_data_is_named_by_its_digest_and_may_lie_elsewhere():
    def digest(**params):
        steps = topological(pipeline(Params(**params)))
        found = identify(steps)
        return next(found[id(step)].digest for step in steps if step.name == "hero")

    assert digest() == digest(tokens="s3://elsewhere/tokens")
    assert (
        len({digest(), *(digest(**{f"{name}_digest": "f" * 64}) for name in ("tokens", "mixture", "evaluation"))}) == 4
    )
