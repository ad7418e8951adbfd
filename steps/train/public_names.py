"""The names under which a run's numbers are known outside it: those of the hero run's public metrics (issue 8435 of
marin-community/marin), which Levanter and Marin's pages use. The run's own files have shorter ones.

One difference: there, `train/cross_entropy_loss` holds the z-loss too; here it is the cross-entropy alone.
"""

import math
from collections.abc import Mapping
from typing import Any

_OF_UPDATES = {
    "step": "global_step",
    "progress": "run_progress",
    "tokens": "throughput/total_tokens",
    "loss": "train/loss",
    "cross_entropy": "train/cross_entropy_loss",
    "z_loss": "train/z_loss",
    "targets": "train/targets",
    "learning_rate": "optim/learning_rate",
    "adam_learning_rate": "optim/adam_lr",
    "gate_router_decay": "optim/gate_router_decay",
    "skipped_step": "optim/skipped_step",
    "skip_step_loss_threshold": "optim/skip_step_loss_threshold",
    "skip_step_grad_norm_threshold": "optim/skip_step_grad_norm_threshold",
    "grad_norm": "grad/norm/total",
    "grad_norm_lm_head": "grad/norm/lm_head",
    "parameter_norm": "params/norm/total",
    "router_entropy": "train/router/routing_entropy_mean",
    "router_entropy_min": "train/router/routing_entropy_min",
    "load_balancing_loss": "train/router/load_balancing_loss",
    "load_imbalance": "train/router/load_imbalance",
    "router_z": "train/router/router_z_loss",
    "router_bias_max": "train/router/bias_max",
    "router_bias_min": "train/router/bias_min",
    "router_margin_max": "train/router/margin_max",
    "router_margin_min": "train/router/margin_min",
}


def public_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row of `metrics.jsonl` under public names: what is counted in dispatch below `moe/`, FLOPs as GFLOPs.

    A value that is not known yet (None) is left out.
    """
    found = {}
    for name, value in row.items():
        if value is None:
            continue
        if name == "flops":
            found["throughput/total_gflops"] = value / 1e9
        elif name in _OF_UPDATES:
            found[_OF_UPDATES[name]] = value
        else:
            found[f"moe/{name}"] = value
    if "drop_fraction" in row:
        found["train/router/capacity_overflow_rate_mean"] = row["drop_fraction"]
    return found


def router_rows(layers: Mapping[str, Any], num_experts: int) -> dict[str, Any]:
    """Returns what the routers did, layer by layer, under public names.

    Args:
        layers: lists over layers by the last part of a name, e.g. "routing_entropy".
        num_experts: the entropy's share of its maximum, ln of this, is added.
    """
    found = {
        f"train/router/layer_{layer}/{name}": value
        for name, values in layers.items()
        for layer, value in enumerate(values)
    }
    entropies = layers["routing_entropy"]
    return found | {"train/router/routing_entropy_share": sum(entropies) / len(entropies) / math.log(num_experts)}
