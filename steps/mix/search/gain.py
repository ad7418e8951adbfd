"""mix/gain: what a candidate mixture gained over the proportional one in runs made for this, beside what was predicted.

    gain.json    losses by seed of both, overall and by held-out set

Each seed gives a pair: a run of the candidate and one of the proportional mixture that differ in nothing else. Their mean
difference is the gain, and its uncertainty comes from the spread of the differences. The seeds must be other than those
of the runs that the surrogate learnt from, or the candidate could have been chosen for their luck.
"""

import json
import math
import statistics
from dataclasses import asdict, dataclass
from typing import Any

from marin_exec import ConfigError, InputPath, Out, StepFailed, kind
from steps.files import read_bytes, write_json
from steps.mix.search.regression import NORMAL_95
from steps.mix.search.surrogate import read_run


@dataclass(frozen=True, kw_only=True)
class GainConfig:
    predictions: InputPath
    """Output of mix/candidate."""
    candidate_runs: tuple[InputPath, ...]
    """Outputs of train/language_model on the candidate, two or more seeds."""
    proportional_runs: tuple[InputPath, ...]
    """The same on the proportional mixture: the same seeds in the same order."""
    proxy_seed: int
    """Seed of the runs that the surrogate learnt from; no pair may have it."""

    def __post_init__(self) -> None:
        if len(self.candidate_runs) != len(self.proportional_runs) or len(self.candidate_runs) < 2:
            raise ConfigError(
                f"GainConfig: {len(self.candidate_runs)} candidate_runs and {len(self.proportional_runs)} "
                f"proportional_runs; two or more pairs are needed, or nothing says how far luck goes"
            )


@dataclass(frozen=True, kw_only=True)
class GainResult:
    seeds: list[int]
    candidate_loss: float
    """Held-out macro loss, mean over seeds, nats a token."""
    proportional_loss: float
    gain: float
    """Proportional minus candidate, mean over seeds, nats a token: above 0 the candidate is better."""
    gain_error: float
    """Standard error of the gain, from the spread of the pairs; rough with few."""
    gain_by_set: dict[str, float]
    """By held-out set, mean over seeds."""
    better_in_every_seed: bool
    predicted_gain: float
    predicted_gain_deviation: float
    within_prediction: bool
    """Whether prediction and measurement differ by at most 1.96 times both errors together."""


@kind("mix/gain", version=1)
def mixture_gain(config: GainConfig, out: Out) -> GainResult:
    """Compares the pairs and writes gain.json.

    Raises:
        StepFailed: a pair differs in more than the mixture, a seed occurs twice, or is that of the proxies.
    """
    pairs = list(zip(config.candidate_runs, config.proportional_runs, strict=True))
    seeds = [_checked_seed(*pair) for pair in pairs]
    if len(set(seeds)) != len(seeds) or config.proxy_seed in seeds:
        raise StepFailed(
            f"gain: seeds {seeds}; each pair needs its own, other than the proxies' {config.proxy_seed}: the candidate was "
            f"chosen by those runs, luck included"
        )
    candidate = [read_run(path)[1] for path in config.candidate_runs]
    proportional = [read_run(path)[1] for path in config.proportional_runs]
    gains = [base - new for new, base in zip(candidate, proportional, strict=True)]
    by_set = [_gain_by_set(*pair) for pair in pairs]
    predicted, deviation = _predicted(config.predictions)
    gain, error = statistics.fmean(gains), statistics.stdev(gains) / math.sqrt(len(gains))
    result = GainResult(
        seeds=seeds,
        candidate_loss=statistics.fmean(candidate),
        proportional_loss=statistics.fmean(proportional),
        gain=gain,
        gain_error=error,
        gain_by_set={name: statistics.fmean(each[name] for each in by_set) for name in by_set[0]},
        better_in_every_seed=min(gains) > 0,
        predicted_gain=predicted,
        predicted_gain_deviation=deviation,
        within_prediction=abs(gain - predicted) <= NORMAL_95 * math.hypot(error, deviation),
    )
    pages = [
        {"seed": seed, "candidate": new, "proportional": base}
        for seed, new, base in zip(seeds, candidate, proportional, strict=True)
    ]
    write_json(out.file("gain.json"), {**asdict(result), "pairs": pages})
    return result


def _checked_seed(candidate: str, proportional: str) -> int:
    first, second = read_run(candidate)[0], read_run(proportional)[0]
    if differing := sorted(name for name in first | second if first.get(name) != second.get(name)):
        raise StepFailed(
            f"gain: {candidate} and {proportional} differ in {', '.join(differing)}; only their mixture may"
        )
    return first["seed"]


def _gain_by_set(candidate: str, proportional: str) -> dict[str, float]:
    new, base = (
        json.loads(read_bytes(f"{path}/evals.jsonl").splitlines()[-1])["sets"] for path in (candidate, proportional)
    )
    return {name: base[name]["loss"] - new[name]["loss"] for name in sorted(new)}


def _predicted(path: str) -> tuple[float, float]:
    page: dict[str, Any] = json.loads(read_bytes(f"{path.rstrip('/')}/candidates.json"))
    return page["predicted_gain"], page["predicted_gain_deviation"]
