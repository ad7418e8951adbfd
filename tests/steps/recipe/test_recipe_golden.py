"""The figures of the 535B run and its ladder, to the last digit published (issue 8435 of marin-community/marin)."""

import pytest

from steps.recipe.flops import EVERY_LAYER, PUBLISHED, PUBLISHED_WITH_HEAD, forward_flops_per_token
from steps.recipe.geometry import ladder_depth
from steps.recipe.hero import HERO_535B
from steps.recipe.parameters import total_parameters

RUNS = {run.name: run for run in HERO_535B.runs}
NAMES = ("d768", "d1024", "d1536", "d2048", "d6144")


def column(*values):
    return pytest.mark.parametrize(("name", "expected"), list(zip(NAMES, values, strict=True)))


@column((8, 6, 1, 1), (12, 8, 2, 1), (16, 12, 3, 1), (22, 16, 4, 2), (48, 48, 12, 6))
def test_golden_geometry(name, expected):
    geometry = RUNS[name].geometry
    assert (geometry.num_layers, geometry.num_heads, geometry.local_kv_heads, geometry.global_kv_heads) == expected


@column(60_555_264, 162_004_992, 481_296_384, 1_170_735_104, 22_762_487_808)
def test_golden_active_parameters(name, expected):
    assert RUNS[name].active_parameters == expected


@column(1_591_848_448, 3_980_116_480, 11_534_398_464, 27_742_902_528, 535_477_106_688)
def test_golden_total_parameters(name, expected):
    assert RUNS[name].total_parameters == expected


def test_golden_total_without_gated_norms_is_what_535_billion_3_stands_for():
    total = total_parameters(RUNS["d6144"].geometry, gated_norms=False)
    assert total == 535_322_966_016
    assert f"{total / 1e9:.1f}" == "535.3" and f"{RUNS['d6144'].total_parameters / 1e9:.1f}" == "535.5"


@column((11_420, 4_194_304), (15_276, 8_388_608), (15_128, 25_165_824), (20_072, 46_137_344), (390_251, 46_137_344))
def test_golden_steps_and_tokens_a_step(name, expected):
    horizon = RUNS[name].horizon
    assert (horizon.num_steps, horizon.tokens_per_step) == expected


@column(184_393_728, 449_003_520, 1_209_434_112, 2_786_623_488, 48_336_076_800)
def test_golden_forward_flops_in_the_published_convention(name, expected):
    assert forward_flops_per_token(RUNS[name].geometry, PUBLISHED) == expected


@column(
    2.649679880270119e19, 1.7261182741798453e20, 1.3813258500033133e21, 7.741814947656449e21, 2.6108941613772703e24
)  # fmt: skip
def test_golden_compute_of_the_scaling_fit(name, expected):
    assert float(RUNS[name].flops(PUBLISHED)) == expected


@column("5.481e+19", "2.736e+20", "1.831e+21", "9.201e+21", "2.696e+24")
def test_golden_training_flops_with_output_head(name, expected):
    assert f"{RUNS[name].flops(PUBLISHED_WITH_HEAD):.3e}" == expected


def test_golden_last_layer_is_counted_as_global_only_in_our_own_convention():
    """The quirk of the published convention: 5 of d2048's 6 global layers; elsewhere L is a multiple of 4."""
    assert {name: len(run.geometry.global_layers) for name, run in RUNS.items()} == {
        "d768": 2, "d1024": 3, "d1536": 4, "d2048": 6, "d6144": 12,
    }  # fmt: skip
    for name, run in RUNS.items():
        extra = run.flops(EVERY_LAYER) - run.flops(PUBLISHED_WITH_HEAD)
        # One layer sees 2,048 tokens more in each of 16 heads, and has two key-value heads fewer than a local one.
        more = 2048 * 16 * (4 * 128 + 3) - 2 * 2048 * 128 * 2 * 2
        assert extra == (3 * more * run.horizon.tokens if name == "d2048" else 0)


@column(
    ("0.003651", "0.01582", "1.034e-15", "0.9685", 114),
    ("0.003326", "0.01441", "1.196e-15", "0.95", 152),
    ("0.003436", "0.01489", "1.19e-15", "0.95", 151),
    ("0.003097", "0.01342", "1.371e-15", "0.95", 200),
    ("0.0007593", "0.00329", "6.045e-15", "0.95", 3902),
)
def test_golden_rates_epsilon_beta2_and_warmup(name, expected):
    rates = RUNS[name].rates
    printed = tuple(f"{value:.4g}" for value in (rates.adam, rates.hyperball, rates.epsilon, rates.beta2))
    assert (*printed, rates.warmup_steps) == expected


def test_golden_rate_at_the_published_steps():
    """Step 10 is published as 8.4327e-6, which is 8.43278e-6 with its digits cut, not rounded."""
    rates = RUNS["d6144"].rates
    assert f"{rates.hyperball_at(58_020):.7f}" == "0.0028526"
    assert f"{rates.hyperball_at(10):.6g}" == "8.43278e-06"
    assert rates.hyperball_at(0) == 0 and rates.hyperball_at(3902) == rates.hyperball
    assert rates.hyperball_at(390_251) == pytest.approx(0.05 * rates.hyperball, rel=1e-12)


def test_golden_weight_decay_of_gates_and_router():
    decay = HERO_535B.target.decay
    assert f"{0.02 * (1 - 54_000 / 390_251):.4f}" == "0.0172"  # published for step 54,000
    assert decay.at(58_013, 390_251) == 0 and decay.at(390_251, 390_251) == 0
    assert decay.at(58_014, 390_251) == pytest.approx(0.02 * 332_237 / 390_251)


@column(9_120, 12_216, 12_096, 16_032, 312_192)
def test_golden_cooldown_begins_at_the_published_step(name, expected):
    assert {stage.name: stage.start_step for stage in RUNS[name].stages}["cooldown"] == expected


@pytest.mark.parametrize(("length", "batch", "mixture", "cooldown"), [
    (4_096, 11_264, 108_000, 312_192), (16_384, 2_816, 108_096, 312_192), (65_536, 704, 108_288, 311_808),
])  # fmt: skip
def test_golden_stages_of_the_large_run_move_with_its_batch(length, batch, mixture, cooldown):
    run = RUNS["d6144"]
    assert run.horizon.tokens_per_step == batch * length
    starts = [stage.start_step for stage in run.stages_at(batch)]
    assert starts == [0, mixture, cooldown]


@pytest.mark.parametrize(
    ("length", "expected"), [(4096, 1.3), (8192, 1.390), (16_384, 1.480), (65_536, 1.660), (262_144, 1.841)]
)
def test_golden_query_factor_for_longer_sequences(length, expected):
    assert round(HERO_535B.context.qk_mult_at(length, 4096), 3) == expected


def test_golden_mesh():
    mesh, geometry = RUNS["d6144"].mesh, RUNS["d6144"].geometry
    assert mesh.axes == {"rack": 11, "expert": 64} and (mesh.devices, mesh.devices_installed) == (704, 792)
    assert mesh.experts_per_device(geometry) == 6
    assert {run.mesh.racks * 1024 // run.mesh.devices for run in HERO_535B.runs} == {16}  # sequences a device
    assert int(mesh.rows_per_expert(geometry, 46_137_344)) == 1365


def test_golden_depth_rule_gives_the_ladder_and_not_the_large_run():
    assert {width: ladder_depth(width) for width in (768, 1024, 1280, 1536, 2048)} == {
        768: 8, 1024: 12, 1280: 14, 1536: 16, 2048: 22,
    }  # fmt: skip
    assert ladder_depth(6144) == 58 != RUNS["d6144"].geometry.num_layers


def test_golden_evaluations_and_checkpoints():
    last = {name: run.evaluations.steps(run.horizon.num_steps)[-2:] for name, run in RUNS.items()}
    assert last["d1536"] == [15_120, 15_128]  # the public log has them as steps 15,119 and 15,127
    assert RUNS["d6144"].evaluations.steps(390_251)[:3] == [0, 3000, 6000]
    assert RUNS["d768"].checkpoints.steps(11_420) == [11_420]
    assert len(RUNS["d6144"].checkpoints.steps(390_251)) == 66  # 65 multiples of 6,000, and the end


def test_golden_ladder_costs_less_than_half_a_percent():
    """The public text says 1 %."""
    shares = []
    for convention in (PUBLISHED, PUBLISHED_WITH_HEAD):
        *rungs, target = (run.flops(convention) for run in HERO_535B.runs)
        shares.append(f"{sum(rungs) / target:.2%}")
    assert shares == ["0.36%", "0.42%"]
