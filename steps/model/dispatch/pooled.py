"""Runs routed experts behind pools of fixed size, on one device or with tokens and experts divided over many.

Each device packs the pools of its source shards, sends each pool to the device that has the expert shard, runs its own experts on
what it gets, and sends the rows back the same way: two exchanges of rows forward and two backward, whose size depends on the
limits and not on the routing. What is dropped is decided from the pools' headers (`packing`) and is the same
for every placement of the same virtual shards; only the last digits of sums differ.

Where a group lies over several racks, its headers (not its rows) are gathered over them, for an expert's limit is the group's; each
rack then keeps room for all of the limit. Choose `num_groups` as the number of racks to avoid both.

Shape letters: T tokens of the batch, t those of this device, K choices, E experts, e those of this device, D width, I expert
width, R rows sent by this device, N rows of its experts.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from levanter.grug.grug_moe import MoeDispatchCounts

from steps.model.dispatch.limits import PooledDispatch
from steps.model.dispatch.moves import moved, spread
from steps.model.dispatch.packing import Taken, sent, taken
from steps.model.dispatch.placement import Placement, placed
from steps.model.mesh import AXIS, RACKS, P, mesh_shape


class ExpertWeights(NamedTuple):
    """The routed experts of one layer."""

    gate: jax.Array  # f32[E, D, I]
    up: jax.Array  # f32[E, D, I]
    down: jax.Array  # f32[E, I, D]


class PooledExperts:
    """The experts of one layer, callable as Levanter's `QBRoutedMoE` calls its `expert_mlp`."""

    def __init__(self, weights: ExpertWeights, dispatch: PooledDispatch):
        """Holds the weights and the limits."""
        self.weights = weights
        self.dispatch = dispatch

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
        """Returns each token's weighted sum over the experts that took it, and what was left out.

        Args:
            x: f32[T, D] tokens, in order of their source shards.
            selected_experts: i32[T, K], distinct within a token.
            combine_weights: f32[T, K].
            token_valid: bool[T]; a token that is not valid is not sent and gets zeros.
            mesh: taken for the sake of Levanter's interface; the mesh in use is what counts.
            report_capacity_overflow: likewise; counts are always returned.

        Raises:
            ConfigError: the shards do not fit the batch or the devices.
        """
        num_tokens, choices = selected_experts.shape
        racks, columns = mesh_shape()
        placement = placed(
            self.dispatch,
            num_experts=self.weights.gate.shape[0],
            num_tokens=num_tokens,
            choices=choices,
            racks=racks,
            columns=columns,
        )
        run = partial(_on_one_device, placement=placement)
        if racks * columns > 1:
            tokens, experts = P((RACKS, AXIS)), P(AXIS)
            in_specs = (experts, tokens, tokens, tokens, tokens)
            run = jax.shard_map(
                run, in_specs=in_specs, out_specs=(tokens, P(), P()), axis_names={RACKS, AXIS}, check_vma=False
            )
        out_TD, sender, receiver = run(self.weights, x, selected_experts, combine_weights, token_valid)
        skipped = jnp.sum(~token_valid, dtype=jnp.int32) * choices
        return out_TD, MoeDispatchCounts(sender_dropped=sender, receiver_dropped=receiver, padding_skipped=skipped)


def _on_one_device(
    weights: ExpertWeights,
    x_tD: jax.Array,
    selected_tK: jax.Array,
    combine_tK: jax.Array,
    valid_t: jax.Array,
    placement: Placement,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns this device's tokens f32[t, D], and the rows that senders and receivers dropped on all devices."""
    sources = (placement.shards_here, placement.tokens_per_shard)
    pools = sent(selected_tK.reshape(*sources, -1), valid_t.reshape(sources), placement)
    rows_RD = spread(x_tD, pools.assignment_R // placement.choices, pools.row_A.reshape(selected_tK.shape))
    header_R = _sent_out(pools.expert_R, placement)
    got_RD = _sent_out(rows_RD, placement)
    mine = _taken_here(header_R, pools.valid_V, placement)
    x_eND = moved(got_RD, mine.row_N, mine.slot_R).reshape(weights.gate.shape[0], -1, x_tD.shape[1])
    hidden_eNI = jax.nn.silu(jnp.einsum("end,edi->eni", x_eND, weights.gate))
    hidden_eNI = hidden_eNI * jnp.einsum("end,edi->eni", x_eND, weights.up)
    y_ND = jnp.einsum("eni,eid->end", hidden_eNI, weights.down).reshape(-1, x_tD.shape[1])
    back_RD = _sent_back(moved(y_ND, mine.slot_R, mine.row_N), placement)
    y_tKD = moved(back_RD, pools.row_A, pools.assignment_R).reshape(*selected_tK.shape, -1)
    out_tD = jnp.sum(y_tKD * combine_tK[:, :, None], axis=1)
    return out_tD, _over_all(pools.dropped, placement), _over_all(mine.dropped, placement)


def _sent_out(values: jax.Array, placement: Placement) -> jax.Array:
    """[source shard here, expert shard, row, ...] of each device -> [source shard of the rack, expert shard here, row, ...]."""
    if placement.columns == 1:
        return values
    rest = values.shape[1:]
    parts = values.reshape(placement.shards_here, placement.columns, -1, *rest)
    got = jax.lax.all_to_all(parts, AXIS, split_axis=1, concat_axis=0, tiled=True)
    return got.reshape(-1, *rest)


def _sent_back(values: jax.Array, placement: Placement) -> jax.Array:
    """The way back of `_sent_out`."""
    if placement.columns == 1:
        return values
    rest = values.shape[1:]
    parts = values.reshape(placement.columns * placement.shards_here, 1, -1, *rest)
    got = jax.lax.all_to_all(parts, AXIS, split_axis=0, concat_axis=1, tiled=True)
    return got.reshape(-1, *rest)


def _taken_here(header_R: jax.Array, valid_V: jax.Array, placement: Placement) -> Taken:
    """What the experts of this device take of what it got, given the headers of its whole groups."""
    if placement.columns > 1:
        valid_V = jax.lax.all_gather(valid_V, AXIS, tiled=True)
    mine: jax.Array | int = 0
    if placement.racks_per_group > 1:
        rack = jax.lax.axis_index(RACKS)
        start = rack // placement.racks_per_group * placement.racks_per_group
        header_R, valid_V = (
            jax.lax.dynamic_slice_in_dim(
                jax.lax.all_gather(each, RACKS), start, placement.racks_per_group, axis=0
            ).reshape(-1)
            for each in (header_R, valid_V)
        )
        mine = rack % placement.racks_per_group * (placement.shards_here * placement.columns)
    shape = (placement.groups_here, placement.dispatch.num_shards, placement.expert_shards_here)
    header = header_R.reshape(*shape, placement.dispatch.num_waves, placement.pool_rows)
    valid_G = jnp.sum(valid_V.reshape(placement.groups_here, -1), axis=1, dtype=jnp.int32)
    return taken(header, valid_G, mine, placement)


def _over_all(count: jax.Array, placement: Placement) -> jax.Array:
    return count if placement.racks * placement.columns == 1 else jax.lax.psum(count, (RACKS, AXIS))
