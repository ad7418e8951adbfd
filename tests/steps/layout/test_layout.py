"""Layouts without devices: arithmetic by hand, sums over devices, and what the compiler really does on simulated ones."""

import json
from dataclasses import replace

import numpy as np
import pytest

from marin_exec import ConfigError
from steps.layout.compiled import collectives
from steps.layout.layout import LayoutConfig, model_layout
from steps.layout.state import state_layout
from steps.layout.traffic import layer_traffic, update_traffic
from steps.model.config import ModelConfig
from steps.model.dispatch.limits import PooledDispatch
from steps.model.dispatch.placement import placed
from steps.model.features import hero_features
from steps.recipe.hero import HERO_535B
from steps.recipe_steps.run_config import model_config, optimizer_config
from steps.train.language_model import OptimizerConfig
from tests.directory_out import DirectoryOut
from tests.steps.model.device_process import run_on_devices

GROUPS = OptimizerConfig(learning_rate=0.1, adam_learning_rate=0.02)
RUNS = {run.name: run for run in HERO_535B.runs}
TINY = ModelConfig(
    width=16,
    num_layers=2,
    num_heads=2,
    vocabulary_size=40,
    sequence_length=24,
    num_experts=8,
    expert_width=8,
    shared_width=8,
    dispatch=PooledDispatch(num_shards=4, num_groups=2),
    **hero_features(width=16, num_heads=2, sequence_length=24),
)


@pytest.fixture(scope="module")
def hero(tmp_path_factory):
    run, path = RUNS["d6144"], tmp_path_factory.mktemp("hero")
    config = LayoutConfig(
        model=model_config(run),
        optimizer=optimizer_config(run),
        batch_sequences=run.horizon.batch_sequences,
        racks=11,
        devices_per_rack=64,
    )
    return model_layout(config, DirectoryOut(path)), json.loads((path / "layout.json").read_text())


def test_hero_layout_equals_arithmetic_by_hand(hero):
    layout, page = hero
    assert layout.devices == 704 and layout.experts_per_device == 6
    assert layout.expert_parameters_per_device == 48 * 6 * 3 * 3072 * 3072
    # All parameters but the router's bias (48 x 384), which this model keeps outside of them.
    assert layout.total_parameters == 535_477_106_688 - 48 * 384
    experts = 48 * 384 * 3 * 3072 * 3072
    assert layout.parameters_per_device == layout.total_parameters - experts + experts // 64
    # A source shard has 16 sequences of 4096 tokens and 8 choices; a wave's pool of 64 x 3 takes 1.15 of its even share.
    assert layout.rows_sent_per_layer == 64 * 3 * 3141 and 3140 < 1.15 * 16 * 4096 * 8 / (64 * 3) <= 3141
    assert layout.all_to_alls_per_layer == 5
    assert layout.all_to_all_bytes_per_layer == 64 * 3 * 3141 * 4 * (4 * 3072 + 1)
    assert (
        layout.state_bytes_per_device
        == 2 * 4 * layout.parameters_per_device + page["state_bytes_per_device"]["optimizer"]
    )
    assert page["activation_bytes_per_layer"]["residual_stream"] == 16 * 4096 * 6144 * 4


def test_hero_optimizer_holds_one_momentum_for_muon_and_two_moments_for_the_rest(hero):
    layout, page = hero
    sizes = {each["path"]: each["members"] for each in page["parameters"]}
    vectors = ("norm", "router", "head_gate", "token_embedding", "lm_head")
    twice = [n for path, n in sizes.items() if path.endswith(vectors) or path.startswith("layers/conv_")]
    assert (
        sum(each["members"] for each in page["optimizer"]) == layout.total_parameters + sum(twice) + 2
    )  # two counters


@pytest.mark.parametrize(("racks", "columns"), [(1, 1), (1, 64), (2, 8), (11, 64)])
def test_parts_on_all_devices_are_the_whole(racks, columns):
    state = state_layout(model_config(RUNS["d768"]), GROUPS, racks=racks, columns=columns)
    for each in (*state.parameters, *state.optimizer):
        assert each.members_here * racks * columns == each.members * each.devices_with_the_same, each


def test_layout_of_a_run_that_does_not_fit_its_devices_is_refused(tmp_path):
    config = LayoutConfig(model=TINY, optimizer=GROUPS, batch_sequences=16, racks=2, devices_per_rack=3)
    with pytest.raises(ConfigError, match="2 groups of 4 shards over 2 x 3 devices"):
        model_layout(config, DirectoryOut(tmp_path))
    with pytest.raises(ConfigError, match="layout: the model has no dispatch"):
        replace(config, model=replace(TINY, dispatch=None))
    with pytest.raises(ConfigError, match="layout: batches of 12 sequences"):
        replace(config, batch_sequences=12)


def test_collectives_of_a_program_are_read_with_their_bytes():
    text = """
      %a = (f32[1,3]{1,0}, f32[1,3]{1,0}) all-to-all(%x, %y), channel_id=1, metadata={op_name="jit(f)/while/body/all_to_all"}
      ROOT %b = bf16[8,2]{1,0} all-gather(%z), dimensions={0}, metadata={op_name="jit(f)/g"}
      %c = s32[] all-reduce(%w), to_apply=%add
      %d = f32[4]{0} add(%b, %all-reduce.1)
    """
    found = [(each.kind, each.result_bytes, each.in_loop) for each in collectives(text)]
    assert found == [("all-to-all", 24, True), ("all-gather", 32, False), ("all-reduce", 4, False)]


COMPILED = """
    import numpy as np
    from steps.layout.compiled import loss_collectives
    from tests.steps.layout.test_layout import TINY
    found = loss_collectives(TINY, racks=2, batch_sequences=16)
    np.savez(OUT, kinds=[f.kind for f in found], sizes=[f.result_bytes for f in found], loops=[f.in_loop for f in found])
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_compiled_program_sends_what_the_rules_say_and_nothing_that_grows_with_all_tokens(tmp_path):
    run_on_devices(COMPILED, 8, OUT=str(tmp_path / "found.npz"))
    found = np.load(tmp_path / "found.npz")
    in_layers = TINY.num_layers * found["loops"] + ~found["loops"]
    placement = placed(TINY.dispatch, num_experts=8, num_tokens=16 * 24, choices=2, racks=2, columns=4)
    rules = layer_traffic(TINY, placement)
    expected = [each for each in rules if each.kind == "all-to-all"]
    sizes = [each.bytes_per_device for each in expected for _ in range(each.forward + each.backward)]
    assert sorted(found["sizes"][found["kinds"] == "all-to-all"]) == sorted(sizes)
    assert found["loops"][found["kinds"] == "all-to-all"].all()
    # Numbers of assignments of four shards, and no array of tokens.
    assert found["sizes"][found["kinds"] == "all-gather"].tolist() == [4 * 4]
    sums = (found["sizes"] * in_layers)[found["kinds"] == "all-reduce"].sum()
    state = state_layout(TINY, GROUPS, racks=2, columns=4)
    histogram = sum(each.bytes_per_device for each in rules if each.kind == "all-reduce") * TINY.num_layers
    by_rule = histogram + sum(each.total_bytes for each in update_traffic(state, racks=2, columns=4))
    assert by_rule <= sums < by_rule + 1024  # statistics of the routers
    assert set(found["kinds"]) == {"all-to-all", "all-gather", "all-reduce"}
