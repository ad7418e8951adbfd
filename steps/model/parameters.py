"""The parameters: their paths, shapes and first values, as a plain tree of NumPy arrays. No jax is needed to know them.

Names say what a parameter is: gains end in `_norm`, taps begin with `conv_`, all else are matrices (and the router, the head
gates and the embedding, which are matrices too).

Shape letters: D width, H heads, G stored key heads, h head width, L layers, E experts, l latent width, r rank, V vocabulary.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from steps.model.config import ModelConfig

Parameters = dict[str, Any]


def parameter_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Returns the shape of every parameter by its path; layers are stacked along the first axis. Gains are named *_norm."""
    d, n = config.width, config.num_layers
    layers = _attention_shapes(config) | _feed_forward_shapes(config)
    return {
        "token_embedding": (config.vocabulary_size, d),
        "embedding_norm": (d,),
        **_gate_shapes("embedding", config),
        **{f"layers/{name}": (n, *shape) for name, shape in layers.items()},
        "final_norm": (d,),
        **_gate_shapes("final", config),
        "lm_head": (d, config.vocabulary_size),
    }


def _attention_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    d = config.width
    query, key = config.num_heads * config.head_width, config.stored_kv_heads * config.head_width
    shapes: dict[str, tuple[int, ...]] = {
        "attention_norm": (d,),
        **_gate_shapes("attention", config),
        "w_q": (d, query),
        "w_k": (d, key),
        "w_v": (d, key),
        "w_o": (query, d),
    }
    if config.head_gates:
        shapes["head_gate"] = (d, config.num_heads)
    if config.convolution_taps:
        shapes |= {"conv_k": (config.convolution_taps, key), "conv_attention": (config.convolution_taps, d)}
    return shapes


def _feed_forward_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    d, e, routed, hidden = config.width, config.num_experts, config.routed_width, config.expert_width
    shared = (config.num_shared_experts,) if config.num_shared_experts > 1 else ()
    shapes: dict[str, tuple[int, ...]] = {
        "mlp_norm": (d,),
        **_gate_shapes("mlp", config),
        "router": (d, e),
        "expert_gate": (e, routed, hidden),
        "expert_up": (e, routed, hidden),
        "expert_down": (e, hidden, routed),
        "shared_gate": (*shared, d, config.shared_width),
        "shared_up": (*shared, d, config.shared_width),
        "shared_down": (*shared, config.shared_width, d),
    }
    if config.latent_width:
        shapes |= {"latent_down": (d, routed), "latent_norm": (routed,), "latent_up": (routed, d)}
    if config.convolution_taps:
        shapes["conv_mlp"] = (config.convolution_taps, d)
    return shapes


def _gate_shapes(site: str, config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Of the gate behind the norm at a site of the residual stream."""
    rank = config.gated_norm_rank
    if not rank:
        return {}
    return {f"{site}_gated_norm_down": (config.width, rank), f"{site}_gated_norm_up": (rank, config.width)}


def parameter_tree(by_path: Mapping[str, Any]) -> Parameters:
    """Returns values given by path as the tree that the forward pass takes."""
    tree: Parameters = {name: value for name, value in by_path.items() if "/" not in name}
    layers = {name.removeprefix("layers/"): value for name, value in by_path.items() if "/" in name}
    return tree | {"layers": layers}


def initial_parameters(config: ModelConfig, seed: int) -> Parameters:
    """Returns fresh f32 parameters as NumPy arrays: the bits depend on nothing but the arguments.

    Gains are one, head gates zero (a factor of one), and convolutions pass on their own position. Matrices are normals cut at
    3 deviations, each array from its own stream, keyed by its path: one more parameter changes no other's values.
    """
    deviation = config.initial_scale / config.width**0.5
    values = {}
    for name, shape in parameter_shapes(config).items():
        leaf = name.rsplit("/", 1)[-1]
        if leaf.endswith("_norm"):
            values[name] = np.ones(shape, np.float32)
        elif leaf == "head_gate":
            values[name] = np.zeros(shape, np.float32)
        elif leaf.startswith("conv_"):
            values[name] = np.zeros(shape, np.float32)
            values[name][..., 0, :] = 1  # the tap of the position itself
        else:
            random = np.random.default_rng([seed, zlib.crc32(name.encode())])
            values[name] = (deviation * _cut_normal(random, shape)).astype(np.float32)
    return parameter_tree(values)


def _cut_normal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normals; what lies beyond 3 deviations is drawn again."""
    values = random.standard_normal(shape)
    while (beyond := np.abs(values) > 3).any():
        values[beyond] = random.standard_normal(int(beyond.sum()))
    return values
