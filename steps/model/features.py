"""The features of the hero run that the plain mixture of experts lacks, by name: how to have all of them, or all but one.

Where they are from: marin-community/marin issue 8435 and the papers named in docs/model.md. Pure data: importing this loads no jax.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from marin_exec import ConfigError
from steps.model.config import ModelConfig

FEATURES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "latent experts": {"latent_width": None},
        "second shared expert": {"num_shared_experts": 1},
        "grouped key heads": {"num_kv_heads": None, "num_global_kv_heads": None},
        "sliding window": {"attention_window": None},
        "global layers": {"global_every": None},
        "positionless global layers": {"rotary_on_global": True},
        "half rotation": {"rotary": "full"},
        "gated norms": {"gated_norm_rank": None},
        "exclusive attention": {"exclusive_attention": False},
        "head gates": {"head_gates": False},
        "short convolutions": {"convolution_taps": None},
        "histogram balancing": {"balancing": "topk"},
    }
)
"""Each feature's fields, with the values that leave it out of a model that has all."""


def hero_features(
    *,
    width: int,
    num_heads: int,
    sequence_length: int,
    head_width: int | None = None,
    gated_norm_rank: int | None = None,
) -> dict[str, Any]:
    """Returns the fields of `ModelConfig` that turn all features on, in the proportions of the hero run.

    These are: latent width = width / 2, two shared experts, a key head for 4 query heads on local layers and for 8 on global
    ones, a window of half the sequence, every fourth layer and the last one global.

    Args:
        width: features of the residual stream.
        num_heads: query heads; where 4 or 8 do not divide them, the key heads are the next smaller divisor.
        sequence_length: in tokens.
        head_width: features of a head; None is width / num_heads.
        gated_norm_rank: None is the head width, which is 128 in the hero run as its rank is.
    """
    return {
        "latent_width": width // 2,
        "num_shared_experts": 2,
        "attention_head_width": head_width,
        "num_kv_heads": _divisor(num_heads, num_heads // 4),
        "num_global_kv_heads": _divisor(num_heads, num_heads // 8),
        "attention_window": sequence_length // 2,
        "global_every": 4,
        "rotary": "half",
        "gated_norm_rank": gated_norm_rank or head_width or width // num_heads,
        "exclusive_attention": True,
        "head_gates": True,
        "convolution_taps": 4,
        "balancing": "histogram",
    }


def _divisor(number: int, at_most: int) -> int:
    return next((each for each in range(at_most, 0, -1) if number % each == 0), 1)


def without(config: ModelConfig, feature: str) -> ModelConfig:
    """Returns the model with one of `FEATURES` left out.

    Raises:
        ConfigError: there is no feature of that name.
    """
    if feature not in FEATURES:
        raise ConfigError(f"model: {feature!r} is no feature; one of {', '.join(map(repr, FEATURES))} is needed")
    return replace(config, **FEATURES[feature])
