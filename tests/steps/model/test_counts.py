"""Counts against the shapes of the parameters, for any features, and against the published figures of the hero run's ladder."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steps.ladder.rule import HERO_WIDTH, RUNG_WIDTHS, rung
from steps.model.config import ModelConfig
from steps.model.counts import (
    active_parameters,
    forward_flops_per_token,
    lm_head_parameters,
    total_parameters,
    training_flops,
)
from steps.model.features import FEATURES, hero_features
from steps.model.parameters import parameter_shapes

PLAIN = ModelConfig(
    width=64,
    num_layers=6,
    num_heads=8,
    vocabulary_size=50,
    sequence_length=12,
    num_experts=4,
    expert_width=8,
    shared_width=10,
)
ALL = hero_features(width=64, num_heads=8, sequence_length=12)


def sizes(config: ModelConfig) -> dict[str, int]:
    return {path.rsplit("/", 1)[-1]: math.prod(shape) for path, shape in parameter_shapes(config).items()}


def is_active(name: str) -> bool:
    """Whether a parameter counts as one that a token meets in the blocks."""
    outside = {"token_embedding", "lm_head", "head_gate"}
    return name not in outside and not name.startswith("conv_") and "norm" not in name


@given(features=st.sets(st.sampled_from(sorted(FEATURES))), head_width=st.sampled_from([None, 4, 16]))
def test_counts_equal_array_sizes_for_any_features(features, head_width):
    plain = replace(PLAIN, attention_head_width=head_width)
    config = replace(plain, **{name: ALL.get(name, True) for feature in features for name in FEATURES[feature]})
    by_name = sizes(config)
    assert total_parameters(config) == sum(by_name.values())
    share = config.experts_per_token / config.num_experts
    assert active_parameters(config) == sum(
        size * (share if name.startswith("expert_") else 1) for name, size in by_name.items() if is_active(name)
    )


@pytest.mark.parametrize("width", [*RUNG_WIDTHS, HERO_WIDTH])
def test_counts_equal_array_sizes_on_the_ladder(width):
    config = rung(width).model
    assert total_parameters(config) == sum(sizes(config).values())


# marin-community/marin issue 8435: active and total parameters, forward FLOPs a token without the output head.
PUBLISHED = {
    768: (8, 60_555_264, 1_591_848_448, 184_393_728),
    1024: (12, 162_004_992, 3_980_116_480, 449_003_520),
    1536: (16, 481_296_384, 11_534_398_464, 1_209_434_112),
    2048: (22, 1_170_735_104, 27_742_902_528, 2_786_623_488),
    6144: (48, 22_762_487_808, 535_477_106_688, 48_336_076_800),
}


@pytest.mark.parametrize("width", PUBLISHED)
def test_counts_equal_the_published_ones(width):
    layers, active, total, flops = PUBLISHED[width]
    shape = {"width": width, "num_heads": width // 128, "sequence_length": 4096}
    config = ModelConfig(
        **shape,
        **hero_features(**shape),
        num_layers=layers,
        vocabulary_size=128_256,
        num_experts=384,
        experts_per_token=8,
        expert_width=width // 2,
        shared_width=width // 2,
    )
    assert active_parameters(config) == active
    # The published total has the router's balancing state in it, a number for each layer and expert.
    assert total_parameters(config) + layers * 384 == total == sum(sizes(config).values()) + layers * 384
    # The published FLOPs have one global layer in four, and leave out that the last one is global whatever its number.
    uncounted = sum(config.global_layers) - layers // 4
    heads, keys = config.num_heads, config.kv_heads - config.global_kv_heads
    extra = 2048 * heads * (4 * 128 + 3) - 4 * width * keys * 128
    assert forward_flops_per_token(config) - uncounted * extra == flops and uncounted == (width == 2048)


def test_flops_of_a_windowed_layer_are_those_of_its_window():
    config = replace(PLAIN, attention_window=5, global_every=4)  # layers 4 and 6 of 6 see all 12 positions
    saved = forward_flops_per_token(PLAIN) - forward_flops_per_token(config)
    assert saved == 4 * (12 - 5) * 8 * (4 * 8 + 3)


def test_training_flops_with_the_output_head():
    assert lm_head_parameters(PLAIN) == 64 * 50
    difference = training_flops(PLAIN, 10, with_lm_head=True) - training_flops(PLAIN, 10)
    assert difference == 10 * 6 * 64 * 50
