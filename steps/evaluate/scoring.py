"""Loads a checkpoint's parameters and balancing thresholds, and evaluates them."""

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


def score_checkpoint(checkpoint: str, evaluation: str, sequences_per_set: int | None) -> tuple[int, Evaluation]:
    """Returns the updates in a checkpoint and its dropless losses; the losses equal training's own at that step.

    Args:
        checkpoint: a directory that `steps.train.checkpoints.save_state` wrote.
        evaluation: token store of the held-out sets.
        sequences_per_set: as in `Evaluator`.

    Raises:
        StepFailed: the checkpoint is damaged, or the sets do not fit its model.
    """
    unsplit_products()
    page = read_description(checkpoint)
    model = from_plain(ModelConfig, page["model"])
    with jax.set_mesh(device_mesh()):
        shapes = parameter_shapes(model)
        parameters = parameter_tree({name: jax.ShapeDtypeStruct(shapes[name], jnp.float32) for name in shapes})
        qb_betas = jax.ShapeDtypeStruct((model.num_layers, model.num_experts), jnp.float32)
        # Without the optimiser's part: evaluation neither reads nor needs it.
        state = load_tree(checkpoint, {"parameters": parameters, "qb_betas": qb_betas})
        evaluator = Evaluator(
            evaluation_batches(evaluation, model.sequence_length), model, sequences_per_set=sequences_per_set
        )
        return page["step"], evaluator(state["parameters"], state["qb_betas"])
