"""A small training run as ranks; the second of them is killed once, between two checkpoints, if that is asked for."""

import dataclasses
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marin_exec import Out, Retry, Step, main
from steps.mix.order import TrainingOrder
from steps.model.config import ModelConfig
from steps.train.language_model import OptimizerConfig, TrainConfig, train_language_model
from steps.train.threads import train_resources

KILLED_BEFORE_UPDATE = 8


@dataclass(frozen=True)
class Params:
    described: str = ""
    """File with a TrainConfig as JSON."""
    ranks: int = 2
    compiled: str = ""
    killed: str = ""
    """File that is made when the rank is killed; "" kills none."""


def train_config(described: dict[str, Any]) -> TrainConfig:
    model, optimizer = ModelConfig(**described.pop("model")), OptimizerConfig(**described.pop("optimizer"))
    return TrainConfig(model=model, optimizer=optimizer, **described)


def kill_rank_1_once(killed: Path) -> Any:
    """Returns the train step with a rank 1 that dies at one update of its first attempt."""

    def train(config: TrainConfig, out: Out) -> Any:
        batch = TrainingOrder.batch

        def deadly(self: TrainingOrder, step: int, rows: slice = slice(None)) -> Any:
            if step == KILLED_BEFORE_UPDATE:
                killed.write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
            return batch(self, step, rows)

        if out.rank == 1 and not killed.exists():
            TrainingOrder.batch = deadly  # type: ignore[method-assign]
        return train_language_model(config, out)

    train.__marin_kind__ = dataclasses.replace(train_language_model.__marin_kind__, fn=train)  # type: ignore[attr-defined]
    return train


def pipeline(params: Params) -> list[Step]:
    resources = train_resources(ranks=params.ranks)
    env = {**resources.env, "JAX_COMPILATION_CACHE_DIR": params.compiled}
    resources = dataclasses.replace(resources, cpus=0.5, env=env)
    fn = kill_rank_1_once(Path(params.killed)) if params.killed else train_language_model
    config = train_config(json.loads(Path(params.described).read_text()))
    return [Step("ranks", fn, config, resources=resources, retry=Retry(infrastructure=1))]


if __name__ == "__main__":
    main(pipeline)
