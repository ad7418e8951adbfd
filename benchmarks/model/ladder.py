"""The ladder with all of the hero run's features, and the run above it, forecast before it was trained: experiments/ladder.py.

    python -m benchmarks.model.ladder

Trains what is not in the store yet (some 15 CPU minutes, after text and tokens). Every figure is read from
what the runs wrote.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Figures
from benchmarks.model._ladder_store import lines, outputs
from steps.train.optimizer import ADAM, group_of

ENTROPY_TOKENS = 16_384
ABOVE, BALANCED, UNBALANCED, WITHOUT_Z = "rung/d112", "rung/d48", "rung/d48-no-balancing", "rung/d48-no-z-loss"


def main() -> int:
    figures, made = Figures(), outputs()
    for method in ("joint", "matched"):
        _forecast(figures, method, json.loads(Path(made[f"ladder/score-{method}"], "score.json").read_text()))
    runs = {name: path for name, path in made.items() if name.startswith("rung/")}
    for name, path in runs.items():
        bar = None if name == UNBALANCED else 0.97
        figures.add(
            f"{name}: router entropy over {ENTROPY_TOKENS} tokens", entropy_share(path), "of ln E", at_least=bar
        )
    for name, path in runs.items():
        worst = widest_norm(path)
        figures.add(f"{name}: norms of MuonH and AdamH, largest change", worst, "of the norm", at_most=1e-4)
    for name in (BALANCED, UNBALANCED, WITHOUT_Z):
        last = lines(f"{runs[name]}/evals.jsonl")[-1]
        figures.add(f"{name}: macro loss", last["macro_loss"], "nats a token")
    last = lines(f"{runs[ABOVE]}/evals.jsonl")[-1]
    figures.add(f"{ABOVE}: loss of sequences it was trained on", last["seen"]["loss"], "nats a token")
    figures.add(f"{ABOVE}: held-out loss, all targets together", last["micro_loss"], "nats a token")
    for name, path in runs.items():
        rows = lines(f"{path}/metrics.jsonl")
        figures.add(f"{name}: updates left out as spikes", sum(row["skipped_step"] for row in rows), "updates")
        figures.add(f"{name}: drops over the run", float(np.mean([row["drop_fraction"] for row in rows])), "fraction")
    return figures.exit_code


def _forecast(figures: Figures, method: str, page: dict[str, Any]) -> None:
    final = page["marks"][-1]
    for what in ("predicted", "low", "high", "actual"):
        figures.add(f"{method} forecast of {ABOVE}: {what}", final[what], "nats a token")
    share = abs(final["predicted"] - final["actual"]) / page["drop"]
    figures.add(f"{method} forecast of {ABOVE}: error", share, "of the drop from the last rung", at_most=0.25)


def entropy_share(path: str) -> float:
    """Returns the lowest layer's entropy of what its experts were sent in the last watched updates, over ln E."""
    described = json.loads(Path(path, "run.json").read_text())
    tokens_a_row = described["batch_sequences"] * described["model"]["sequence_length"]
    rows = [row for row in lines(f"{path}/watch.jsonl") if "train/router/layer_0/routing_hist" in row]
    taken = rows[-math.ceil(ENTROPY_TOKENS / tokens_a_row) :]
    shares = []
    for layer in range(described["model"]["num_layers"]):
        counts = np.sum([row[f"train/router/layer_{layer}/routing_hist"] for row in taken], axis=0)
        fractions = counts[counts > 0] / counts.sum()
        shares.append(float(-(fractions * np.log(fractions)).sum() / math.log(len(counts))))
    return min(shares)


def widest_norm(path: str) -> float:
    """Returns the largest change of a hyperball parameter's norm over a run, as a share of the norm at its start."""
    rows = [row for row in lines(f"{path}/watch.jsonl") if "params/norm/lm_head" in row]
    names = [name for name in rows[0] if name.startswith("params/norm/") and not name.endswith("/total")]
    kept = [name for name in names if group_of(name.removeprefix("params/norm/").replace(".", "/")) != ADAM]
    return max(abs(row[name] / rows[0][name] - 1) for row in rows for name in kept)


if __name__ == "__main__":
    raise SystemExit(main())
