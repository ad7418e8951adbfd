"""Norms of all that an update handles, by path: gradients, parameters, updates, optimiser state.

Names are those of the hero run's public metrics (issue 8435 of marin-community/marin), with this model's paths, dots for slashes:
`grad/norm/layers.w_q`, and `grad/norm/total` over all. Sums are f32, as the arrays.
"""

from typing import Any

import jax
import jax.numpy as jnp

from steps.train.optimizer import path_name

_WRAPPERS = {"inner_states", "inner_state", "0"}
"""Parts of a path in the optimiser's state that say how optax nests it."""


def norms_by_path(what: str, tree: Any, *, by_layer: bool) -> dict[str, jax.Array]:
    """Returns f32[] norms of a tree's arrays by metric name, the total's too; counters and other integers are left out.

    Args:
        what: what the tree holds: "grad", "params", "updates" or "opt_state".
        tree: of f32 arrays; those below "layers" are stacked over layers.
        by_layer: adds f32[layers] norms of the stacked arrays, as `<what>/norm_by_layer/<path>`.
    """
    squares, found = [], {}
    for path, array in jax.tree_util.tree_leaves_with_path(tree):
        if not jnp.issubdtype(array.dtype, jnp.floating):
            continue
        name = ".".join(part for part in path_name(path).split("/") if part not in _WRAPPERS)
        square = jnp.sum(jnp.square(array))
        squares.append(square)
        found[f"{what}/norm/{name}"] = jnp.sqrt(square)
        if by_layer and "layers." in name:
            each = jnp.sum(jnp.square(array), axis=tuple(range(1, array.ndim)))
            found[f"{what}/norm_by_layer/{name}"] = jnp.sqrt(each)
    return {f"{what}/norm/total": jnp.sqrt(sum(squares, jnp.zeros(())))} | found
