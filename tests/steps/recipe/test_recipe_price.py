"""The price of a recipe against arithmetic done by hand, and how it moves with what it rests on."""

import dataclasses

import pytest

from steps.recipe.hero import HERO_535B
from steps.recipe.hero_price import HERO_ASSUMPTIONS
from steps.recipe.price import Speed, price

PRICE = price(HERO_535B, HERO_ASSUMPTIONS)
RUNS = {run.name: run for run in PRICE.runs}


def test_price_checkpoint_has_parameters_and_each_groups_state_in_f32():
    """d768: Muon keeps one array more for its matrices, Adam two for embedding, head and the small things; the bias none."""
    d, layers = 768, 8
    head = 128_256 * d
    small = (
        layers * (d * 384 + d * 6 + 4 * (128 + 2 * d) + 2 * d + d // 2) + 2 * d
    )  # router, gates, convolutions, gains of blocks; gains outside
    bias = layers * 384
    muon = RUNS["d768"].total_parameters - 2 * head - small - bias
    assert RUNS["d768"].checkpoint_bytes == 8 * muon + 12 * (2 * head + small) + 4 * bias
    assert RUNS["d768"].parameter_bytes == 4 * 1_591_848_448


def test_price_checkpoints_that_stay():
    assert RUNS["d6144"].permanent_checkpoints == 66 and RUNS["d2048"].permanent_checkpoints == 1
    assert RUNS["d6144"].permanent_bytes == 66 * RUNS["d6144"].checkpoint_bytes
    assert 4.28e12 < RUNS["d6144"].checkpoint_bytes < 4.30e12


def test_price_days_by_hand():
    """FLOPs over chips x peak x utilisation: the large run in its three stretches, a rung in one."""
    flops = 2.6960230106658617e24 / 390_251
    seconds = sum(
        flops * steps / (704 * 2.5e15 * mfu)
        for steps, mfu in ((81_716, 0.205), (146_139 - 81_716, 0.234), (390_251 - 146_139, 0.2675))
    )
    assert RUNS["d6144"].days == pytest.approx(seconds / 86_400, rel=1e-12)
    assert RUNS["d6144"].chip_hours == pytest.approx(704 * seconds / 3600, rel=1e-12)
    assert RUNS["d6144"].tokens_per_second == pytest.approx(18_005_144_633_344 / seconds, rel=1e-12)
    assert RUNS["d768"].days == pytest.approx(5.480525398095692e19 / (64 * 2.5e15 * 0.15) / 86_400, rel=1e-12)
    assert PRICE.days == pytest.approx(sum(run.days for run in PRICE.runs))


def test_price_ladder_share_in_every_convention():
    assert {key: f"{share:.2%}" for key, share in PRICE.ladder_share.items()} == {
        "published": "0.36%", "published_with_head": "0.42%", "every_layer": "0.42%",
    }  # fmt: skip
    assert PRICE.ladder_chip_hours_share > PRICE.ladder_share["published_with_head"]  # rungs run slower


def test_price_token_store_and_evaluations():
    assert PRICE.token_store_bytes == 4 * 23_106_103_007_622
    assert PRICE.tokens_read_bytes == 4 * 18_005_144_633_344
    forward = 184_393_728 + 2 * 768 * 128_256
    assert RUNS["d768"].evaluations == 20
    assert RUNS["d768"].evaluation_flops == 20 * 23 * 1024 * 4096 * forward
    share = 20 * 23 * 1024 * 4096 / (3 * 47_898_951_680)
    assert RUNS["d768"].evaluation_share == pytest.approx(share, rel=1e-12)


def test_price_a_stretch_after_the_end_costs_nothing():
    late = dataclasses.replace(
        HERO_ASSUMPTIONS, target_speeds=(Speed(from_step=0, mfu=0.2), Speed(from_step=10**6, mfu=0.9))
    )
    always = dataclasses.replace(HERO_ASSUMPTIONS, target_speeds=(Speed(from_step=0, mfu=0.2),))
    assert price(HERO_535B, late).days == price(HERO_535B, always).days


@pytest.mark.parametrize(("change", "message"), [
    ({"target_speeds": ()}, "the first at 0"),
    ({"target_speeds": (Speed(from_step=5, mfu=0.2),)}, "the first at 0"),
    ({"target_speeds": (Speed(from_step=0, mfu=0.2), Speed(from_step=0, mfu=0.3))}, "each above the last"),
    ({"ladder_mfu": 0.0}, "a share in"),
    ({"target_speeds": (Speed(from_step=0, mfu=20.5),)}, "20.5; a share in"),
])  # fmt: skip
def test_price_assumptions_that_cannot_be_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(HERO_ASSUMPTIONS, **change)
