"""About how many bytes of activations one device holds in one layer, by a stated rule; f32, as the program computes.

The rule counts arrays that grow with tokens, each once: what is kept for each layer if layers are computed again in the backward
pass (the residual stream), and the largest arrays inside the one layer at work. A compiler may fuse some away.
"""

from steps.model.config import ModelConfig
from steps.model.dispatch.placement import Placement

_BYTES = 4


def activation_bytes(model: ModelConfig, placement: Placement) -> dict[str, int]:
    """Returns bytes per device and layer, by what they are.

    `residual_stream`: tokens x width. `pools`: rows sent, got, and both on the way back, in the experts' width. `experts`: rows of
    this device's experts, with both halves of their hidden features. `choices`: rows by token and choice.
    `attention_scores`: heads x span of a global layer, which the reference attention holds whole.
    """
    tokens = placement.shards_here * placement.tokens_per_shard
    rows = placement.send_rows * model.routed_width
    members = {
        "residual_stream": tokens * model.width,
        "pools": 4 * rows,
        "experts": placement.rows_of_experts * 2 * (model.routed_width + model.expert_width),
        "choices": tokens * placement.choices * model.routed_width,
        "attention_scores": tokens * model.num_heads * model.sequence_length,
    }
    return {name: _BYTES * number for name, number in members.items()}
