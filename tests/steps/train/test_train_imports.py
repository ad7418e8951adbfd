"""An experiment file imports every config module: none of them may load what only running needs."""

import subprocess
import sys
from pathlib import Path

MODULES = (
    "steps.model.config",
    "steps.model.counts",
    "steps.train.cadence",
    "steps.train.language_model",
    "steps.train.threads",
    "steps.ladder.rule",
    "steps.ladder.noise",
    "steps.evaluate.checkpoint",
)


def test_config_modules_load_no_jax_levanter_or_ray():
    heavy = ("jax", "levanter", "ray", "wandb", "optax")
    script = f"import sys, {', '.join(MODULES)}; print([m for m in {heavy} if m in sys.modules])"
    root = str(Path(__file__).parents[3])
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
