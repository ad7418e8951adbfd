"""The shape of the mixture-of-experts language model, as plain data: importing it loads no jax."""

from dataclasses import dataclass
from typing import Annotated

from marin_exec import ConfigError, added_default
from steps.config_checks import check_choice, check_number
from steps.model.dispatch.limits import PooledDispatch

ROTARY = ("full", "half")
BALANCING = ("topk", "histogram", "none")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A decoder-only transformer whose feed-forward layers are routed experts beside shared ones.

    The fields that were added later are off by default, and do not count for a model without them. `steps.model.features`
    turns all of them on.
    """

    width: int
    """Features of the residual stream."""
    num_layers: int
    """Transformer blocks; every one has an expert layer."""
    num_heads: int
    """Attention (query) heads."""
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
    """Hidden features of each shared expert that every token passes (SwiGLU)."""
    capacity_factor: float = 1.25
    """Rows an expert takes in training, as a multiple of the even share; what is above it is dropped. Evaluation drops none.
    Counts where there is no `dispatch`."""
    dispatch: Annotated[PooledDispatch | None, added_default(None)] = None
    """How rows travel to their experts in training, and what is dropped on the way. None: straight, up to `capacity_factor`."""
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

    latent_width: Annotated[int | None, added_default(None)] = None
    """Width that the routed experts work in, between a shared down- and up-projection; None: the residual stream's."""
    num_shared_experts: Annotated[int, added_default(1)] = 1
    """Shared experts, each of `shared_width`; their outputs are added."""
    attention_head_width: Annotated[int | None, added_default(None)] = None
    """Features of one attention head; None: `width / num_heads`."""
    num_kv_heads: Annotated[int | None, added_default(None)] = None
    """Key and value heads of a layer, each read by as many query heads; None: one for each query head."""
    num_global_kv_heads: Annotated[int | None, added_default(None)] = None
    """Key and value heads of a global layer; None: `num_kv_heads`. The larger number is stored, a layer reads the first ones."""
    attention_window: Annotated[int | None, added_default(None)] = None
    """Positions that a local layer attends to, its own included; None: all up to its own. Global layers have no window."""
    global_every: Annotated[int | None, added_default(None)] = None
    """Every so many layers one is global, and the last one always; None: no layer is."""
    rotary: Annotated[str, added_default("full")] = "full"
    """"full": feature i of a head rotates with feature i + half; "half": the head's first half rotates, in neighbouring
    pairs, and the other half holds no position."""
    rotary_on_global: Annotated[bool, added_default(False)] = False
    """Whether queries and keys rotate on global layers too; without it these layers know no positions."""
    gated_norm_rank: Annotated[int | None, added_default(None)] = None
    """Rank of the gate behind each norm of the residual stream; None: no gates."""
    exclusive_attention: Annotated[bool, added_default(False)] = False
    """Takes from each head's output the part that is parallel to the position's own value vector (XSA)."""
    head_gates: Annotated[bool, added_default(False)] = False
    """Scales each head's output by 2 sigmoid of a projection of the block's input."""
    convolution_taps: Annotated[int | None, added_default(None)] = None
    """Taps of the causal depthwise convolutions over keys and over both branches' outputs; None: no convolutions."""
    balancing: Annotated[str, added_default("topk")] = "topk"
    """Estimate of the router's balancing thresholds: "topk" (the rank itself, averaged over batch shards), "histogram" (of
    the whole batch, the same bits for any number of devices), or "none" (no balancing)."""

    def __post_init__(self) -> None:
        check_number(self, *_COUNTS, low=1)
        check_choice(self, "rotary", ROTARY)
        check_choice(self, "balancing", BALANCING)
        self._check_heads()
        if not 1 <= self.experts_per_token < self.num_experts:
            raise ConfigError(
                f"model: experts_per_token is {self.experts_per_token} of num_experts {self.num_experts}; "
                f"1 to {self.num_experts - 1} is allowed (the next-best expert sets the balancing threshold)"
            )
        if self.capacity_factor <= 0:
            raise ConfigError(
                f"model: capacity_factor is {self.capacity_factor}; a number above 0 is needed, e.g. 1.25"
            )
        if self.dispatch is not None and self.num_experts % self.dispatch.num_shards:
            raise ConfigError(
                f"model: num_experts is {self.num_experts}, dispatch.num_shards {self.dispatch.num_shards}; the shards must "
                "divide the experts"
            )

    def _check_heads(self) -> None:
        pairs = 4 if self.rotary == "half" else 2
        if (self.attention_head_width is None and self.width % self.num_heads) or self.head_width % pairs:
            raise ConfigError(
                f"model: width {self.width} over {self.num_heads} heads of {self.head_width} features; the head width must be "
                f'a whole even number, a multiple of 4 with rotary="half". Choose num_heads = width / 16, for example, or set '
                "attention_head_width"
            )
        for name, heads in (("num_kv_heads", self.kv_heads), ("num_global_kv_heads", self.global_kv_heads)):
            if self.num_heads % heads:
                raise ConfigError(
                    f"model: {name} is {heads} for num_heads {self.num_heads}; a divisor of it is needed, so that each key and "
                    "value head is read by as many query heads"
                )

    @property
    def head_width(self) -> int:
        """Features of one attention head."""
        return self.attention_head_width or self.width // self.num_heads

    @property
    def kv_heads(self) -> int:
        """Key and value heads of a local layer."""
        return self.num_kv_heads or self.num_heads

    @property
    def global_kv_heads(self) -> int:
        """Key and value heads of a global layer."""
        return self.num_global_kv_heads or self.kv_heads

    @property
    def stored_kv_heads(self) -> int:
        """Key and value heads that every layer has parameters for."""
        return max(self.kv_heads, self.global_kv_heads) if any(self.global_layers) else self.kv_heads

    @property
    def routed_width(self) -> int:
        """Features that the routed experts read and write."""
        return self.latent_width or self.width

    @property
    def global_layers(self) -> tuple[bool, ...]:
        """Whether each layer is global: it attends to all earlier positions of the document."""
        every = self.global_every
        if every is None:
            return (False,) * self.num_layers
        return tuple((i + 1) % every == 0 or i + 1 == self.num_layers for i in range(self.num_layers))

    def span(self, *, is_global: bool) -> int:
        """Returns to how many positions, at most, a layer of that sort attends."""
        window = None if is_global else self.attention_window
        return self.sequence_length if window is None else min(window, self.sequence_length)

    def capacity(self, num_tokens: int) -> int | PooledDispatch:
        """Returns what limits a training batch of `num_tokens` tokens: the rows one expert takes of it, or the dispatch."""
        if self.dispatch is not None:
            return self.dispatch
        share = self.capacity_factor * num_tokens * self.experts_per_token / self.num_experts
        return max(1, min(num_tokens, round(share)))


_COUNTS = (
    "width",
    "num_layers",
    "num_heads",
    "vocabulary_size",
    "sequence_length",
    "expert_width",
    "shared_width",
    "latent_width",
    "num_shared_experts",
    "attention_head_width",
    "num_kv_heads",
    "num_global_kv_heads",
    "attention_window",
    "global_every",
    "gated_norm_rank",
    "convolution_taps",
)
