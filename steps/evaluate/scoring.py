"""Loads a checkpoint's parameters and balancing thresholds, and evaluates them."""

from typing import Any

import jax
import jax.numpy as jnp

from steps.evaluate.losses import Evaluation, Evaluator
from steps.mix.evaluation_sets import evaluation_batches
from steps.model.config import ModelConfig
from steps.model.mesh import device_mesh
from steps.model.parameters import parameter_shapes, parameter_tree
from steps.plain_config import from_plain
from steps.train.checkpoints import load_tree, read_description
from steps.train.threads import unsplit_products


def load_model(checkpoint: str) -> tuple[int, ModelConfig, dict[str, Any]]:
    """Returns the updates in a checkpoint, its model, and its `parameters` and `qb_betas`, without the optimiser's part.

    Must run under `jax.set_mesh(device_mesh())`.

    Args:
        checkpoint: a directory that `steps.train.checkpoints.save_state` wrote.

    Raises:
        StepFailed: the checkpoint is missing or damaged.
    """
    page = read_description(checkpoint)
    model = from_plain(ModelConfig, page["model"])
    shapes = parameter_shapes(model)
    parameters = parameter_tree({name: jax.ShapeDtypeStruct(shapes[name], jnp.float32) for name in shapes})
    qb_betas = jax.ShapeDtypeStruct((model.num_layers, model.num_experts), jnp.float32)
    return page["step"], model, load_tree(checkpoint, {"parameters": parameters, "qb_betas": qb_betas})


def score_checkpoint(checkpoint: str, evaluation: str, sequences_per_set: int | None) -> tuple[int, Evaluation]:
    """Returns the updates in a checkpoint and its dropless losses; the losses equal training's own at that step.

    Args:
        checkpoint: as for `load_model`.
        evaluation: token store of the held-out sets.
        sequences_per_set: as in `Evaluator`.

    Raises:
        StepFailed: the checkpoint is damaged, or the sets do not fit its model.
    """
    unsplit_products()
    with jax.set_mesh(device_mesh()):
        step, model, state = load_model(checkpoint)
        sets = evaluation_batches(evaluation, model.sequence_length)
        evaluator = Evaluator(sets, model, sequences_per_set=sequences_per_set)
        return step, evaluator(state["parameters"], state["qb_betas"])
