"""Saves and loads training states with Levanter's checkpoints, each described and checked by a `checkpoint.json`.

`checkpoints/step-N/` holds Levanter's files (tensorstore arrays and its own `metadata.json`), `checkpoint.json` (the step,
the model's config, the SHA-256 of every array), and the part of `metrics.jsonl` and `evals.jsonl` since the checkpoint
before, so that a later attempt can put the whole history together from the published checkpoints.
"""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from tempfile import TemporaryDirectory
from typing import Any

import jax
import levanter.checkpoint

from marin_exec import StepFailed
from steps.files import local_copy, local_folder, read_bytes, write_bytes, write_json
from steps.model.config import ModelConfig
from steps.model.mesh import host_array
from steps.plain_config import plain_config
from steps.train.content import CHECKPOINT_FILE
from steps.train.history import History
from steps.train.optimizer import path_name
from steps.train.step import TrainState

_FORMAT = 1


def checkpoint_step(name: str) -> int:
    """Returns the number of updates that a checkpoint's name or path states."""
    found = re.search(r"step-(\d+)/?$", name)
    if not found:
        raise StepFailed(f'checkpoint "{name}": no step in its name; a path that ends in step-N is needed')
    return int(found[1])


def array_digests(tree: Any) -> dict[str, dict[str, Any]]:
    """Returns dtype, shape and SHA-256 of the bytes of each array in a tree, by its path, sorted. Every rank must ask."""
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        array = host_array(leaf)
        digest = hashlib.sha256(array.tobytes()).hexdigest()
        found[path_name(path)] = {"dtype": str(array.dtype), "shape": list(array.shape), "sha256": digest}
    return dict(sorted(found.items()))


def save_state(path: str, state: TrainState, step: int, model: ModelConfig, history: History) -> None:
    """Writes a checkpoint directory and returns, on rank 0, when all of it is written. Every rank must call it.

    Args:
        path: full path of the checkpoint's directory.
        state: the state after `step` updates.
        step: updates done.
        model: described in the checkpoint, so that it can be evaluated by itself.
        history: what was logged since the last call; it is marked as kept.
    """
    # Of arrays over devices each rank writes a part, and rank 0 waits for all; what is in the host's memory rank 0 writes.
    written: Any = state if _ranks_may_share(path) else jax.tree.map(_whole, state)
    with _written_by_levanter(path) as directory:
        levanter.checkpoint.save_checkpoint(written, step, directory, is_temporary=False)
    arrays = array_digests(state)
    if jax.process_index():
        return
    described = {"format": _FORMAT, "step": step, "model": plain_config(model), "arrays": arrays}
    for name, lines in history.take_recent().items():
        write_bytes(f"{path}/{name}", "".join(lines).encode())
    write_json(f"{path}/{CHECKPOINT_FILE}", described)


def _whole(array: jax.Array) -> Any:
    """Returns all of an array as NumPy, in its own shape: a scalar that came back as a row of one compiles to other code."""
    return host_array(array).reshape(array.shape)


def read_description(path: str) -> dict[str, Any]:
    """Returns a checkpoint's `checkpoint.json`.

    Raises:
        StepFailed: there is none, or it is of a newer format.
    """
    try:
        described = json.loads(read_bytes(f"{path}/{CHECKPOINT_FILE}"))
    except FileNotFoundError as error:
        raise StepFailed(
            f"checkpoint {path}: {CHECKPOINT_FILE} is missing; a directory that train/language_model wrote is needed, "
            'e.g. train_step / "checkpoints/step-400"'
        ) from error
    if described["format"] != _FORMAT:
        raise StepFailed(
            f"checkpoint {path}: format {described['format']} is not known here; {_FORMAT} is. Use a newer version"
        )
    return described


def load_tree(path: str, exemplar: Any) -> Any:
    """Returns the arrays of a checkpoint, as a tree like the exemplar, checked against the digests it was saved with.

    Args:
        path: the checkpoint's directory.
        exemplar: what to load: a `TrainState`, or a dict of some of its fields, of arrays or `jax.ShapeDtypeStruct`.

    Raises:
        StepFailed: an array differs from what was saved, or is not there.
    """
    expected = read_description(path)["arrays"]
    with _read_by_levanter(path) as directory:
        loaded = levanter.checkpoint.load_checkpoint(exemplar, directory)
    for name, found in array_digests(loaded).items():
        if expected.get(name) != found:
            raise StepFailed(
                f"checkpoint {path}: array {name} is {found}, but {expected.get(name, 'not in it')} was saved. "
                "The checkpoint is damaged or of another model: remove it, or run the training step again with --force"
            )
    return loaded


def _levanter_reaches(path: str) -> bool:
    """Returns whether Levanter reads and writes checkpoints right at a path; prepares its storage library (tensorstore) for it.

    It knows local disks, GCS and S3. Where AWS_ENDPOINT_URL names a server, it calls a bucket by a name below the server's,
    which few servers have, so a local folder stands between there, as it does for every other filesystem.
    """
    scheme = path.partition("://")[0] if "://" in path else "file"
    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    if scheme == "gs" and emulator:  # gcsfs and Google's client go there by this variable, tensorstore by its own
        os.environ["TENSORSTORE_GCS_HTTP_URL"] = emulator if "://" in emulator else f"http://{emulator}"
        os.environ.setdefault("GOOGLE_AUTH_TOKEN_FOR_TESTING", "none")
    if scheme == "s3":
        return not (os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"))
    return scheme in ("file", "gs")


def _ranks_may_share(path: str) -> bool:
    """Returns whether several ranks may write one checkpoint: they share a database, whose first member they create at once.

    Not through a local folder, of which each has its own. And not on a server that stands for Google's: of two ranks that create
    an object there, if it is not there yet, both may succeed (seen with fake-gcs-server), and one's part is lost.
    """
    emulated = path.startswith("gs://") and "STORAGE_EMULATOR_HOST" in os.environ
    return jax.process_count() == 1 or (_levanter_reaches(path) and not emulated)


def _written_by_levanter(path: str) -> AbstractContextManager[str]:
    if jax.process_index() and not _ranks_may_share(path):
        return TemporaryDirectory(prefix="marin-no-checkpoint-")  # Levanter makes an empty database even so
    return nullcontext(path) if _levanter_reaches(path) else local_folder(path)


def _read_by_levanter(path: str) -> AbstractContextManager[str]:
    return nullcontext(path) if _levanter_reaches(path) else local_copy(path)


def read_history(path: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Returns the lines that a checkpoint holds of each of these logs, by file name."""
    return {name: read_bytes(f"{path}/{name}").decode().splitlines(keepends=True) for name in names}
