"""Every parameter of a run: path, shape, optimiser group, and whether it counts as active.

*Active* is what one token is multiplied by inside the blocks: attention, router, latent projections, its experts and the shared
ones; no embedding, output head, gates, norms or convolutions. Paths are those of the model's parameter tree, layers stacked.
"""

import math
from dataclasses import dataclass
from typing import Literal

from steps.recipe.geometry import Geometry

Group = Literal["muon_h", "adam_h", "adam", "state"]
OPTIMIZER_STATES: dict[Group, int] = {"muon_h": 1, "adam_h": 2, "adam": 2, "state": 0}
"""Arrays like the parameter that the optimiser keeps: Muon its momentum, Adam and AdamH mean and square."""


@dataclass(frozen=True)
class Leaf:
    """One array of the parameter tree."""

    path: str
    shape: tuple[int, ...]
    """Leading axis: layers, for those under layers/."""
    group: Group
    """Of the optimiser; "state" for the router's bias, which is set by balancing and not by gradients."""
    active_share: tuple[int, int] = (0, 1)
    """Share of it that counts as active, as numerator and denominator."""

    @property
    def size(self) -> int:
        """Numbers in it."""
        return math.prod(self.shape)

    @property
    def active(self) -> int:
        """Numbers of it that count as active."""
        numerator, denominator = self.active_share
        return self.size * numerator // denominator


def leaves(geometry: Geometry) -> tuple[Leaf, ...]:
    """Returns every array of a run, in the order in which a token meets them."""
    shape, d, n = geometry.shape, geometry.width, geometry.num_layers
    rank, taps = shape.gated_norm_rank, shape.convolution_taps
    return (
        Leaf("token_embedding", (shape.vocabulary_size, d), "adam"),
        Leaf("embedding_norm", (d,), "adam"),
        *_gated_norm("embedding", (), d, rank),
        Leaf("layers/attention_norm", (n, d), "adam"),
        *_gated_norm("layers/attention", (n,), d, rank),
        *_attention(geometry),
        Leaf("layers/conv_attention", (n, taps, d), "adam"),
        Leaf("layers/mlp_norm", (n, d), "adam"),
        *_gated_norm("layers/mlp", (n,), d, rank),
        *_experts(geometry),
        Leaf("layers/conv_mlp", (n, taps, d), "adam"),
        Leaf("final_norm", (d,), "adam"),
        *_gated_norm("final", (), d, rank),
        Leaf("lm_head", (d, shape.vocabulary_size), "adam_h"),
    )


def total_parameters(geometry: Geometry, *, gated_norms: bool = True) -> int:
    """Returns all parameters; without those of the gated norms it is the number that "535.3B" stands for."""
    return sum(leaf.size for leaf in leaves(geometry) if gated_norms or "gated_norm" not in leaf.path)


def active_parameters(geometry: Geometry) -> int:
    """Returns the active parameters of a token."""
    return sum(leaf.active for leaf in leaves(geometry))


def group_sizes(geometry: Geometry) -> dict[Group, int]:
    """Returns the parameters of each optimiser group."""
    sizes: dict[Group, int] = {"muon_h": 0, "adam_h": 0, "adam": 0, "state": 0}
    for leaf in leaves(geometry):
        sizes[leaf.group] += leaf.size
    return sizes


def checkpoint_bytes(geometry: Geometry, *, parameter_bytes: int = 4, state_bytes: int = 4) -> int:
    """Returns the bytes of a checkpoint that training can go on from: parameters, optimiser state, router bias.

    Args:
        geometry: of the run.
        parameter_bytes: of a parameter; 4 for f32.
        state_bytes: of a number of the optimiser's state; 4 for f32.
    """
    return sum(
        size * (parameter_bytes + OPTIMIZER_STATES[group] * state_bytes)
        for group, size in group_sizes(geometry).items()
    )


def _gated_norm(name: str, stack: tuple[int, ...], width: int, rank: int) -> tuple[Leaf, Leaf]:
    return (
        Leaf(f"{name}_gated_norm_down", (*stack, width, rank), "muon_h"),
        Leaf(f"{name}_gated_norm_up", (*stack, rank, width), "muon_h"),
    )


def _attention(geometry: Geometry) -> tuple[Leaf, ...]:
    d, n, h = geometry.width, geometry.num_layers, geometry.shape.head_width
    queries, keys = geometry.num_heads * h, geometry.stored_kv_heads * h
    return (
        Leaf("layers/w_q", (n, d, queries), "muon_h", (1, 1)),
        Leaf("layers/w_k", (n, d, keys), "muon_h", (1, 1)),
        Leaf("layers/w_v", (n, d, keys), "muon_h", (1, 1)),
        Leaf("layers/w_o", (n, queries, d), "muon_h", (1, 1)),
        Leaf("layers/conv_k", (n, geometry.shape.convolution_taps, keys), "adam"),
        Leaf("layers/head_gate", (n, d, geometry.num_heads), "adam"),
    )


def _experts(geometry: Geometry) -> tuple[Leaf, ...]:
    shape, d, n, width = geometry.shape, geometry.width, geometry.num_layers, geometry.expert_width
    routed, shared = shape.num_experts, shape.num_shared
    chosen = (shape.experts_per_token, routed)
    return (
        Leaf("layers/router", (n, d, routed), "adam", (1, 1)),
        Leaf("layers/router_bias", (n, routed), "state"),
        Leaf("layers/latent_down", (n, d, width), "muon_h", (1, 1)),
        Leaf("layers/latent_norm", (n, width), "adam"),
        Leaf("layers/latent_up", (n, width, d), "muon_h", (1, 1)),
        Leaf("layers/expert_gate", (n, routed, width, width), "muon_h", chosen),
        Leaf("layers/expert_up", (n, routed, width, width), "muon_h", chosen),
        Leaf("layers/expert_down", (n, routed, width, width), "muon_h", chosen),
        Leaf("layers/shared_gate", (n, shared, d, width), "muon_h", (1, 1)),
        Leaf("layers/shared_up", (n, shared, d, width), "muon_h", (1, 1)),
        Leaf("layers/shared_down", (n, shared, width, d), "muon_h", (1, 1)),
    )
