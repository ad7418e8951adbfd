"""Runs Python in a process that has several devices: JAX fixes their number when it starts."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def run_on_devices(script: str, devices: int, **values: Any) -> None:
    """Runs an indented script, with `values` as its globals, where that many devices are simulated."""
    given = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    stub = "import sys, types; t = types.ModuleType('tests'); t.__path__ = ['tests']; sys.modules['tests'] = t\n"
    env = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    env["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    command = [sys.executable, "-c", stub + given + textwrap.dedent(script)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=850)
    assert done.returncode == 0, done.stderr[-3000:]
