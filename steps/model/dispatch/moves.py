"""Rows moved between layouts by index, with gathers in both directions.

Each move knows where its rows come from and where they go, so its transpose is a gather too. Left to automatic
differentiation it would become a scatter-add, several times slower on a CPU. An index past the end stands for "nowhere" and reads
as zeros.

Shape letters: T tokens, K choices, A = T x K assignments, N and M rows, D width.
"""

import jax
import jax.numpy as jnp


def rows_at(values_ND: jax.Array, index: jax.Array) -> jax.Array:
    """Returns the rows at an index of any shape, zeros where it points past the end."""
    return jnp.take(values_ND, index, axis=0, mode="fill", fill_value=0)


def ranks_within(group_A: jax.Array, valid_A: jax.Array, num_groups: int) -> tuple[jax.Array, jax.Array]:
    """Returns each item's place among the valid ones of its group, in order, i32[A], and each group's number, i32[groups].

    The place of an item that is not valid means nothing.
    """
    chosen_AG = jax.nn.one_hot(group_A, num_groups, dtype=jnp.int32) * valid_A[:, None].astype(jnp.int32)
    rank_A = jnp.take_along_axis(jnp.cumsum(chosen_AG, axis=0), group_A[:, None], axis=1)[:, 0] - 1
    return rank_A, chosen_AG.sum(axis=0)


def sources_of(target_N: jax.Array, num_rows: int) -> jax.Array:
    """Returns for each of `num_rows` rows the n whose target it is, N where there is none; a target past the end is no row."""
    index_N = jnp.arange(target_N.shape[0], dtype=jnp.int32)
    return jnp.full((num_rows,), target_N.shape[0], jnp.int32).at[target_N].set(index_N, mode="drop")


@jax.custom_vjp
def moved(x_ND: jax.Array, source_M: jax.Array, target_N: jax.Array) -> jax.Array:
    """Returns [M, D]: row m is row source_M[m] of x. target_N says where row n went: each goes to one place at most."""
    return rows_at(x_ND, source_M)


moved.defvjp(
    lambda x, source, target: (rows_at(x, source), target),
    lambda target, grad_MD: (rows_at(grad_MD, target), None, None),
)


@jax.custom_vjp
def spread(x_TD: jax.Array, token_M: jax.Array, row_TK: jax.Array) -> jax.Array:
    """Returns [M, D]: row m is token token_M[m]. row_TK says to which K rows a token went."""
    return rows_at(x_TD, token_M)


spread.defvjp(
    lambda x, token, row: (rows_at(x, token), row),
    lambda row, grad_MD: (rows_at(grad_MD, row).sum(axis=1), None, None),
)
