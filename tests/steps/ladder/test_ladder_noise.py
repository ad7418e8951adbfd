"""Seed noise from written runs."""

import json
import statistics

import pytest

from marin_exec import StepFailed
from steps.ladder.noise import NoiseConfig, seed_noise
from tests.directory_out import DirectoryOut


def run(path, seed, losses, **changes):
    path.mkdir()
    (path / "run.json").write_text(json.dumps({"seed": seed, "num_steps": 400, "model": {"width": 32}} | changes))
    rows = [{"step": 10 * (i + 1), "macro_loss": loss} for i, loss in enumerate(losses)]
    (path / "evals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_noise_two_seeds_give_difference_at_the_end_and_over_the_run(tmp_path):
    runs = run(tmp_path / "a", 0, [5.0, 4.5]), run(tmp_path / "b", 1, [5.2, 4.44])
    result = seed_noise(NoiseConfig(runs=runs), DirectoryOut(tmp_path))
    assert result.num_runs == 2
    assert result.range_macro_loss == pytest.approx(0.06)
    assert result.mean_macro_loss == pytest.approx(4.47)
    assert result.deviation_macro_loss == pytest.approx(statistics.stdev([4.5, 4.44]))
    assert result.mean_range_macro_loss == pytest.approx((0.2 + 0.06) / 2)
    page = json.loads((tmp_path / "noise.json").read_text())
    assert page["seeds"] == [0, 1] and page["steps"] == [10, 20]


@pytest.mark.parametrize(
    ("seeds", "changes", "message"),
    [
        ((0,), {}, "1 run given"),
        ((3, 3), {}, "each run needs its own"),
        ((0, 1), {"model": {"width": 48}}, "differs from .* in model"),
    ],
)
def test_noise_runs_that_do_not_compare_are_refused(tmp_path, seeds, changes, message):
    runs = tuple(run(tmp_path / str(i), seed, [5.0], **(changes if i else {})) for i, seed in enumerate(seeds))
    with pytest.raises(StepFailed, match=message):
        seed_noise(NoiseConfig(runs=runs), DirectoryOut(tmp_path))
