"""The model's assembly: the forward pass over a plain tree of parameters (`steps.model.parameters`), layers scanned.

Blocks are attention (`steps.model.attention`) and routed experts (`steps.model.feed_forward`), each behind a norm and added to the
residual stream. A layer's sort, local or global, is data of the scan: one block is compiled.

Shape letters: B sequences, S positions, D width, L layers, E experts, V vocabulary, T = B x S tokens.
"""

import jax
import jax.numpy as jnp

from steps.model.attention import attend, convolved, sight
from steps.model.config import ModelConfig
from steps.model.dispatch.limits import PooledDispatch
from steps.model.feed_forward import RouterStatistics, feed_forward
from steps.model.mesh import constrained, on_own_rows, over_devices
from steps.model.norms import stream_norm
from steps.model.parameters import Parameters


def router_bias(qb_betas_LE: jax.Array) -> jax.Array:
    """Returns the selection bias that pending quantile thresholds stand for: their negative, centred over experts."""
    return jnp.mean(qb_betas_LE, axis=-1, keepdims=True) - qb_betas_LE


def hidden_states(
    parameters: Parameters,
    qb_betas_LE: jax.Array,
    tokens_BS: jax.Array,
    segment_ids_BS: jax.Array,
    config: ModelConfig,
    *,
    capacity: int | PooledDispatch | None,
) -> tuple[jax.Array, RouterStatistics]:
    """Returns the final normed states f32[B, S, D] and what the routers did. Must run under `jax.set_mesh(device_mesh())`.

    Args:
        parameters: as `initial_parameters` makes them.
        qb_betas_LE: pending quantile-balancing thresholds; zeros for none.
        tokens_BS: i32 input tokens.
        segment_ids_BS: i32 document of each position within its row; a negative number is padding. Attention and
            convolutions stay within a document; padding is not routed.
        config: the shape.
        capacity: rows an expert takes of this batch, the dispatch that limits it, or None to drop nothing (evaluation).
    """
    tokens_BS, segment_ids_BS = (constrained(each, over_devices(each.shape[0])) for each in (tokens_BS, segment_ids_BS))
    seen = sight(segment_ids_BS, config)
    valid_T = (segment_ids_BS >= 0).reshape(-1)

    def block(x_BSD: jax.Array, each: tuple[Parameters, jax.Array, jax.Array]) -> tuple[jax.Array, RouterStatistics]:
        layer, bias_E, is_global = each
        x_BSD = x_BSD + attend(layer, stream_norm(layer, "attention", x_BSD, config), seen, is_global, config)
        normed = stream_norm(layer, "mlp", x_BSD, config)
        fed_TD, stats = feed_forward(layer, normed.reshape(-1, config.width), valid_T, bias_E, config, capacity)
        return x_BSD + convolved(layer, "conv_mlp", fed_TD.reshape(x_BSD.shape), seen), stats

    embedded_BSD = on_own_rows(lambda table, tokens: table[tokens], parameters["token_embedding"], tokens_BS)
    x_BSD = stream_norm(parameters, "embedding", embedded_BSD, config)
    is_global_L = jnp.asarray(config.global_layers)
    x_BSD, stats = jax.lax.scan(block, x_BSD, (parameters["layers"], router_bias(qb_betas_LE), is_global_L))
    return stream_norm(parameters, "final", x_BSD, config), stats


def token_losses(parameters: Parameters, hidden_BSD: jax.Array, targets_BS: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns each target's cross-entropy in nats and the logsumexp of its logits, both f32[B, S]."""
    logits_BSV = hidden_BSD @ parameters["lm_head"]
    log_z_BS = jax.nn.logsumexp(logits_BSV, axis=-1)
    return log_z_BS - jnp.take_along_axis(logits_BSV, targets_BS[..., None], axis=-1)[..., 0], log_z_BS
