"""A whole search as steps, and run with real training, as small as it can be."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from marin_exec import Out, Resources, Step, kind
from marin_exec.identity import resolve_config
from marin_exec.step import StepPath, topological
from steps.mix.mixture import read_mixture
from steps.mix.search.swarm import SearchSize, weight_search
from steps.mix.weights import WeightsConfig, mixture_weights
from steps.train.language_model import TrainConfig
from tests.directory_out import DirectoryOut
from tests.steps.mix.token_stores import random_cell, write_store
from tests.steps.train.training_runs import tiny_config

S = 16
TARGET = 4_000
CELLS = {f"c{topic:02d}q{bucket}": 12 + 6 * topic for topic in range(2) for bucket in range(2)}


@dataclass(frozen=True)
class StoreConfig:
    seed: int


@kind("test/search_tokens", version=1)
def made_store(config: StoreConfig, out: Out) -> None:
    write_store(Path(out.path), {name: random_cell(name, count, seed=config.seed) for name, count in CELLS.items()})


def tiny_search(num_designs: int = 6):
    tokens, evaluation = (
        Step(f"tokens/{name}", made_store, StoreConfig(seed)) for seed, name in enumerate(("train", "held"))
    )

    def proxy(mixture: Step, seed: int) -> TrainConfig:
        inputs = {"tokens": tokens, "mixture": mixture, "evaluation": evaluation}
        return tiny_config(
            inputs, seed=seed, simulated_budget_tokens=TARGET, subset_seed=0, num_steps=8, evaluate_every=1.0
        )

    size = SearchSize(num_designs=num_designs, block_sequences=32, min_sequences=4, num_folds=3, num_samples=50)
    search = weight_search(
        "search", tokens=tokens, sequence_length=S, target_tokens=TARGET, proxy=proxy, size=size, resources=Resources()
    )  # fmt: skip
    return tokens, search


def run_in_order(root: Path, *targets: Step) -> tuple[dict[str, Path], dict[str, Any]]:
    """Runs steps one after the other in this process; returns outputs and results by name."""
    paths, results = {}, {}

    def path_of(part: StepPath) -> str:
        return str(paths[part.step.name] / part.sub_path)

    for step in topological(list(targets)):
        paths[step.name] = root / step.name
        results[step.name] = step.fn(resolve_config(step.config, path_of), DirectoryOut(paths[step.name], step.name))
    return paths, results


def test_weight_search_steps_are_one_graph_without_repeats():
    tokens, search = tiny_search(num_designs=9)
    steps = topological([search.gain])
    names = [step.name for step in steps]
    assert len(names) == len(set(names)) and tokens in steps
    runs = [name for name in names if name.startswith("search/run/")]
    assert len(runs) == 9 + 4
    by_name = {step.name: step for step in steps}
    proportional = [by_name[f"search/run/proportional-seed{seed}"].config for seed in (1, 2)]
    assert [config.seed for config in proportional] == [1, 2]
    assert {config.mixture for config in proportional} == {search.proxies[0].mixture}  # made once, trained three times
    assert {by_name[f"search/run/candidate-seed{seed}"].config.mixture for seed in (1, 2)} == {search.mixture}
    assert {by_name[name].config.simulated_budget_tokens for name in runs} == {TARGET}


@pytest.mark.slow
def test_weight_search_runs_from_designs_to_a_checked_gain(tmp_path):
    tokens, search = tiny_search()
    phases = search.phases((0.0, 0.8))
    weights = WeightsConfig(tokens=tokens, sequence_length=S, budgets_tokens=(TARGET,), phases=phases, min_sequences=4)
    large = Step("mix/large", mixture_weights, weights)
    paths, results = run_in_order(tmp_path, search.gain, large)
    gain, surrogate, candidate = (results[f"search/{name}"] for name in ("gain", "surrogate", "candidate"))
    losses = {name: result.macro_loss for name, result in results.items() if name.startswith("search/run/")}
    assert len(set(losses.values())) == len(losses) == 6 + 4  # each saw another mixture, or had another seed
    proxies = [loss for name, loss in losses.items() if "design" in name]
    assert (surrogate.lowest_loss, surrogate.highest_loss) == (min(proxies), max(proxies))
    pairs = [losses[f"search/run/proportional-seed{s}"] - losses[f"search/run/candidate-seed{s}"] for s in (1, 2)]
    assert gain.gain == pytest.approx(sum(pairs) / 2) and gain.predicted_gain == candidate.predicted_gain
    assert len(read_mixture(str(paths["mix/large"])).phase_starts) == 2
