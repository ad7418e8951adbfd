"""Levanter's own training entry point on a small mixture of experts, timed from outside: a process of its own.

    python -m benchmarks.model._levanter_run CONFIG.yaml TIMES.json

`levanter.main.train_lm` runs as it stands. Around its trainer's `train_step` the clocks are read, so an iteration is what lies
between the ends of two steps: loading, update and hooks.
"""

import json
import os
import sys
import time
from pathlib import Path

import levanter.config
import levanter.main.train_lm as train_lm
from levanter.trainer import Trainer


def main(config: str, times: str) -> None:
    ends: list[tuple[float, float]] = []
    step = Trainer.train_step

    def timed(self, *args, **kwargs):
        info = step(self, *args, **kwargs)
        ends.append((time.perf_counter(), time.process_time()))
        Path(times).write_text(json.dumps(ends))
        return info

    Trainer.train_step = timed
    sys.argv = ["train_lm", "--config_path", config]
    levanter.config.main(train_lm.main)()
    sys.stdout.flush()
    os._exit(0)  # its background threads abort a process that ends on its own


if __name__ == "__main__":
    main(*sys.argv[1:])
