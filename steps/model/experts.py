"""Runs routed experts over a flat token batch, with a capacity or without, each expert on one device.

This stands where Levanter's `MoEExpertMlp` stands inside its `QBRoutedMoE`: same call, same counts. Levanter's own
single-device path goes through a grouped matrix product that on a CPU costs one dense product for each expert (measured in
docs/model.md), and it knows no capacity. Here the assignments are laid out in equal groups of rows, each
belonging to one expert, so that the experts are three batched matrix products:

* with a capacity, one group of `capacity` rows for each expert; an assignment that finds its group full is dropped, first come
  in flat (token, choice) order;
* without, each expert gets as many groups of 64 rows as it needs: nothing is dropped, at under 64 idle rows an expert.

Over several devices, each gets all tokens, runs the experts (or groups) that are its own, and hands all rows back. Where an
assignment goes, and what is dropped, is decided over the whole batch, on every device alike: both do not depend on their number.

Shape letters: T tokens, K choices, E experts, D width, I expert width, G groups, B rows in a group, R = G x B rows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from levanter.grug.grug_moe import MoeDispatchCounts

from steps.model.dispatch.limits import PooledDispatch
from steps.model.dispatch.moves import ranks_within, rows_at, spread
from steps.model.dispatch.pooled import ExpertWeights, PooledExperts
from steps.model.mesh import P, constrained, num_devices, over_devices

_GROUP_ROWS = 64


class _Layout(NamedTuple):
    """Where each assignment goes. Row R and token T stand for "nowhere" and read as zeros."""

    row_of: jax.Array  # i32[T, K]
    token_of: jax.Array  # i32[R]
    expert_of: jax.Array | None  # i32[G]; None when group g is expert g
    group_rows: int
    dropped: jax.Array  # i32[]


def _lay_out(selected_TK: jax.Array, valid_T: jax.Array, num_experts: int, capacity: int | None) -> _Layout:
    num_tokens, choices = selected_TK.shape
    valid_A = jnp.repeat(valid_T, choices)
    expert_A = selected_TK.reshape(-1)
    rank_A, load_E = ranks_within(expert_A, valid_A, num_experts)
    if capacity is not None:
        num_rows, group_rows, expert_of = num_experts * capacity, capacity, None
        kept_A = valid_A & (rank_A < capacity)
        row_A = expert_A * capacity + rank_A
    else:
        num_groups = -(-num_tokens * choices // _GROUP_ROWS) + num_experts
        num_groups += -num_groups % num_devices()
        num_rows, group_rows = num_groups * _GROUP_ROWS, _GROUP_ROWS
        groups_E = -(-load_E // _GROUP_ROWS)
        end_E = jnp.cumsum(groups_E)
        kept_A = valid_A
        row_A = (end_E - groups_E)[expert_A] * _GROUP_ROWS + rank_A
        # Groups past the last used one run idle rows through the last expert.
        expert_of = jnp.minimum(jnp.searchsorted(end_E, jnp.arange(num_groups), side="right"), num_experts - 1)
    row_A = jnp.where(kept_A, row_A, num_rows).astype(jnp.int32)
    token_A = jnp.arange(num_tokens * choices, dtype=jnp.int32) // choices
    token_of = jnp.full((num_rows,), num_tokens, jnp.int32).at[row_A].set(token_A, mode="drop")
    dropped = jnp.sum(valid_A & ~kept_A, dtype=jnp.int32)
    return _Layout(row_A.reshape(num_tokens, choices), token_of, expert_of, group_rows, dropped)


@jax.custom_vjp
def _to_choices(y_RD: jax.Array, token_of: jax.Array, row_of: jax.Array) -> jax.Array:
    return rows_at(y_RD, row_of)


def _to_choices_backward(saved: tuple[jax.Array, jax.Array], grad_TKD: jax.Array) -> tuple[jax.Array, None, None]:
    token_of, row_of = saved
    # The choice of a row's token that points back to the row is the one whose gradient it gets.
    mine_RK = rows_at(row_of, token_of) == jnp.arange(token_of.shape[0])[:, None]
    return jnp.sum(rows_at(grad_TKD, token_of) * mine_RK[:, :, None], axis=1), None, None


_to_choices.defvjp(lambda y, token_of, row_of: (rows_at(y, row_of), (token_of, row_of)), _to_choices_backward)


def routed_experts(weights: ExpertWeights, capacity: int | PooledDispatch | None) -> "GroupedExperts | PooledExperts":
    """Returns the experts of one layer under what limits them: rows per expert, pools, or None to drop nothing."""
    return (
        PooledExperts(weights, capacity) if isinstance(capacity, PooledDispatch) else GroupedExperts(weights, capacity)
    )


class GroupedExperts:
    """The experts of one layer, callable as Levanter's `QBRoutedMoE` calls its `expert_mlp`."""

    def __init__(self, weights: ExpertWeights, capacity: int | None):
        """Holds the weights; `capacity` is in rows per expert, None drops nothing."""
        self.weights = weights
        self.capacity = capacity

    def __call__(
        self,
        x: jax.Array,
        selected_experts: jax.Array,
        combine_weights: jax.Array,
        *,
        token_valid: jax.Array,
        mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh | None = None,
        report_capacity_overflow: bool = True,
    ) -> tuple[jax.Array, MoeDispatchCounts]:
        """Returns each token's weighted sum over its experts, and what was left out.

        Args:
            x: f32[T, D] tokens.
            selected_experts: i32[T, K], distinct within a token.
            combine_weights: f32[T, K].
            token_valid: bool[T]; a token that is not valid takes no rows and gets zeros.
            mesh: taken for the sake of Levanter's interface; the mesh in use is what counts.
            report_capacity_overflow: likewise; counts are always returned.
        """
        x, selected_experts, token_valid = (constrained(each, P()) for each in (x, selected_experts, token_valid))
        layout = _lay_out(selected_experts, token_valid, self.weights.gate.shape[0], self.capacity)
        gate, up, down = self.weights
        if layout.expert_of is not None:
            gate, up, down = gate[layout.expert_of], up[layout.expert_of], down[layout.expert_of]
        x_GBD = spread(x, layout.token_of, layout.row_of).reshape(gate.shape[0], layout.group_rows, x.shape[1])
        x_GBD = constrained(x_GBD, over_devices(x_GBD.shape[0]))
        hidden_GBI = jax.nn.silu(jnp.einsum("gbd,gdi->gbi", x_GBD, gate)) * jnp.einsum("gbd,gdi->gbi", x_GBD, up)
        y_GBD = jnp.einsum("gbi,gid->gbd", hidden_GBI, down)
        y_RD = constrained(y_GBD, P()).reshape(-1, x.shape[1])
        y_TKD = _to_choices(y_RD, layout.token_of, layout.row_of)
        y_TKD = constrained(y_TKD, over_devices(y_TKD.shape[0]))
        out_TD = jnp.sum(y_TKD * combine_weights[:, :, None], axis=1)
        skipped = jnp.sum(~token_valid, dtype=jnp.int32) * selected_experts.shape[1]
        return out_TD, MoeDispatchCounts(
            sender_dropped=jnp.zeros_like(layout.dropped), receiver_dropped=layout.dropped, padding_skipped=skipped
        )
