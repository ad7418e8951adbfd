"""Pooled dispatch written a second time, with lists and loops, as an oracle: where every assignment ends."""

import math
from fractions import Fraction

import numpy as np

SENT, FULL_POOL, FULL_EXPERT, PADDING = "sent", "full pool", "full expert", "padding"


def rows(factor, assignments, parts):
    return max(1, math.ceil(Fraction(str(factor)) * assignments / parts))


def fates(selected, valid, num_experts, dispatch):
    """What becomes of each assignment, as text [T, K]."""
    groups, shards, waves = dispatch.num_groups, dispatch.num_shards, dispatch.num_waves
    tokens_per_shard, per_shard = len(selected) // (groups * shards), num_experts // shards
    fate = np.full(selected.shape, PADDING, dtype=object)
    for group in range(groups):
        pools = {}  # (wave, expert shard, source shard) -> assignments, in order
        for source in range(shards):
            first = (group * shards + source) * tokens_per_shard
            mine = range(first, first + tokens_per_shard)
            room = rows(dispatch.sender_capacity, valid[mine].sum() * selected.shape[1], shards * waves)
            dealt = [0] * shards
            for token in mine:
                for choice, expert in enumerate(selected[token]):
                    if not valid[token]:
                        continue
                    target = expert // per_shard
                    pool = pools.setdefault((dealt[target] % waves, target, source), [])
                    dealt[target] += 1
                    fate[token, choice] = SENT if len(pool) < room else FULL_POOL
                    if len(pool) < room:
                        pool.append((token, choice))
        first, last = group * shards * tokens_per_shard, (group + 1) * shards * tokens_per_shard
        limit = rows(dispatch.receiver_capacity, valid[first:last].sum() * selected.shape[1], num_experts * waves)
        for wave in range(waves):
            load = [0] * num_experts
            for target in range(shards):
                waiting = [list(pools.get((wave, target, source), [])) for source in range(shards)]
                while any(waiting):
                    for pool in waiting:  # one of each in turn
                        if pool:
                            token, choice = pool.pop(0)
                            expert = selected[token, choice]
                            load[expert] += 1
                            if load[expert] > limit:
                                fate[token, choice] = FULL_EXPERT
    return fate


def outputs(x, selected, combine, valid, weights, dispatch):
    """Each token's weighted sum over the experts that took it, f64[T, D], and the fates."""
    gate, up, down = (np.asarray(each, np.float64) for each in weights)
    fate = fates(selected, valid, len(gate), dispatch)
    out = np.zeros(x.shape)
    for token, choice in np.argwhere(fate == SENT):
        expert = selected[token, choice]
        a = x[token].astype(np.float64) @ gate[expert]
        out[token] += combine[token, choice] * ((a / (1 + np.exp(-a)) * (x[token] @ up[expert])) @ down[expert])
    return out, fate
