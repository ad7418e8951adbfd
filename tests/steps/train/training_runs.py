"""A training run small enough for tests: token stores, a mixture, a config, and an `Out` that outlives its process."""

import json
from dataclasses import replace
from pathlib import Path

from steps.mix.weights import Phase, Proportional
from steps.model.config import ModelConfig
from steps.train.language_model import OptimizerConfig, TrainConfig
from tests.directory_out import DirectoryOut
from tests.steps.mix.token_stores import make_mixture, random_cell, write_store

MODEL = ModelConfig(
    width=16,
    num_layers=2,
    num_heads=1,
    vocabulary_size=1000,
    sequence_length=16,
    num_experts=4,
    expert_width=16,  # all matrices of one shape: one orthogonalisation to compile
    shared_width=16,
)


def write_inputs(path: Path) -> dict[str, str]:
    """Writes training cells, a mixture over them, and two held-out sets; returns their paths by config field."""
    cells = {name: random_cell(name, 40) for name in ("c00q1", "c01q2")}
    tokens = write_store(path / "tokens", cells)
    held_out = {name: random_cell(name, size, seed=5) for name, size in (("manual", 9), ("code", 4))}
    phases = (Phase(rule=Proportional()),)
    mixture, _ = make_mixture(path / "mixture", tokens, phases=phases, block_sequences=8)
    return {"tokens": tokens, "mixture": mixture, "evaluation": write_store(path / "held_out", held_out)}


def tiny_config(inputs: dict[str, str], **changes) -> TrainConfig:
    config = TrainConfig(
        model=MODEL,
        optimizer=OptimizerConfig(learning_rate=0.1, adam_learning_rate=0.02),
        batch_sequences=4,
        num_steps=12,
        evaluate_every=0.25,
        checkpoint_every=0.25,
        wandb_mode="disabled",
        log_every=1,
        **inputs,
    )
    return replace(config, **changes)


class LastingOut(DirectoryOut):
    """Publishes by writing a marker, so that the next process, or attempt, finds it."""

    def publish(self, name, result=None):
        super().publish(name, result)
        marker = Path(self.file(f"published/{name.replace('/', '+')}.json"))
        if not marker.exists():
            marker.write_text(json.dumps({"name": name, "result": result}))

    def milestones(self, prefix=""):
        for marker in Path(self.path).glob("published/*.json"):
            published = json.loads(marker.read_text())
            self._milestones.setdefault(published["name"], published["result"])
        return super().milestones(prefix)


def logs(path: Path | str) -> dict[str, str]:
    """The files that equal runs share, byte for byte."""
    return {name: (Path(path) / name).read_text() for name in ("metrics.jsonl", "evals.jsonl", "run.json")}


def rows(path: Path | str, name: str) -> list[dict]:
    return [json.loads(line) for line in (Path(path) / name).read_text().splitlines()]
