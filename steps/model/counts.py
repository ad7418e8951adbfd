"""Parameter counts and FLOPs of a model: pure functions of its config.

Conventions, as the hero run's: *active* parameters are the matrices that one token is multiplied by inside the blocks
(attention, router, its experts, the shared expert), without embedding, output head and norm gains. FLOPs are two for each
multiply-add; attention counts the full window (no discount for the causal half) and training is three forward passes.
"""

from steps.model.config import ModelConfig


def active_parameters(config: ModelConfig) -> int:
    """Returns the parameters that one token meets in the blocks (matrices only; no embedding, head or gains)."""
    d = config.width
    experts = 3 * d * config.expert_width * config.experts_per_token
    shared = 3 * d * config.shared_width
    return config.num_layers * (4 * d * d + d * config.num_experts + experts + shared)


def lm_head_parameters(config: ModelConfig) -> int:
    """Returns the parameters of the output head."""
    return config.width * config.vocabulary_size


def total_parameters(config: ModelConfig) -> int:
    """Returns the number of trained parameters: everything in the parameter tree, gains and embedding included."""
    d = config.width
    experts = 3 * d * config.expert_width * config.num_experts
    shared = 3 * d * config.shared_width
    block = 4 * d * d + d * config.num_experts + experts + shared + 2 * d
    return config.num_layers * block + 2 * lm_head_parameters(config) + 2 * d


def forward_flops_per_token(config: ModelConfig, *, with_lm_head: bool = False) -> int:
    """Returns the forward FLOPs of one token: matrices, and attention over the whole sequence.

    The attention term is span x heads x (4 x head width + 3): scores, weighted values and the softmax.
    """
    attention = config.sequence_length * config.num_heads * (4 * config.head_width + 3)
    blocks = 2 * active_parameters(config) + config.num_layers * attention
    return blocks + (2 * lm_head_parameters(config) if with_lm_head else 0)


def training_flops(config: ModelConfig, num_tokens: int, *, with_lm_head: bool = False) -> int:
    """Returns the FLOPs of training on `num_tokens` tokens: forward, and twice that for the gradients."""
    return 3 * forward_flops_per_token(config, with_lm_head=with_lm_head) * num_tokens
