"""A small training run with all of the hero run's features, as a process that can be killed.

Takes a JSON object: `inputs` (config fields that are paths), `path` of the output, `changes` to the config. What was published is
marked in the output, so that the next process goes on from it, as the engine's attempts do.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.data._step_out import FolderOut
from benchmarks.model._ladder_store import outputs
from marin_exec import Milestone
from steps.ladder.config import ladder_config
from steps.ladder.rule import hero_rung
from steps.train.language_model import TrainConfig, train_language_model
from steps.train.threads import UNSPLIT_PRODUCTS
from steps.train.watch_config import SpikeConfig, WatchConfig

DETERMINISTIC = ("metrics.jsonl", "evals.jsonl", "watch.jsonl", "expert_loads.jsonl", "run.json")


class MarkedOut(FolderOut):
    """Remembers what was published in a file beside it."""

    def publish(self, name: str, result: Any = None) -> None:
        marker = Path(self.file(f"published/{name.replace('/', '+')}.json"))
        if not marker.exists():
            whole = marker.with_suffix(".tmp")
            whole.write_text(json.dumps({"name": name, "result": result}))
            whole.rename(marker)

    def milestones(self, prefix: str = "") -> list[Milestone]:
        found = [json.loads(each.read_text()) for each in Path(self.path).glob("published/*.json")]
        return [Milestone(each["name"], f"{self.path}/{each['name']}", each["result"]) for each in found]


def training_inputs() -> dict[str, str]:
    """Returns paths of the quickstart's tokens, the ladder's mixture and the held-out sets, by config field."""
    made = outputs("ladder/mixture", "tokens/evaluation")
    return {"tokens": made["tokens/train"], "mixture": made["ladder/mixture"], "evaluation": made["tokens/evaluation"]}


def tiny_config(inputs: dict[str, Any], **changes: Any) -> TrainConfig:
    """Returns a run of 60 updates of 8 rows at width 32, watched, with spikes left out from the tenth update on."""
    spec = replace(hero_rung(32, num_shards=8), num_steps=60, batch_sequences=8)
    config = ladder_config(spec, **inputs, evaluation_sequences=4, watch=WatchConfig(), spikes=SpikeConfig(window=20))
    return replace(config, wandb_mode="disabled", evaluate_every=0.25, checkpoint_every=1 / 12, **changes)


def start(
    inputs: dict[str, str], path: Path, compiled: Path, devices: int = 1, **changes: Any
) -> subprocess.Popen[str]:
    """Starts a process that trains to the end, from what was published below `path`."""
    flags = f"{UNSPLIT_PRODUCTS} --xla_force_host_platform_device_count={devices}"
    env = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, "JAX_COMPILATION_CACHE_DIR": str(compiled)}
    given = json.dumps({"inputs": inputs, "path": str(path), "changes": changes})
    command = [sys.executable, "-m", "benchmarks.model._tiny_run", given]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str], seconds: float = 900) -> dict[str, Any]:
    """Waits for a process and returns the result of its training.

    Raises:
        RuntimeError: it failed.
    """
    printed, errors = process.communicate(timeout=seconds)
    if process.returncode:
        raise RuntimeError(f"training ended with {process.returncode}: {errors[-3000:]}")
    return json.loads(printed.splitlines()[-1])


def main(given: dict[str, Any]) -> None:
    result = train_language_model(tiny_config(given["inputs"], **given["changes"]), MarkedOut(given["path"]))
    assert result is not None
    print(json.dumps({"resumed_from_step": result.resumed_from_step, "seconds": result.seconds,
                      "first_update_seconds": result.first_update_seconds}))  # fmt: skip


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
