"""Quantile balancing against none, same data and seed: how evenly experts are used: `python -m benchmarks.model.balance`.

The entropy of the experts' shares is taken over 32,768 held-out tokens, in each layer, without any limit on what an expert takes;
even use is ln 16. Two models are trained, a few minutes on one core.
"""

import math

import numpy as np

from benchmarks.figures import Figures
from benchmarks.model._tiny import measured, on_mesh, tiny_model, trained
from steps.model.dispatch.drops import drop_metrics

STEPS = 150


def main() -> int:
    figures = Figures()
    with on_mesh():
        for balancing in ("histogram", "none"):
            model = tiny_model(balancing=balancing)
            drops = []
            state = trained(
                model, num_steps=STEPS, each=lambda metrics, seen=drops: seen.append(metrics["drop_fraction"])
            )
            held = measured(state, model, document_length=64, dropless=True)
            shares_LE = held.counts_LE / held.counts_LE.sum(axis=1, keepdims=True)
            entropy_L = -np.sum(shares_LE * np.log(np.maximum(shares_LE, 1e-12)), axis=1)
            even, bar = math.log(model.num_experts), 0.97 if balancing == "histogram" else None
            named = f"balancing {balancing}"
            figures.add(
                f"{named}: tokens", held.assignments_per_layer / model.experts_per_token, "tokens", at_least=16_384
            )
            figures.add(f"{named}: mean entropy over ln E", float(entropy_L.mean()) / even, "ratio", at_least=bar)
            figures.add(f"{named}: lowest layer's entropy over ln E", float(entropy_L.min()) / even, "ratio")
            figures.add(f"{named}: largest expert over the mean", float(shares_LE.max()) * model.num_experts, "ratio")
            figures.add(f"{named}: drops, mean of the last 20 updates", float(np.mean(drops[-20:])), "fraction")
            limited = measured(state, model, document_length=64, dropless=False)
            fractions = drop_metrics(limited.sender_L, limited.receiver_L, limited.assignments_per_layer)
            figures.add(f"{named}: held-out drops", fractions["moe/drop_fraction"], "fraction")
            figures.add(f"{named}: held-out loss, dropless", held.loss, "nats a byte")
    return figures.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
