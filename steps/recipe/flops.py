"""FLOPs of a run, in a stated convention: two published ones, and the same with every global layer counted.

Two FLOPs a multiply-add. Attention counts its whole span (no discount for the causal half): span x heads x (4 x head width + 3)
for scores, softmax and weighted values. Norms, gates and convolutions count nothing. Training is three forward passes.

The launcher's figures take the number of global layers as L // 4. The model also makes its last layer global, which is one more
wherever L is not a multiple of 4: of the published runs in d2048 alone, where 5 of 6 are counted.
"""

from dataclasses import dataclass
from typing import Literal

from steps.recipe.geometry import Geometry

TRAINING_PASSES = 3


@dataclass(frozen=True, kw_only=True)
class FlopConvention:
    """What a FLOP figure counts. Figures of two conventions are not comparable."""

    lm_head: bool
    """Whether the output head counts."""
    global_layers: Literal["quarter", "all"]
    """"quarter": L // global_every layers have the whole span, as published; "all": those that have it in the model."""


PUBLISHED = FlopConvention(lm_head=False, global_layers="quarter")
"""Of the scaling fit's constants: no output head, global layers as L // 4."""
PUBLISHED_WITH_HEAD = FlopConvention(lm_head=True, global_layers="quarter")
"""Of throughput and cost figures."""
EVERY_LAYER = FlopConvention(lm_head=True, global_layers="all")
"""What the model computes, up to norms, gates and convolutions."""


def forward_flops_by_part(geometry: Geometry, convention: FlopConvention) -> dict[str, int]:
    """Returns the forward FLOPs of one token by part of the model."""
    shape, d, n, width = geometry.shape, geometry.width, geometry.num_layers, geometry.expert_width
    far = n // shape.global_every if convention.global_layers == "quarter" else len(geometry.global_layers)
    near = n - far
    keys_and_values = 2 * shape.head_width * (far * geometry.global_kv_heads + near * geometry.local_kv_heads)
    spans = far * shape.sequence_length + near * shape.window
    parts = {
        "routed experts": n * shape.experts_per_token * 3 * 2 * width * width,
        "latent projections": n * 2 * 2 * d * width,
        "shared experts": n * shape.num_shared * 3 * 2 * d * width,
        "router": n * 2 * d * shape.num_experts,
        "attention projections": n * 2 * 2 * d * geometry.num_heads * shape.head_width + 2 * d * keys_and_values,
        "attention": spans * geometry.num_heads * (4 * shape.head_width + 3),
    }
    return parts | ({"output head": 2 * d * shape.vocabulary_size} if convention.lm_head else {})


def forward_flops_per_token(geometry: Geometry, convention: FlopConvention) -> int:
    """Returns the forward FLOPs of one token."""
    return sum(forward_flops_by_part(geometry, convention).values())


def training_flops(geometry: Geometry, num_tokens: int, convention: FlopConvention) -> int:
    """Returns the FLOPs of training on so many tokens: forward, and twice that for the gradients."""
    return TRAINING_PASSES * forward_flops_per_token(geometry, convention) * num_tokens
