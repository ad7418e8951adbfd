"""The shape of a run from its width: heads, key-value heads, expert widths, depth, and which layers see everything.

Source of the rules: Marin's 535B-A23B run and its ladder (issue 8435 of marin-community/marin, and the launcher and model under
experiments/grug/moe_hero_ep of that repository).
"""

import math
from dataclasses import dataclass, fields

from steps.recipe.checks import check_at_least


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What all runs of a recipe have in common, whatever their width."""

    vocabulary_size: int
    """Rows of the token embedding, columns of the untied output head."""
    sequence_length: int
    """Tokens of a training sequence, and the span of a global layer."""
    window: int
    """Span of a local layer, tokens."""
    global_every: int
    """Every so many layers, and the last, attention sees the whole sequence and has no positions."""
    head_width: int
    """Features of an attention head; the width is a multiple of it."""
    local_group: int
    """Query heads to a key-value head in local layers."""
    global_group: int
    """Query heads to a key-value head in global layers."""
    num_experts: int
    """Routed experts of a layer."""
    experts_per_token: int
    """Routed experts that a token is sent to."""
    num_shared: int
    """Experts that every token passes."""
    width_per_expert: int
    """The width over this is the width of the latent space, of a routed and of a shared expert."""
    gated_norm_rank: int
    """Inner width of a gated norm."""
    convolution_taps: int
    """Positions that a short convolution sees."""

    def __post_init__(self) -> None:
        check_at_least(self, 1, *(each.name for each in fields(self)))


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """The shape of one run.

    Raises:
        ValueError: the width does not divide into heads and experts, or a count is below 1.
    """

    shape: Shape
    width: int
    """Features of the residual stream."""
    num_layers: int

    def __post_init__(self) -> None:
        shape = self.shape
        if self.width < 1 or self.width % shape.head_width or self.width % shape.width_per_expert:
            raise ValueError(
                f"geometry: width {self.width}; a positive multiple of the head width {shape.head_width} and of "
                f"{shape.width_per_expert} (width over expert width) is needed"
            )
        if self.num_layers < 1:
            raise ValueError(f"geometry: num_layers {self.num_layers}; at least 1 is needed")
        if not 1 <= shape.experts_per_token < shape.num_experts:
            raise ValueError(
                f"geometry: experts_per_token {shape.experts_per_token} of num_experts {shape.num_experts}; 1 to "
                f"{shape.num_experts - 1} is allowed (the next-best expert sets the balancing threshold)"
            )

    @property
    def num_heads(self) -> int:
        """Query heads."""
        return self.width // self.shape.head_width

    @property
    def local_kv_heads(self) -> int:
        """Key-value heads that local layers use."""
        return max(1, self.num_heads // self.shape.local_group)

    @property
    def global_kv_heads(self) -> int:
        """Key-value heads that global layers use: the first ones of those stored."""
        return max(1, self.num_heads // self.shape.global_group)

    @property
    def stored_kv_heads(self) -> int:
        """Key-value heads that every layer has parameters for, so that layers can be stacked."""
        return max(self.local_kv_heads, self.global_kv_heads)

    @property
    def expert_width(self) -> int:
        """Hidden features of an expert, and features of the latent space: latent = routed = shared."""
        return self.width // self.shape.width_per_expert

    @property
    def global_layers(self) -> tuple[int, ...]:
        """Numbers of the layers that see the whole sequence, counted from 0."""
        every, last = self.shape.global_every, self.num_layers - 1
        return tuple(layer for layer in range(self.num_layers) if layer % every == every - 1 or layer == last)


def ladder_depth(width: int) -> int:
    """Returns the layers that the ladder gives a width: d / (64 + 4 log2 d - 9), rounded, then up to an even number.

    It gives the depth of each published rung (d768 to d2048, and d1280 of the ablations). The 535B run does not follow it:
    48 layers where it gives 58.
    """
    if width < 1:
        raise ValueError(f"depth: width {width}; a positive number is needed")
    layers = round(width / (64 + 4 * math.log2(width) - 9))
    return max(2, layers + layers % 2)
