"""What a run says about itself: `run.json`, which equal runs share, and the step's typed result."""

from collections.abc import Sequence
from typing import Any

from steps.evaluate.losses import Evaluation
from steps.model.counts import active_parameters, lm_head_parameters, total_parameters, training_flops
from steps.plain_config import plain_config
from steps.train.language_model import TrainConfig, TrainResult
from steps.train.timing import Timing


def progress_of(config: TrainConfig, done: int) -> dict[str, Any]:
    """Returns how far a run is after so many updates: its share, tokens, FLOPs without the output head."""
    tokens = done * config.batch_sequences * config.model.sequence_length
    return {"progress": done / config.num_steps, "tokens": tokens, "flops": training_flops(config.model, tokens)}


def description(config: TrainConfig) -> dict[str, Any]:
    """Returns what `run.json` holds: only what equal runs share."""
    model = config.model
    tokens = config.num_steps * config.batch_sequences * model.sequence_length
    simulated = {"simulated_budget_tokens": config.simulated_budget_tokens, "subset_seed": config.subset_seed}
    added = {"spikes": config.spikes, "watch": config.watch}
    return {
        "model": plain_config(model),
        "optimizer": plain_config(config.optimizer),
        "batch_sequences": config.batch_sequences,
        "num_steps": config.num_steps,
        "seed": config.seed,
        "z_loss": config.z_loss,
        "tokens": tokens,
        "active_parameters": active_parameters(model),
        "lm_head_parameters": lm_head_parameters(model),
        "total_parameters": total_parameters(model),
        "flops": training_flops(model, tokens),
        "flops_with_lm_head": training_flops(model, tokens, with_lm_head=True),
        "checkpoints": config.checkpoints,
        **(simulated if config.simulated_budget_tokens is not None else {}),
        **{name: plain_config(value) for name, value in added.items() if value is not None},
    }


def result(
    config: TrainConfig, described: dict[str, Any], rows: Sequence[dict[str, Any]], held_out: Evaluation, timing: Timing
) -> TrainResult:
    """Returns what a finished run came to.

    Args:
        config: of the run.
        described: its `description`.
        rows: metrics of all updates, earlier attempts' included.
        held_out: the evaluation of its end.
        timing: of this attempt.
    """
    tail = rows[-max(1, round(len(rows) * 0.05)) :]
    return TrainResult(
        num_steps=config.num_steps,
        tokens=described["tokens"],
        active_parameters=described["active_parameters"],
        total_parameters=described["total_parameters"],
        flops=described["flops"],
        flops_with_lm_head=described["flops_with_lm_head"],
        final_loss=sum(row["cross_entropy"] for row in tail) / len(tail),
        macro_loss=held_out.macro_loss,
        micro_loss=held_out.micro_loss,
        macro_bpb=held_out.macro_bpb,
        drop_fraction=sum(row["drop_fraction"] for row in rows) / len(rows),
        router_entropy=rows[-1]["router_entropy"],
        final_checkpoint=described["checkpoints"][-1],
        tokens_per_second=timing.tokens_per_second(),
        first_update_seconds=timing.updates[0] if timing.updates else 0.0,
        seconds_by_part={name: round(seconds, 3) for name, seconds in timing.totals.items()},
    )
