"""What a training run's output means, as a digest: checkpoints are stored under random file names and hold time stamps, so
their bytes differ between equal runs, while the arrays in them do not.

Each checkpoint carries `checkpoint.json`, with the SHA-256 of every array (name, dtype, shape, bytes) as it was in memory. Reading
the arrays back checks them against it (`steps.train.checkpoints`), so the digest here need not open them.
"""

import hashlib
import json

from steps.files import read_bytes

CHECKPOINT_FILE = "checkpoint.json"
LOG_FILES = ("metrics.jsonl", "evals.jsonl")
WATCH_FILE, LOADS_FILE = "watch.jsonl", "expert_loads.jsonl"


def kept_files(watches: bool) -> tuple[str, ...]:
    """Returns the names of the logs that equal runs share and checkpoints keep, given whether anything is watched."""
    return (*LOG_FILES, WATCH_FILE, LOADS_FILE) if watches else LOG_FILES


def content_digest(path: str) -> str:
    """Returns the SHA-256, in hex, of a run's losses, config and checkpointed arrays, given its output directory."""
    digest = hashlib.sha256(b"train/language_model content 1\0")
    run = json.loads(read_bytes(f"{path}/run.json"))
    for name in ("run.json", *kept_files("watch" in run)):
        _add(digest, name, read_bytes(f"{path}/{name}"))
    for name in run["checkpoints"]:
        _add(digest, name, read_bytes(f"{path}/{name}/{CHECKPOINT_FILE}"))
    return digest.hexdigest()


def _add(digest: "hashlib._Hash", name: str, data: bytes) -> None:
    head = f"{name}\0{len(data)}\0".encode()
    digest.update(head + data)
