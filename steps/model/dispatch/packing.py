"""Which pool, which place and which expert's row each assignment gets, and what is dropped: integers alone, no activations.

Sender: a source shard deals its assignments to one expert shard, in flat (token, choice) order, to the waves in turn, and
each wave takes the first that its pool has room for. Receiver: within a group and wave an expert takes rows by their place in
the pool, and of one place by source shard in order, so that no shard always comes last. Both limits are worked out from the
assignments that are there, padding left out, as `fixed_pooled_wave_all_to_all` of Levanter does.

Shape letters: S expert shards and V source shards on this device, W waves, C rows of a pool, T tokens of a shard, K choices,
A = T x K assignments, G groups.
"""

from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp

from steps.model.dispatch.moves import ranks_within, sources_of
from steps.model.dispatch.placement import Placement

NO_ROW = -1
"""Stands in a pool's header where no row is."""


class Sent(NamedTuple):
    """What one device sends, its shards' pools one after the other: [V, expert shards of all devices, W, C] rows."""

    row_A: jax.Array  # i32[V x A]: the assignment's row among those sent; past the end where its pool was full
    assignment_R: jax.Array  # i32[R]: and the other way round
    expert_R: jax.Array  # i32[R]: the expert within its shard; NO_ROW where the pool was not filled
    valid_V: jax.Array  # i32[V]: assignments of each source shard, padding left out
    dropped: jax.Array  # i32[]


class Taken(NamedTuple):
    """Where what one device got goes: the rows of its experts are [experts, G, W, expert_rows]."""

    slot_R: jax.Array  # i32[R]: the row among its experts'; past the end where there is none, or the expert was full
    row_N: jax.Array  # i32[N]: and the other way round
    dropped: jax.Array  # i32[]


def limit(valid: jax.Array, share: Fraction, most: int) -> jax.Array:
    """Returns ceil(valid x share) between 1 and `most`, i32 like `valid`, without an intermediate value that overflows."""
    whole, rest = valid // share.denominator, valid % share.denominator
    scaled = whole * share.numerator + -(-rest * share.numerator // share.denominator)
    return jnp.clip(scaled, 1, most)


def sent(selected_VTK: jax.Array, valid_VT: jax.Array, placement: Placement) -> Sent:
    """Returns how the source shards of one device fill their pools."""
    shards, waves, pool_rows = placement.dispatch.num_shards, placement.dispatch.num_waves, placement.pool_rows
    num_sources = selected_VTK.shape[0]
    expert_VA = selected_VTK.reshape(num_sources, -1)
    valid_VA = jnp.repeat(valid_VT, placement.choices, axis=1)
    valid_V = jnp.sum(valid_VA, axis=1, dtype=jnp.int32)
    target_VA = expert_VA // placement.experts_per_shard
    rank_VA, _ = jax.vmap(lambda target, valid: ranks_within(target, valid, shards))(target_VA, valid_VA)
    place_VA = rank_VA // waves
    room_V = limit(valid_V, placement.dispatch.sender_share(), pool_rows)
    kept_VA = valid_VA & (place_VA < room_V[:, None])
    source_V = jnp.arange(num_sources, dtype=jnp.int32)[:, None]
    pool_VA = (source_V * shards + target_VA) * waves + rank_VA % waves
    row_A = jnp.where(kept_VA, pool_VA * pool_rows + place_VA, placement.send_rows).astype(jnp.int32).reshape(-1)
    assignment_R = sources_of(row_A, placement.send_rows)
    within_A = expert_VA.reshape(-1) % placement.experts_per_shard
    expert_R = jnp.take(within_A, assignment_R, mode="fill", fill_value=NO_ROW)
    return Sent(row_A, assignment_R, expert_R, valid_V, jnp.sum(valid_VA & ~kept_VA, dtype=jnp.int32))


def taken(expert_GVSWC: jax.Array, valid_G: jax.Array, mine: jax.Array | int, placement: Placement) -> Taken:
    """Returns which rows the experts of one device take.

    Args:
        expert_GVSWC: i32 headers of all source shards of the groups, in order, for the expert shards of this device.
        valid_G: i32 assignments of each group, padding left out.
        mine: the first of the source shards whose rows are on this device: it has as many as `placement.groups_here` asks for.
            0 where all of a group's are.
        placement: of this device.
    """
    groups, _, shards, waves, _ = expert_GVSWC.shape
    per_shard, expert_rows = placement.experts_per_shard, placement.expert_rows
    # Rank by place, then by source shard.
    expert_GSWCV = expert_GVSWC.transpose(0, 2, 3, 4, 1)
    flat = expert_GSWCV.reshape(groups * shards * waves, -1)
    rank, _ = jax.vmap(lambda expert: ranks_within(jnp.maximum(expert, 0), expert != NO_ROW, per_shard))(flat)
    rank_GVSWC = rank.reshape(expert_GSWCV.shape).transpose(0, 4, 1, 2, 3)
    room_G = limit(valid_G, placement.dispatch.receiver_share(placement.num_experts), expert_rows)
    kept_GVSWC = (expert_GVSWC != NO_ROW) & (rank_GVSWC < room_G[:, None, None, None, None])
    group, _, shard, wave, _ = jnp.ogrid[:groups, :1, :shards, :waves, :1]
    expert = shard * per_shard + expert_GVSWC
    slot_GVSWC = ((expert * groups + group) * waves + wave) * expert_rows + rank_GVSWC
    num_slots = shards * per_shard * groups * waves * expert_rows
    slot_GVSWC = jnp.where(kept_GVSWC, slot_GVSWC, num_slots).astype(jnp.int32)
    sources_here = placement.shards_here * placement.columns // groups
    here = [jax.lax.dynamic_slice_in_dim(each, mine, sources_here, axis=1) for each in (slot_GVSWC, expert_GVSWC)]
    slot_R, expert_R = (each.reshape(-1) for each in here)
    dropped = jnp.sum((expert_R != NO_ROW) & (slot_R == num_slots), dtype=jnp.int32)
    return Taken(slot_R, sources_of(slot_R, num_slots), dropped)
