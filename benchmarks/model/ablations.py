"""What each feature of the hero run does to a tiny model, left out of all and alone: `python -m benchmarks.model.ablations`.

Held-out loss after a short run (dropless), the processor time of an update against that of the model with all features, and
the processor time of compiling. One seed a variant, and two of the model with all features: a difference below those two's
says nothing. Some eight CPU minutes, two runs side by side.
"""

import itertools
import multiprocessing
import os
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.figures import Figures
from benchmarks.model._tiny import measured, on_mesh, tiny_model, trained
from steps.model.config import ModelConfig
from steps.model.features import FEATURES, without
from steps.train.threads import train_resources

STEPS = 100
SEEDS = (0, 1)
LEARNT = 3.5  # nats a byte; chance is 5.5, and bytes counted singly give some 3.3


@dataclass(frozen=True)
class Ablation:
    """One run."""

    loss: float
    """Held-out, nats a byte."""
    update_seconds: float
    """Processor time of an update, median."""
    compile_seconds: float
    """Processor time of the first update, the others' taken away."""


def variants() -> dict[str, tuple[ModelConfig, int]]:
    """Returns model and seed by the name of the run."""
    every = tiny_model(sequence_length=128, attention_window=64)
    off: dict[str, Any] = {name: value for values in FEATURES.values() for name, value in values.items()}
    plain = replace(every, **off | {"rotary_on_global": False})
    found = {f"all features, seed {seed}": (every, seed) for seed in SEEDS}
    found |= {f"without {feature}": (without(every, feature), 0) for feature in FEATURES}
    return found | {"without balancing": (replace(every, balancing="none"), 0), "no feature": (plain, 0)}


def run(model: ModelConfig, seed: int) -> Ablation:
    times = [time.process_time()]
    with on_mesh():
        state = trained(model, num_steps=STEPS, seed=seed, each=lambda metrics: times.append(time.process_time()))
        loss = measured(state, model, document_length=128, dropless=True).loss
    spent = [after - before for before, after in itertools.pairwise(times)]
    usual = statistics.median(spent[1:])
    return Ablation(loss, usual, spent[0] - usual)


def main() -> int:
    figures, named = Figures(), variants()
    os.environ |= train_resources(1).env  # for the two processes
    whole: Ablation | None = None
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        for name, each in zip(named, pool.map(run, *zip(*named.values(), strict=True)), strict=True):
            whole = whole or each
            figures.add(f"{name}: held-out loss", each.loss, "nats a byte", at_most=LEARNT)
            figures.add(f"{name}: loss more than with all", each.loss - whole.loss, "nats a byte")
            ratio = whole.update_seconds / each.update_seconds
            figures.add(f"{name}: tokens/s, of those with all", ratio, "ratio")
            figures.add(f"{name}: compiling", each.compile_seconds, "CPU s")
    return figures.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
