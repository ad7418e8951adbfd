"""Training that is killed (kill -9) at random moments ends with the same bits as training that is not.

    python -m benchmarks.model.kills           12 kills
    python -m benchmarks.model.kills --long    50 kills

A run with all of the hero run's features, watched, with spikes left out, is killed again and again in one output; each attempt goes
on from the last published checkpoint. At every kill what the attempt had logged must be a prefix of the undisturbed run's log, and
at the end all logs and the digest of every checkpointed array (parameters, optimiser, thresholds, spike window) must be equal.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figures
from benchmarks.model._tiny_run import DETERMINISTIC, finish, start, training_inputs
from steps.train.content import content_digest

MOST_SECONDS = 600
"""For an attempt to reach the update that it is killed in."""


def logged(path: Path) -> str:
    """The lines of the metrics that are whole."""
    text = (path / "metrics.jsonl").read_text() if (path / "metrics.jsonl").exists() else ""
    return text[: text.rfind("\n") + 1]


def kill_within(process: subprocess.Popen[str], path: Path, update: int, delay: float) -> None:
    """Kills a process so many seconds after it has logged an update.

    Raises:
        RuntimeError: it ended or hung before that.
    """
    deadline = time.monotonic() + MOST_SECONDS
    while logged(path).count("\n") < update:
        if process.poll() is not None or time.monotonic() > deadline:
            errors = process.communicate(timeout=5)[1] if process.poll() is not None else "it hung"
            raise RuntimeError(f"nothing to kill at update {update}: {errors[-2000:]}")
        time.sleep(0.002)
    time.sleep(delay)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()


def main(long: bool) -> int:
    kills, figures, draw = 50 if long else 12, Figures(), random.Random(0)
    inputs, changes = training_inputs(), {"num_steps": 240 if long else 60}
    with tempfile.TemporaryDirectory(prefix="marin-kills-") as folder:
        whole, killed, compiled = (Path(folder, name) for name in ("whole", "killed", "compiled"))
        undisturbed = finish(start(inputs, whole, compiled, **changes))
        prefixes, seconds = 0, (undisturbed["seconds"] - undisturbed["first_update_seconds"]) / changes["num_steps"]
        for _ in range(kills):
            done = len(list((killed / "published").glob("*.json"))) * changes["num_steps"] // 12
            update = draw.randrange(done + 1, min(done + changes["num_steps"] // 8, changes["num_steps"] - 1) + 1)
            process = start(inputs, killed, compiled, **changes)
            kill_within(process, killed, update, draw.uniform(0, 2 * seconds))
            prefixes += (whole / "metrics.jsonl").read_text().startswith(logged(killed))
        resumed = finish(start(inputs, killed, compiled, **changes))
        equal = sum((whole / name).read_bytes() == (killed / name).read_bytes() for name in DETERMINISTIC)
        figures.add("kills in the middle of training", kills, "kills")
        figures.add("attempts whose log was the undisturbed run's", prefixes, "attempts", at_least=kills)
        figures.add("logs equal at the end, byte for byte", equal, "files", at_least=len(DETERMINISTIC))
        same = content_digest(str(whole)) == content_digest(str(killed))
        figures.add("digest of all arrays and logs is the same", int(same), "yes", at_least=1)
        figures.add("update that the last attempt went on from", resumed["resumed_from_step"], "updates", at_least=1)
        figures.add("compiling anew in a process, from the cache", resumed["first_update_seconds"], "s")
    return figures.exit_code


if __name__ == "__main__":
    raise SystemExit(main("--long" in sys.argv[1:]))
