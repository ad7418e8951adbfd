"""The train loop: resume, update, log, evaluate, checkpoint.

Every rank of a gang step runs it, on its own rows of each batch; what is written, published and returned is rank 0's.

What is written depends on the config and the data alone: a run that was killed and resumed has the same metrics, evaluations and
final arrays, bit for bit, as one in one go (at the same XLA flags; see `steps.train.threads`).
"""

import dataclasses
import json
import math
import time
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from levanter.tracker import Tracker

from marin_exec import ConfigError, Milestone, Out, StepFailed
from steps.evaluate.losses import Evaluation, Evaluator
from steps.files import write_json
from steps.mix.evaluation_sets import evaluation_batches
from steps.mix.order import TrainingOrder
from steps.model.counts import active_parameters, lm_head_parameters, total_parameters, training_flops
from steps.model.mesh import array_of_rows, device_mesh, local_rows, num_devices
from steps.plain_config import plain_config
from steps.train.cadence import checkpoint_name, due_steps
from steps.train.checkpoints import checkpoint_step, load_tree, read_history, save_state
from steps.train.history import History
from steps.train.language_model import TrainConfig, TrainResult
from steps.train.optimizer import learning_rates
from steps.train.ranks import joined_ranks, rank_0s
from steps.train.step import TrainState, initial_state, update
from steps.train.threads import unsplit_products
from steps.train.tracking import run_tracker


@dataclass
class _Run:
    """One attempt while it runs."""

    config: TrainConfig
    out: Out
    order: TrainingOrder
    evaluator: Evaluator
    history: History
    tracker: Tracker
    state: TrainState
    rows: list[dict[str, Any]]
    """Metrics of all updates so far, earlier attempts' included."""
    last_evaluation: Evaluation | None = None


def train(config: TrainConfig, out: Out) -> TrainResult | None:
    """Runs the training to its end; see `train_language_model`. Ranks other than 0 return None."""
    started, cpu_started = time.perf_counter(), time.process_time()
    reproducible = unsplit_products()
    with joined_ranks(out), jax.set_mesh(device_mesh(config.racks)):
        result = _train(config, out)
        if out.rank:
            return None
        return dataclasses.replace(
            result,
            num_devices=num_devices(),
            reproducible_products=reproducible,
            seconds=time.perf_counter() - started,
            cpu_seconds=time.process_time() - cpu_started,
        )


def _train(config: TrainConfig, out: Out) -> TrainResult:
    if config.batch_sequences % num_devices():
        raise ConfigError(
            f"{out.step_name}: batch_sequences is {config.batch_sequences}, which {num_devices()} devices ({out.num_ranks} ranks) "
            f"can't share evenly; use a number of ranks and devices that divides it"
        )
    order = TrainingOrder(
        tokens=config.tokens,
        mixture=config.mixture,
        sequence_length=config.model.sequence_length,
        batch_sequences=config.batch_sequences,
        num_steps=config.num_steps,
        seed=config.seed,
        simulated_budget_tokens=config.simulated_budget_tokens,
        subset_seed=config.subset_seed,
    )
    sets = evaluation_batches(config.evaluation, config.model.sequence_length)
    evaluator = Evaluator(sets, config.model, sequences_per_set=config.evaluation_sequences)
    first, state, earlier = _resume(config, out)
    if first and out.rank == 0:
        out.progress(f"resumed from {checkpoint_name(first)}", done=first, total=config.num_steps)
    described = _described(config)
    with History(out, earlier) as history, run_tracker(config, out, described) as tracker:
        rows = [json.loads(line) for line in earlier.get(History.METRICS, ())]
        run = _Run(config, out, order, evaluator, history, tracker, state, rows)
        _run_updates(run, first)
    if out.rank == 0:
        write_json(out.file("run.json"), described)
    return dataclasses.replace(_result(run, described), resumed_from_step=first)


def _resume(config: TrainConfig, out: Out) -> tuple[int, TrainState, dict[str, list[str]]]:
    """Returns the updates done, the state after them, and the logs so far, from what earlier attempts published."""
    state = initial_state(config.model, config.optimizer, config.seed)
    # Ranks look at different moments, and an attempt that lost its lease may publish in between: rank 0's view counts.
    step = rank_0s(max(_published(out), default=0) if out.rank == 0 else 0)
    if not step:
        return 0, state, {}
    published = [milestone for number, milestone in sorted(_published(out).items()) if number <= step]
    latest = published[-1]
    earlier: dict[str, list[str]] = {name: [] for name in History.FILES}
    for milestone in published:
        for name, lines in read_history(milestone.path).items():
            earlier[name] += lines
    if len(earlier[History.METRICS]) != step:
        raise StepFailed(
            f"{out.step_name}: the checkpoints up to {latest.name} hold the metrics of {len(earlier[History.METRICS])} updates, "
            f"{step} are needed; a checkpoint before it is missing. Run the step again with --force"
        )
    return step, load_tree(latest.path, state), earlier


def _published(out: Out) -> dict[int, Milestone]:
    """The checkpoints that this step has published so far, by the updates in them."""
    return {checkpoint_step(each.name): each for each in out.milestones("checkpoints/")}


def _run_updates(run: _Run, first: int) -> None:
    config = run.config
    evaluations = set(due_steps(config.num_steps, config.evaluate_every))
    checkpoints = set(due_steps(config.num_steps, config.checkpoint_every))
    if first == config.num_steps:  # the attempt before died after its last checkpoint
        run.last_evaluation = run.evaluator(run.state.parameters, run.state.qb_betas)
    for step in range(first, config.num_steps):
        started = time.perf_counter()
        _update(run, step)
        done = step + 1
        if done in evaluations:
            _evaluate(run, done)
        if done in checkpoints:
            name = checkpoint_name(done)
            save_state(f"{run.out.path}/{name}", run.state, done, config.model, run.history)
            if run.out.rank == 0:
                run.out.publish(name, {"step": done, **_progress(config, done)})
        run.history.add(History.TIMINGS, {"step": done, "seconds": round(time.perf_counter() - started, 6)})
        if run.out.rank == 0 and (done % config.log_every == 0 or done == config.num_steps):
            row = run.rows[-1]
            run.out.progress(
                f"update {done}/{config.num_steps}: cross-entropy {row['cross_entropy']:.3f}, "
                f"drops {row['drop_fraction']:.1%}",
                done=done,
                total=config.num_steps,
            )


def _progress(config: TrainConfig, done: int) -> dict[str, Any]:
    tokens = done * config.batch_sequences * config.model.sequence_length
    return {"progress": done / config.num_steps, "tokens": tokens, "flops": training_flops(config.model, tokens)}


def _update(run: _Run, step: int) -> None:
    config = run.config
    size = config.batch_sequences
    batch = run.order.batch(step, local_rows(size))
    rates = learning_rates(config.optimizer, step, config.num_steps)
    pair = np.array([rates.hyperball, rates.adam], np.float32)
    run.state, metrics = update(
        run.state,
        array_of_rows(batch.tokens, size),
        array_of_rows(batch.segment_ids, size),
        pair,
        model=config.model,
        groups=config.optimizer,
        z_loss=config.z_loss,
    )
    values = {name: value.item() for name, value in jax.device_get(metrics).items()}
    row = {"step": step + 1, **_progress(config, step + 1), **values}
    row |= {"learning_rate": rates.hyperball, "adam_learning_rate": rates.adam}
    unfit = [name for name, value in values.items() if not math.isfinite(value)]
    if unfit:
        last = run.rows[-1] if run.rows else {}
        raise StepFailed(
            f"{run.out.step_name}: update {step + 1} of {config.num_steps} gave {unfit[0]} = {values[unfit[0]]} (not finite: "
            f"{', '.join(unfit)}); the update before had loss {last.get('loss')}, grad_norm {last.get('grad_norm')}, learning rate "
            f"{last.get('learning_rate')}. Published checkpoints stay. Lower the learning rates or lengthen the warm-up"
        )
    run.rows.append(row)
    run.history.add(History.METRICS, row)
    run.tracker.log({f"train/{name}": value for name, value in values.items()}, step=step + 1)


def _evaluate(run: _Run, done: int) -> None:
    run.last_evaluation = run.evaluator(run.state.parameters, run.state.qb_betas)
    run.history.add(History.EVALS, {"step": done, **_progress(run.config, done), **run.last_evaluation.plain()})
    run.tracker.log(run.last_evaluation.tagged("eval_dropless"), step=done)


def _described(config: TrainConfig) -> dict[str, Any]:
    """What `run.json` holds: only what equal runs share."""
    model = config.model
    tokens = config.num_steps * config.batch_sequences * model.sequence_length
    simulated = {"simulated_budget_tokens": config.simulated_budget_tokens, "subset_seed": config.subset_seed}
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
    }


def _result(run: _Run, described: dict[str, Any]) -> TrainResult:
    rows, evaluation = run.rows, run.last_evaluation
    assert evaluation is not None, "the last update is always evaluated"
    tail = rows[-max(1, round(len(rows) * 0.05)) :]
    return TrainResult(
        num_steps=run.config.num_steps,
        tokens=described["tokens"],
        active_parameters=described["active_parameters"],
        total_parameters=described["total_parameters"],
        flops=described["flops"],
        flops_with_lm_head=described["flops_with_lm_head"],
        final_loss=sum(row["cross_entropy"] for row in tail) / len(tail),
        macro_loss=evaluation.macro_loss,
        micro_loss=evaluation.micro_loss,
        macro_bpb=evaluation.macro_bpb,
        drop_fraction=sum(row["drop_fraction"] for row in rows) / len(rows),
        router_entropy=rows[-1]["router_entropy"],
        final_checkpoint=described["checkpoints"][-1],
    )
