"""One rank of a training run, as a process of its own: what the engine would start on a cluster.

Run as a script, with a JSON object: `inputs`, `path` (of the output), `rank`, `num_ranks`, `coordinator`, `changes` to the config,
and perhaps `alone` (see `run_ranks`). Prints the result, or the failure, as its last line.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


@dataclass
class RankEnd:
    """How a rank ended."""

    returncode: int
    last_line: Any
    output: str


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def start_rank(compiled: Path, devices: int = 1, **given: Any) -> subprocess.Popen[str]:
    """Starts a process with so many devices; `given` is the script's JSON object."""
    from steps.train.threads import UNSPLIT_PRODUCTS

    flags = f"{UNSPLIT_PRODUCTS} --xla_force_host_platform_device_count={devices}"
    env = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    env["JAX_COMPILATION_CACHE_DIR"] = str(compiled)
    command = [sys.executable, __file__, json.dumps(given)]
    return subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def ended(process: subprocess.Popen[str], seconds: float = 280) -> RankEnd:
    """Waits for a rank; ends it if it takes longer."""
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=30)
    lines = [line for line in output.splitlines() if line.startswith("{")]
    return RankEnd(process.returncode, json.loads(lines[-1]) if lines else None, output)


def run_ranks(
    compiled: Path, path: Path, inputs: dict[str, str], ranks: int = 2, alone: bool = False, **changes: Any
) -> list[RankEnd]:
    """Trains in so many processes at once, and returns how each ended, by rank.

    Args:
        alone: rank 0 writes all of a checkpoint, as on a server that stands for Google's.
    """
    coordinator = free_address() if ranks > 1 else ""
    common = {"inputs": inputs, "path": str(path), "num_ranks": ranks, "coordinator": coordinator, "changes": changes}
    common["alone"] = alone
    processes = [start_rank(compiled, rank=rank, **common) for rank in range(ranks)]
    return [ended(process) for process in processes]


def main(given: dict[str, Any]) -> None:
    import types

    tests = types.ModuleType("tests")
    tests.__path__ = [str(ROOT / "tests")]
    sys.modules["tests"] = tests
    import jax

    from marin_exec import MarinExecError
    from steps.train import checkpoints
    from steps.train.language_model import train_language_model
    from tests.steps.train.training_runs import LastingOut, tiny_config

    if given.get("alone"):
        checkpoints._ranks_may_share = lambda path: jax.process_count() == 1
    out = LastingOut(
        Path(given["path"]), rank=given["rank"], num_ranks=given["num_ranks"], coordinator=given["coordinator"]
    )
    started = time.perf_counter()
    try:
        result = train_language_model(tiny_config(given["inputs"], **given["changes"]), out)
    except MarinExecError as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        os._exit(3)  # as an engine would end it: JAX would wait for the other ranks
    took = round(time.perf_counter() - started, 3)
    print(json.dumps({"result": result and asdict(result), "messages": out.messages, "seconds": took}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
