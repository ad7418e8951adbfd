"""Parameter and FLOP counts against tables written by hand and against the published closed formulas."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steps.recipe.flops import EVERY_LAYER, forward_flops_by_part, forward_flops_per_token
from steps.recipe.geometry import Geometry
from steps.recipe.hero import HERO_535B
from steps.recipe.parameters import active_parameters, group_sizes, leaves, total_parameters

SHAPE = HERO_535B.shape

# Rung d2048, from the description of the model: 22 layers, 16 heads of 128, 4 stored key-value heads, 384 experts of 1,024.
D2048 = {
    "token_embedding": (128_256, 2048),
    "embedding_norm": (2048,),
    "embedding_gated_norm_down": (2048, 128),
    "embedding_gated_norm_up": (128, 2048),
    "layers/attention_norm": (22, 2048),
    "layers/attention_gated_norm_down": (22, 2048, 128),
    "layers/attention_gated_norm_up": (22, 128, 2048),
    "layers/w_q": (22, 2048, 2048),
    "layers/w_k": (22, 2048, 512),
    "layers/w_v": (22, 2048, 512),
    "layers/w_o": (22, 2048, 2048),
    "layers/conv_k": (22, 4, 512),
    "layers/head_gate": (22, 2048, 16),
    "layers/conv_attention": (22, 4, 2048),
    "layers/mlp_norm": (22, 2048),
    "layers/mlp_gated_norm_down": (22, 2048, 128),
    "layers/mlp_gated_norm_up": (22, 128, 2048),
    "layers/router": (22, 2048, 384),
    "layers/router_bias": (22, 384),
    "layers/latent_down": (22, 2048, 1024),
    "layers/latent_norm": (22, 1024),
    "layers/latent_up": (22, 1024, 2048),
    "layers/expert_gate": (22, 384, 1024, 1024),
    "layers/expert_up": (22, 384, 1024, 1024),
    "layers/expert_down": (22, 384, 1024, 1024),
    "layers/shared_gate": (22, 2, 2048, 1024),
    "layers/shared_up": (22, 2, 2048, 1024),
    "layers/shared_down": (22, 2, 1024, 2048),
    "layers/conv_mlp": (22, 4, 2048),
    "final_norm": (2048,),
    "final_gated_norm_down": (2048, 128),
    "final_gated_norm_up": (128, 2048),
    "lm_head": (2048, 128_256),
}
ADAM = {"token_embedding", "router", "head_gate", "conv_k", "conv_attention", "conv_mlp"}


def geometries():
    widths = st.integers(1, 64).map(lambda heads: 128 * heads)
    return st.builds(
        lambda width, layers: Geometry(shape=SHAPE, width=width, num_layers=layers), widths, st.integers(1, 60)
    )


def test_leaves_of_one_rung_are_those_written_by_hand():
    found = leaves(Geometry(shape=SHAPE, width=2048, num_layers=22))
    assert {leaf.path: leaf.shape for leaf in found} == D2048
    assert len({leaf.path for leaf in found}) == len(found)


def test_leaves_groups_follow_the_optimisers_rule():
    for leaf in leaves(Geometry(shape=SHAPE, width=2048, num_layers=22)):
        last = leaf.path.rsplit("/", 1)[-1]
        expected = "adam_h" if last == "lm_head" else "state" if last == "router_bias" else "muon_h"
        assert leaf.group == ("adam" if last in ADAM or last.endswith("_norm") else expected), leaf.path


@given(geometries())
@settings(max_examples=60)
def test_counts_agree_with_the_published_closed_formulas(geometry):
    d, layers, heads, kv = geometry.width, geometry.num_layers, geometry.num_heads, geometry.stored_kv_heads
    h, e, k, v, i = 128, 384, 8, 128_256, d // 2
    block = 2 * d * heads * h + 2 * d * kv * h + d * e + 2 * d * i + 2 * 3 * d * i
    assert active_parameters(geometry) == layers * (block + k * 3 * i * i)
    rest = d * heads + 4 * (kv * h + 2 * d) + e + i + 2 * d + 4 * d * 128
    assert total_parameters(geometry) == layers * (block + e * 3 * i * i + rest) + 2 * v * d + 2 * d + 4 * d * 128
    assert sum(group_sizes(geometry).values()) == total_parameters(geometry)


@given(geometries())
@settings(max_examples=60)
def test_flops_are_twice_the_active_parameters_but_for_key_values_of_global_layers_and_attention(geometry):
    """Global layers use fewer key-value heads than they have parameters for."""
    d, every = geometry.width, range(geometry.num_layers)
    far = [layer for layer in every if (layer + 1) % 4 == 0 or layer == geometry.num_layers - 1]
    unused = len(far) * 2 * d * 128 * (geometry.stored_kv_heads - geometry.global_kv_heads)
    scores = sum((4096 if layer in far else 2048) * geometry.num_heads * (4 * 128 + 3) for layer in every)
    expected = 2 * (active_parameters(geometry) - unused) + scores + 2 * d * 128_256
    assert forward_flops_per_token(geometry, EVERY_LAYER) == expected
    assert all(value > 0 for value in forward_flops_by_part(geometry, EVERY_LAYER).values())


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 30), st.integers(0, 30))
@settings(max_examples=60)
def test_counts_rise_with_width_and_depth(heads, more_heads, layers, more_layers):
    small = Geometry(shape=SHAPE, width=128 * heads, num_layers=layers)
    large = Geometry(shape=SHAPE, width=128 * (heads + more_heads), num_layers=layers + more_layers)
    for count in (active_parameters, total_parameters, lambda each: forward_flops_per_token(each, EVERY_LAYER)):
        assert count(small) < count(large)


@pytest.mark.parametrize(
    ("width", "layers", "message"),
    [(100, 2, "multiple of the head width 128"), (0, 2, "positive"), (128, 0, "at least 1")],
)
def test_geometry_that_cannot_be_is_refused(width, layers, message):
    with pytest.raises(ValueError, match=message):
        Geometry(shape=SHAPE, width=width, num_layers=layers)
