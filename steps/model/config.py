"""The shape of the mixture-of-experts language model, as plain data: importing it loads no jax."""

from dataclasses import dataclass

from marin_exec import ConfigError


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A decoder-only transformer whose feed-forward layers are routed experts beside one shared expert."""

    width: int
    """Features of the residual stream."""
    num_layers: int
    """Transformer blocks; every one has an expert layer."""
    num_heads: int
    """Attention heads; the head width is `width / num_heads` and must be even (rotary pairs)."""
    vocabulary_size: int
    """Rows of the token embedding and columns of the untied output head."""
    sequence_length: int
    """Positions that are predicted at once; a batch row holds one token more."""
    num_experts: int = 16
    """Routed experts in each layer."""
    experts_per_token: int = 2
    """Routed experts that one token is sent to."""
    expert_width: int
    """Hidden features of one routed expert (SwiGLU)."""
    shared_width: int
    """Hidden features of the shared expert that every token passes (SwiGLU)."""
    capacity_factor: float = 1.25
    """Rows an expert takes in training, as a multiple of the even share; what is above it is dropped. Evaluation drops none."""
    routing_sum: float = 2.5
    """What a token's combine weights add up to."""
    qk_scale: float = 1.3
    """Factor on the normalised queries."""
    rope_theta: float = 10_000.0
    """Base of the rotary position embedding."""
    norm_epsilon: float = 1e-5
    """Added to the mean square in every gained RMS norm."""
    initial_scale: float = 0.5
    """Matrices start as normals cut at 3 deviations, of deviation `initial_scale / sqrt(width)`."""

    def __post_init__(self) -> None:
        if self.width % self.num_heads or (self.width // self.num_heads) % 2:
            raise ConfigError(
                f"model: width {self.width} over {self.num_heads} heads; the head width must be a whole even number. "
                "Choose num_heads = width / 16, for example"
            )
        if not 1 <= self.experts_per_token < self.num_experts:
            raise ConfigError(
                f"model: experts_per_token is {self.experts_per_token} of num_experts {self.num_experts}; "
                f"1 to {self.num_experts - 1} is allowed (the next-best expert sets the balancing threshold)"
            )
        if self.capacity_factor <= 0:
            raise ConfigError(
                f"model: capacity_factor is {self.capacity_factor}; a number above 0 is needed, e.g. 1.25"
            )

    @property
    def head_width(self) -> int:
        """Features of one attention head."""
        return self.width // self.num_heads

    def capacity(self, num_tokens: int) -> int:
        """Returns the rows one expert takes from a training batch of `num_tokens` tokens."""
        share = self.capacity_factor * num_tokens * self.experts_per_token / self.num_experts
        return max(1, min(num_tokens, round(share)))
