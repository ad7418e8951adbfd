"""Tokens a second in training, beside Levanter's own entry point, and what the loop costs over its bare update.

    python -m benchmarks.model.speed

The hero run's extras are off: a plain top-2-of-16 mixture of experts of one shape on both sides, the same batch, one thread. The
peer is `levanter.main.train_lm` with its `qwen3_moe` and MuonH. It has no shared expert; ours is 16 features wide. It drops
nothing; our experts take up to twice their even share, and what is dropped beyond that is printed. Clocks are read between the
ends of iterations, so that loading, logging and hooks count and compiling does not. Bars are in processor time, which says the
same on a machine that does other work; the seconds that passed are printed beside it.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from tokenizers import Tokenizer

from benchmarks.data._step_out import FolderOut
from benchmarks.figures import Figures
from benchmarks.model._ladder_store import lines, outputs
from benchmarks.model._tiny_run import training_inputs
from steps.ladder.config import ladder_config
from steps.ladder.rule import rung, spec_of
from steps.tokenize.store import read_cell, read_index
from steps.train.language_model import TrainConfig, train_language_model
from steps.train.threads import train_resources

WIDTH, BATCH, LENGTH, UPDATES, LEFT_OUT = 128, 32, 64, 60, 20
MOST_SECONDS = 1200
OURS = "import sys; from benchmarks.model.speed import train_ours; train_ours(*sys.argv[1:])"


def our_config(inputs: dict[str, Any]) -> TrainConfig:
    plain = rung(WIDTH, sequence_length=LENGTH).model
    spec = spec_of(replace(plain, shared_width=16, capacity_factor=2.0))
    config = ladder_config(replace(spec, batch_sequences=BATCH, num_steps=UPDATES), **inputs, evaluation_sequences=1)
    return replace(config, wandb_mode="disabled", evaluate_every=1.0, checkpoint_every=1.0)


def peer_config(folder: Path) -> dict:
    tokenizer = str(folder / "tokenizer")
    model = {
        "type": "qwen3_moe",
        "max_seq_len": LENGTH,
        "hidden_dim": WIDTH,
        "intermediate_dim": WIDTH,
        "moe_intermediate_dim": WIDTH // 2,
        "num_layers": 2,
        "num_heads": WIDTH // 16,
        "head_dim": 16,
        "num_kv_heads": WIDTH // 16,
        "num_experts": 16,
        "num_experts_per_tok": 2,
        "gradient_checkpointing": False,
        "tokenizer": tokenizer,
        "reference_checkpoint": tokenizer,
    }
    source = {"type": "url", "train_urls": [str(folder / "text.jsonl")]}
    data = {
        "tokenizer": tokenizer, "cache_dir": str(folder / "cache"), "components": {"text": {"source": source}},
        "train_weights": {"text": 1.0},
    }  # fmt: skip
    trainer = {
        "num_train_steps": UPDATES, "train_batch_size": BATCH, "require_accelerator": False, "tracker": {"type": "noop"},
        "checkpointer": {"base_path": str(folder / "checkpoints"), "save_interval": "10h"}, "mp": "f32",
        "steps_per_eval": 100_000, "log_dir": str(folder / "logs"),
    }  # fmt: skip
    optimizer = {"type": "muonH", "learning_rate": 0.02, "warmup": 0.01}
    return {"data": data, "model": model, "trainer": trainer, "optimizer": optimizer, "train_seq_len": LENGTH}


def write_peer_inputs(folder: Path, tokenizer: str, tokens: str) -> None:
    """Writes the tokenizer as a folder of transformers', and the training cells' text."""
    made = Tokenizer.from_file(f"{tokenizer}/tokenizer.json")
    (folder / "tokenizer").mkdir()
    (folder / "tokenizer/tokenizer.json").write_text(Path(tokenizer, "tokenizer.json").read_text())
    ends = sorted(token.content for token in made.get_added_tokens_decoder().values())
    described = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": ends[0], "eos_token": ends[-1]}
    (folder / "tokenizer/tokenizer_config.json").write_text(json.dumps(described))
    with (folder / "text.jsonl").open("w") as file:
        for cell in read_index(tokens).cells[:4]:
            text = made.decode(read_cell(tokens, cell.name).tokens.tolist())
            file.writelines(json.dumps({"text": text[at : at + 5000]}) + "\n" for at in range(0, len(text), 5000))


def train_ours(inputs: str, path: str) -> None:
    """Trains, then times the bare compiled update on one batch; writes both among the output's files."""
    config = our_config(json.loads(inputs))
    result = train_language_model(config, FolderOut(path))
    assert result is not None
    summary = {"bare": bare_updates(config), "first": result.first_update_seconds}
    Path(path, "speed.json").write_text(json.dumps(summary))


def bare_updates(config: TrainConfig) -> list[float]:
    """Returns the processor seconds of each of `UPDATES` updates with nothing around them, the first ones left out."""
    import jax
    import numpy as np

    from steps.model.mesh import device_mesh
    from steps.train.step import initial_state, update

    tokens = np.random.default_rng(0).integers(0, config.model.vocabulary_size, (BATCH, LENGTH + 1)).astype(np.int32)
    segments, rates = np.zeros_like(tokens), np.array([0.1, 0.02, 0.0], np.float32)
    seconds = []
    with jax.set_mesh(device_mesh()):
        state = initial_state(config.model, config.optimizer, 0)
        given = {"model": config.model, "groups": config.optimizer, "z_loss": config.z_loss}
        for _ in range(UPDATES):
            began = time.process_time()
            state, metrics, _ = update(state, tokens, segments, rates, **given)
            jax.block_until_ready((state, metrics))
            seconds.append(time.process_time() - began)
    return seconds[LEFT_OUT:]


def run(command: Sequence[str], env: dict[str, str]) -> None:
    done = subprocess.run(command, env=os.environ | env, capture_output=True, text=True, timeout=MOST_SECONDS)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)[:200]} ended with {done.returncode}: {done.stderr[-3000:]}")


def main() -> int:
    figures, inputs = Figures(), training_inputs()
    env = {**train_resources(1).env, "PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryDirectory(prefix="marin-speed-") as name:
        folder = Path(name)
        write_peer_inputs(folder, outputs("tokenizer")["tokenizer"], inputs["tokens"])
        (folder / "peer.yaml").write_text(yaml.safe_dump(peer_config(folder)))
        run([sys.executable, "-c", OURS, json.dumps(inputs), str(folder / "ours")], env)
        times = folder / "times.json"
        peer = [sys.executable, "-m", "benchmarks.model._levanter_run", str(folder / "peer.yaml"), str(times)]
        run(peer, env | {"HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled"})
        ours = lines(str(folder / "ours/timings.jsonl"))[LEFT_OUT : UPDATES - 1]
        drops = [row["drop_fraction"] for row in lines(str(folder / "ours/metrics.jsonl"))[LEFT_OUT:]]
        ends = json.loads(times.read_text())[LEFT_OUT:]
        speed = json.loads((folder / "ours/speed.json").read_text())
    tokens = BATCH * LENGTH
    theirs = [[b - a for a, b in pairwise(column)] for column in zip(*ends, strict=True)]
    mine = [[row[key] for row in ours] for key in ("seconds", "cpu")]
    for what, ours_s, peers_s in zip(("seconds that passed", "processor seconds"), mine, theirs, strict=True):
        figures.add(f"ours, by {what}", tokens / statistics.median(ours_s), "tokens/s")
        figures.add(f"levanter's qwen3_moe, by {what}", tokens / statistics.median(peers_s), "tokens/s")
    ratio = statistics.median(theirs[1]) / statistics.median(mine[1])
    figures.add("ours over levanter's qwen3_moe, by processor seconds", ratio, "ratio", at_least=1.0)
    share = statistics.median(speed["bare"]) / statistics.median(mine[1])
    figures.add("the loop over its bare jitted update, by processor seconds", share, "ratio", at_least=0.9)
    figures.add("assignments that ours dropped", statistics.fmean(drops), "fraction", at_most=0.01)
    figures.add("first update, in which all is compiled", speed["first"], "s")
    return figures.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
