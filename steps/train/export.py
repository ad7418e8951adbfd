"""Exports a checkpoint as files that need none of this project: weights as safetensors, shape and tokenizer as JSON.

No architecture of Hugging Face's computes what this model does (its router selects by logit plus bias and weighs by sigmoid, its
queries and keys are normed without gains, its embedding is normed), so the files are read by `load_export`, or in a few
lines of NumPy (docs/training.md), and not by transformers. Loads no jax until it runs.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marin_exec import InputPath, Out, StepFailed, kind
from steps.files import read_bytes, write_bytes, write_json
from steps.plain_config import from_plain, plain_config
from steps.tokenize.tokenizer import TOKENIZER_FILE

if TYPE_CHECKING:
    import numpy as np

    from steps.model.config import ModelConfig

WEIGHTS_FILE, CONFIG_FILE = "model.safetensors", "config.json"
BIAS = "router_bias"
_FORMAT = "marin-exec/moe/1"


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """A checkpoint to hand on."""

    checkpoint: InputPath
    """A checkpoint: `train_step / "checkpoints/step-400"`."""
    tokenizer: InputPath | None = None
    """Output of tokenize/train_bpe or tokenize/adopt, copied beside the weights; None leaves it out."""


@dataclass(frozen=True)
class ExportResult:
    """What was exported."""

    step: int
    """Updates that are in the checkpoint."""
    parameters: int
    """Trained parameters."""
    bytes: int
    """Of the weights file."""


@kind("train/export", version=1)
def export_checkpoint(config: ExportConfig, out: Out) -> ExportResult:
    """Writes `model.safetensors` (float32, parameters by path, `router_bias` [layers, experts]), `config.json`, the tokenizer.

    The bias is what is added to the router's logits to select experts: the checkpoint's balancing thresholds, negated and
    centred. A model without it routes otherwise.

    Raises:
        StepFailed: the checkpoint is missing or damaged.
    """
    import jax
    import numpy as np
    from safetensors.numpy import save

    from steps.evaluate.scoring import load_model
    from steps.model.mesh import device_mesh, host_array
    from steps.model.transformer import router_bias
    from steps.train.optimizer import path_name

    with jax.set_mesh(device_mesh()):
        step, model, state = load_model(config.checkpoint)
        arrays = {
            path_name(path): host_array(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(state["parameters"])
        }
        bias = np.ascontiguousarray(router_bias(state["qb_betas"]))
    data = save({**dict(sorted(arrays.items())), BIAS: bias}, metadata={"format": _FORMAT})
    write_bytes(out.file(WEIGHTS_FILE), data)
    write_json(out.file(CONFIG_FILE), {"format": _FORMAT, "step": step, "model": plain_config(model)})
    if config.tokenizer is not None:
        write_bytes(out.file(TOKENIZER_FILE), read_bytes(f"{config.tokenizer}/{TOKENIZER_FILE}"))
    return ExportResult(step=step, parameters=sum(array.size for array in arrays.values()), bytes=len(data))


def load_export(path: str) -> "tuple[ModelConfig, dict[str, Any], np.ndarray]":
    """Returns the model, its parameters as `steps.model.transformer` takes them (NumPy), and thresholds f32[layers, experts].

    Args:
        path: output of train/export.

    Raises:
        StepFailed: it is of another format, or its arrays are not those of its model.
    """
    from safetensors.numpy import load

    from steps.model.config import ModelConfig
    from steps.model.parameters import parameter_shapes, parameter_tree

    described = json.loads(read_bytes(f"{path}/{CONFIG_FILE}"))
    if described.get("format") != _FORMAT:
        raise StepFailed(
            f"{path}: format {described.get('format')!r}; {_FORMAT!r} is read here. Export the checkpoint again"
        )
    model = from_plain(ModelConfig, described["model"])
    arrays = load(read_bytes(f"{path}/{WEIGHTS_FILE}"))
    bias = arrays.pop(BIAS)
    found, wanted = {name: array.shape for name, array in arrays.items()}, parameter_shapes(model)
    if found != wanted:
        differing = sorted(name for name in found | wanted if found.get(name) != wanted.get(name))
        raise StepFailed(
            f"{path}: {', '.join(differing)} are not the arrays of the model in {CONFIG_FILE}; export it again"
        )
    return model, parameter_tree(arrays), -bias
