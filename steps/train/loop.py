"""The train loop: resume, update, log, evaluate, checkpoint.

Every rank of a gang step runs it, on its own rows of each batch; what is written, published and returned is rank 0's.

What is written depends on the config and the data alone: a run that was killed and resumed has the same metrics, evaluations and
final arrays, bit for bit, as one in one go (at the same XLA flags; see `steps.train.threads`).
"""

import dataclasses
import json
import time
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from levanter.tracker import Tracker

from marin_exec import ConfigError, Milestone, Out, StepFailed
from steps.files import write_bytes, write_json
from steps.mix.order import TrainingOrder
from steps.model.counts import training_flops
from steps.model.mesh import array_of_rows, device_mesh, local_rows, num_devices
from steps.train.cadence import checkpoint_name, due_steps
from steps.train.checkpoints import checkpoint_step, load_tree, read_history, save_state
from steps.train.content import LOADS_FILE, WATCH_FILE, kept_files
from steps.train.describing import description, progress_of, result
from steps.train.evaluating import Evaluated, RunEvaluations
from steps.train.history import History
from steps.train.language_model import TrainConfig, TrainResult
from steps.train.load_image import load_image
from steps.train.optimizer import learning_rates
from steps.train.public_names import public_row, router_rows
from steps.train.ranks import joined_ranks, rank_0s
from steps.train.step import TrainState, initial_state, update
from steps.train.threads import unsplit_products
from steps.train.timing import Timing
from steps.train.tracking import run_tracker
from steps.train.update_row import check_finite, update_row
from steps.train.watch_config import WatchConfig


@dataclass
class _Run:
    """One attempt while it runs."""

    config: TrainConfig
    out: Out
    order: TrainingOrder
    evaluations: RunEvaluations
    history: History
    tracker: Tracker
    timing: Timing
    state: TrainState
    rows: list[dict[str, Any]]
    """Metrics of all updates so far, earlier attempts' included."""
    evaluated: Evaluated | None = None
    """The last one."""


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
    evaluations = RunEvaluations(config, order)
    first, state, earlier = _resume(config, out)
    if first and out.rank == 0:
        out.progress(f"resumed from {checkpoint_name(first)}", done=first, total=config.num_steps)
    described = description(config)
    flops_per_token = training_flops(config.model, 1, with_lm_head=True)
    timing = Timing(config.model.sequence_length, config.batch_sequences, flops_per_token, config.peak_flops)
    kept = kept_files(config.watch is not None)
    with History(out, earlier, kept) as history, run_tracker(config, out, described) as tracker:
        rows = [json.loads(line) for line in earlier.get(History.METRICS, ())]
        run = _Run(config, out, order, evaluations, history, tracker, timing, state, rows)
        _run_updates(run, first)
    if out.rank == 0:
        write_json(out.file("run.json"), described)
    assert run.evaluated is not None, "the last update is always evaluated"
    ended = result(config, described, run.rows, run.evaluated.held_out, timing)
    return dataclasses.replace(ended, resumed_from_step=first)


def _resume(config: TrainConfig, out: Out) -> tuple[int, TrainState, dict[str, list[str]]]:
    """Returns the updates done, the state after them, and the logs so far, from what earlier attempts published."""
    state = initial_state(config.model, config.optimizer, config.seed, config.spikes)
    # Ranks look at different moments, and an attempt that lost its lease may publish in between: rank 0's view counts.
    step = rank_0s(max(_published(out), default=0) if out.rank == 0 else 0)
    if not step:
        return 0, state, {}
    published = [milestone for number, milestone in sorted(_published(out).items()) if number <= step]
    latest = published[-1]
    names = kept_files(config.watch is not None)
    earlier: dict[str, list[str]] = {name: [] for name in names}
    for milestone in published:
        for name, lines in read_history(milestone.path, names).items():
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
    config, timing = run.config, run.timing
    evaluations = set(due_steps(config.num_steps, config.evaluate_every))
    checkpoints = set(due_steps(config.num_steps, config.checkpoint_every))
    if first == config.num_steps:  # the attempt before died after its last checkpoint
        run.evaluated = run.evaluations(run.state, first)
    for step in range(first, config.num_steps):
        timing.start()
        row, watched = _update(run, step)
        done = step + 1
        with timing.of("hooks"):
            _log(run, row, watched)
        if done in evaluations:
            with timing.of("evaluation"):
                _evaluate(run, done)
        if done in checkpoints:
            with timing.of("checkpoint"):
                _checkpoint(run, done)
        with timing.of("hooks"):
            if run.out.rank == 0 and (done % config.log_every == 0 or done == config.num_steps):
                run.out.progress(
                    f"update {done}/{config.num_steps}: cross-entropy {row['cross_entropy']:.3f}, "
                    f"drops {row['drop_fraction']:.1%}",
                    done=done,
                    total=config.num_steps,
                )
            run.tracker.log(timing.public(), step=done)
        run.history.add(History.TIMINGS, {"step": done, **timing.end()})


def _update(run: _Run, step: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Makes the update numbered `step`, from 0; returns its row of metrics and what is watched, on the host."""
    config, size = run.config, run.config.batch_sequences
    with run.timing.of("data"):
        batch = run.order.batch(step, local_rows(size))
    rates = learning_rates(config.optimizer, step, config.num_steps)
    watch_now = config.watch is not None and _is_watched(config.watch, step + 1)
    with run.timing.of("update"):
        run.state, metrics, watched = update(
            run.state,
            array_of_rows(batch.tokens, size),
            array_of_rows(batch.segment_ids, size),
            np.array([rates.hyperball, rates.adam, rates.decay], np.float32),
            watch_now,
            model=config.model,
            groups=config.optimizer,
            z_loss=config.z_loss,
            spikes=config.spikes,
            watch=config.watch,
        )
        row = update_row(config, step + 1, jax.device_get(metrics), rates)
        found = jax.device_get(watched) if watch_now else {}
    check_finite(row, run.rows[-1] if run.rows else {}, run.out.step_name, config.num_steps)
    return row, jax.tree.map(np.ndarray.tolist, found)


def _log(run: _Run, row: dict[str, Any], watched: dict[str, Any]) -> None:
    """Logs an update: its row always, and what is watched every so often and where the mixture changes."""
    run.rows.append(row)
    run.history.add(History.METRICS, row)
    public = public_row(row)
    if run.config.watch is not None:
        step = row["step"] - 1
        phase = run.order.phase(step)
        found: dict[str, Any] = {"mixture/stage": phase}
        if step == 0 or phase != run.order.phase(step - 1):
            weights = {each.name: each.weights[phase] for each in run.order.mixture.components}
            found |= {f"mixture/weight/{name}": weight for name, weight in weights.items()}
        if watched:
            found |= watched["norms"] | router_rows(watched["layers"], run.config.model.num_experts)
        if len(found) > 1:
            run.history.add(WATCH_FILE, {"step": row["step"], **public, **found})
        public |= {name: value for name, value in found.items() if not isinstance(value, list)}
    run.tracker.log(public, step=row["step"])


def _is_watched(watch: WatchConfig, done: int) -> bool:
    return done == 1 or done % watch.every == 0


def _evaluate(run: _Run, done: int) -> None:
    run.evaluated = found = run.evaluations(run.state, done)
    progress = progress_of(run.config, done)
    run.history.add(History.EVALS, {"step": done, **progress, **found.row()})
    if found.loads is not None:
        loads = {"step": done, "sets": run.evaluations.set_names, "counts": found.loads.tolist()}
        run.history.add(LOADS_FILE, loads)
        if run.out.rank == 0:
            write_bytes(run.out.file("expert_loads.png"), load_image(found.loads))
    run.tracker.log(found.public(), step=done)


def _checkpoint(run: _Run, done: int) -> None:
    name = checkpoint_name(done)
    save_state(f"{run.out.path}/{name}", run.state, done, run.config.model, run.history)
    if run.out.rank == 0:
        run.out.publish(name, {"step": done, **progress_of(run.config, done)})
