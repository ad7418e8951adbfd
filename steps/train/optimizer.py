"""Optimiser groups, hyperball steps and the learning-rate schedule.

Three groups, by what a parameter is: *MuonH* for the blocks' matrices (each expert is a matrix of its own), *AdamH* for the
output head, *Adam* for the rest (embedding, router, head gates, gains, convolutions). Both H variants move a matrix by an angle:
the step is the learning rate times the matrix's norm, and the norm is put back afterwards, so it never changes and no weight
decay is needed. Router and head gates are free to grow; they alone may be decayed.
The orthogonalisation, the norm-preserving step and AdamH are Levanter's; its own MuonH labels no raw arrays, hence the groups here.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from levanter.optim.adamh import scale_by_adamh
from levanter.optim.util import CoefficientType, norm_preserving_update, zeropower_via_newtonschulz5

from marin_exec import StepFailed
from steps.model.mesh import P, constrained, over_devices
from steps.train.language_model import OptimizerConfig

MUON_H, ADAM_H, ADAM = "muon_h", "adam_h", "adam"
DECAYED_LEAVES = frozenset({"router", "head_gate"})
"""What `OptimizerConfig.gate_router_decay` acts on."""
_GROUPS = {
    ADAM_H: r"lm_head",
    ADAM: r"token_embedding|router|head_gate|conv_\w+|(?!.*gated)\w+_norm",
    MUON_H: r"w_[qkvo]|(expert|shared)_(gate|up|down)|latent_(down|up)|\w+_gated_norm_(down|up)",
}
"""Which leaves are whose, as patterns of the last part of a path. The groups are the hero run's (issue 8435 of
marin-community/marin, and `GrugMoeMuonHConfig.create_mask` there)."""


def group_of(path: str) -> str:
    """Returns the group of the parameter at a path such as "layers/w_q".

    Raises:
        StepFailed: it is in none; a new kind of parameter must be given one.
    """
    leaf = path.rsplit("/", 1)[-1]
    for group, pattern in _GROUPS.items():
        if re.fullmatch(pattern, leaf):
            return group
    raise StepFailed(
        f'optimiser: the parameter "{path}" is in no group; the names known are {", ".join(_GROUPS.values())}. '
        "Give its name to a group in steps/train/optimizer.py"
    )


def parameter_groups(parameters: Any) -> Any:
    """Returns a tree like `parameters` that holds each array's group name."""
    return jax.tree_util.tree_map_with_path(lambda path, _: group_of(path_name(path)), parameters)


def path_name(path: tuple[Any, ...]) -> str:
    """Returns a tree path as its keys joined by slashes."""
    return "/".join(str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path)


class MuonState(NamedTuple):
    """The state of the MuonH group."""

    momentum: Any  # a tree of f32, shaped as the group's parameters


def scale_by_muon_h(
    learning_rate: jax.Array | float,
    momentum: float,
    iterations: int,
    coefficients: CoefficientType = "quintic",
    norm_over: str = "matrix",
) -> optax.GradientTransformation:
    """Returns MuonH over stacks of matrices: Nesterov momentum, orthogonalised, at constant norm.

    A matrix whose momentum is zero (an expert that no token has reached) stays where it is.

    Args:
        learning_rate: the angle of a step, f32[] or a number.
        momentum: decay of the gradients' sum.
        iterations: of Newton and Schulz.
        coefficients: their polynomials, by Levanter's names (`NEWTON_SCHULZ_COEFFICIENTS`); taken in turn.
        norm_over: what keeps its norm, and moves by the rate: "matrix", or all matrices of a "layer" together.

    The transformation takes trees of f32[..., A, B]: each [A, B] is a matrix of its own.
    """

    def init(params: Any) -> MuonState:
        return MuonState(jax.tree.map(jnp.zeros_like, params))

    def orthogonal(directions_NAB: jax.Array) -> jax.Array:
        def one(matrix: jax.Array) -> jax.Array:
            return zeropower_via_newtonschulz5(matrix, steps=iterations, eps=1e-8, coefficient_type=coefficients)

        return jax.vmap(one)(directions_NAB)

    def step(weights_NAB: jax.Array, directions_NAB: jax.Array) -> jax.Array:
        moved = orthogonal(directions_NAB)
        if norm_over == "layer":
            return moved
        return jnp.asarray(norm_preserving_update(weights_NAB, moved, learning_rate))

    def update(updates: Any, state: Any, params: Any = None, **_: Any) -> tuple[Any, MuonState]:
        buffer = jax.tree.map(lambda m, g: momentum * m + g, state.momentum, updates)
        directions = jax.tree.map(lambda m, g: momentum * m + g, buffer, updates)
        moves = _by_matrix_shape(step, params, directions)
        if norm_over == "layer":  # Levanter's step takes one norm for each entry of the first axis
            moves = jax.tree.map(
                lambda weight, move: norm_preserving_update(weight, move, learning_rate), params, moves
            )
        return moves, MuonState(buffer)

    return optax.GradientTransformation(init, update)


def _by_matrix_shape(step: Callable[[jax.Array, jax.Array], jax.Array], parameters: Any, directions: Any) -> Any:
    """Maps `step` over all matrices of two like trees, those of one shape stacked, so that it is compiled once a shape."""
    weights, structure = jax.tree.flatten(parameters)
    moves = jax.tree.leaves(directions)
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for index, weight in enumerate(weights):
        by_shape.setdefault(weight.shape[-2:], []).append(index)
    results = list(weights)
    for shape, indices in by_shape.items():
        stacks = [jnp.concatenate([each[i].reshape(-1, *shape) for i in indices]) for each in (weights, moves)]
        stacks = [constrained(each, over_devices(each.shape[0])) for each in stacks]  # whole matrices to each device
        ends = np.cumsum([weights[i].size // (shape[0] * shape[1]) for i in indices])[:-1]
        for i, part in zip(indices, jnp.split(constrained(step(*stacks), P()), ends), strict=True):
            results[i] = part.reshape(weights[i].shape)
    return jax.tree.unflatten(structure, results)


@dataclass(frozen=True)
class LearningRates:
    """The rates of one update."""

    hyperball: float
    """Of MuonH and AdamH: the angle of the update."""
    adam: float
    """Of the Adam group."""
    decay: float = 0.0
    """Of router and head gates: the share of their weights that is added to their direction, before Adam's rate."""


def learning_rates(config: OptimizerConfig, step: int, num_steps: int) -> LearningRates:
    """Returns the rates of the update numbered `step` (from 0) of `num_steps`.

    Linear warm-up over the first `warmup_fraction` of the updates, then one straight line down to `final_share` of the peak
    at the last update. There is no flat stretch. The decay of router and head gates falls from its full value at the first
    update in one straight line that would be zero after the last (the hero run's 0.02 x (1 - t / T), from its update 58,014 on).
    """
    warmup = max(1, int(config.warmup_fraction * num_steps))
    if step < warmup:
        share = (step + 1) / warmup
    else:
        share = 1 - (1 - config.final_share) * (step + 1 - warmup) / max(1, num_steps - warmup)
    decay = config.gate_router_decay * (1 - step / num_steps)
    return LearningRates(config.learning_rate * share, config.adam_learning_rate * share, decay)


def optimizer(
    config: OptimizerConfig,
    hyperball_rate: jax.Array | float,
    adam_rate: jax.Array | float,
    decay: jax.Array | float = 0.0,
) -> optax.GradientTransformation:
    """Returns the three groups' transformation at the given rates (`LearningRates`); its state does not depend on them."""
    adam = [optax.scale_by_adam(config.beta1, config.beta2, config.epsilon), optax.scale(-adam_rate)]  # type: ignore[arg-type]
    if config.gate_router_decay:
        adam.insert(1, optax.add_decayed_weights(decay, _decayed))  # type: ignore[arg-type]
    return optax.multi_transform(
        {
            MUON_H: scale_by_muon_h(
                hyperball_rate,
                config.momentum,
                config.newton_schulz_iterations,
                config.newton_schulz_coefficients,  # type: ignore[arg-type]  # checked when the config was made
                config.norm_over,
            ),
            ADAM_H: scale_by_adamh(config.beta1, config.beta2, config.epsilon, hyperball_rate),  # type: ignore[arg-type]
            ADAM: optax.chain(*adam),
        },
        parameter_groups,
    )


def _decayed(parameters: Any) -> Any:
    """A tree like `parameters` that says of each array whether it is decayed."""
    return jax.tree_util.tree_map_with_path(
        lambda path, _: path_name(path).rsplit("/", 1)[-1] in DECAYED_LEAVES, parameters
    )
