"""Parameter counts and FLOPs of a model: pure functions of its config.

Conventions, as the hero run's: *active* parameters are the large matrices that one token is multiplied by inside the blocks
(attention, router, its experts with their latent projections, the shared experts), without embedding, output head, gains,
gates and convolutions. FLOPs are two for each multiply-add of those matrices; attention counts the full span (no discount for
the causal half), a layer's own key heads, and training is three forward passes. Gates, norms and convolutions are left out.
"""

from steps.model.config import ModelConfig


def active_parameters(config: ModelConfig) -> int:
    """Returns the parameters that one token meets in the blocks (matrices only; no embedding, head, gains, gates or taps)."""
    heads = config.num_heads + config.stored_kv_heads
    return config.num_layers * (2 * config.width * heads * config.head_width + _feed_forward_matrices(config))


def _feed_forward_matrices(config: ModelConfig, experts: int | None = None) -> int:
    """Of one layer, with so many of its routed experts; None: those of one token."""
    d, routed = config.width, config.routed_width
    num_experts = config.experts_per_token if experts is None else experts
    shared = 3 * d * config.shared_width * config.num_shared_experts
    latent = 2 * d * routed if config.latent_width else 0
    return d * config.num_experts + 3 * routed * config.expert_width * num_experts + latent + shared


def lm_head_parameters(config: ModelConfig) -> int:
    """Returns the parameters of the output head."""
    return config.width * config.vocabulary_size


def total_parameters(config: ModelConfig) -> int:
    """Returns the number of trained parameters: everything in the parameter tree, gains and embedding included.

    The balancing thresholds (layers x experts) are no parameters here. The hero run's published total counts them.
    """
    d = config.width
    keys = config.stored_kv_heads * config.head_width
    attention = 2 * d * (config.num_heads * config.head_width + keys)
    gated_norm = 2 * d * (config.gated_norm_rank or 0)
    head_gates = d * config.num_heads if config.head_gates else 0
    taps = (config.convolution_taps or 0) * (keys + 2 * d)
    gains = 2 * d + (config.latent_width or 0)
    block = attention + _feed_forward_matrices(config, config.num_experts) + gains + 2 * gated_norm + head_gates + taps
    return config.num_layers * block + 2 * lm_head_parameters(config) + 2 * d + 2 * gated_norm


def forward_flops_per_token(config: ModelConfig, *, with_lm_head: bool = False) -> int:
    """Returns the forward FLOPs of one token: matrices, and attention over a layer's span.

    The attention term is span x heads x (4 x head width + 3): scores, weighted values and the softmax.
    """
    blocks = sum(_layer_flops(config, is_global) for is_global in config.global_layers)
    return blocks + (2 * lm_head_parameters(config) if with_lm_head else 0)


def _layer_flops(config: ModelConfig, is_global: bool) -> int:
    heads = config.num_heads + (config.global_kv_heads if is_global else config.kv_heads)
    matrices = 2 * config.width * heads * config.head_width + _feed_forward_matrices(config)
    return 2 * matrices + config.span(is_global=is_global) * config.num_heads * (4 * config.head_width + 3)


def training_flops(config: ModelConfig, num_tokens: int, *, with_lm_head: bool = False) -> int:
    """Returns the FLOPs of training on `num_tokens` tokens: forward, and twice that for the gradients."""
    return 3 * forward_flops_per_token(config, with_lm_head=with_lm_head) * num_tokens
