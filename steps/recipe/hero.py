"""The recipe of Marin's 535B-A23B run and its ladder, in numbers.

Source: issue 8435 of marin-community/marin and the issues that it links (7856 and 8003 learning rates, 8818 weight decay, 9615
context), with the launcher, model and optimiser under experiments/grug/moe_hero_ep of that repository, as public in October 2026.
"""

from steps.recipe.context import ContextSchedule, ContextStage
from steps.recipe.geometry import Shape
from steps.recipe.mesh import Rack
from steps.recipe.mixture import MixtureChange, MixturePlan, PlannedPhase
from steps.recipe.rates import FadingDecay, OptimizerRule, RateLaw
from steps.recipe.recipe import Capacity, Recipe, RunChoice

AUGUST_LAW = RateLaw(
    name="August 2026",
    source="issues 7856 and 8003 of marin-community/marin",
    coefficient=0.087571,
    tokens_exponent=-0.3461,
    width_exponent=-0.3448,
    batch_unit="tokens",
    cap=0.05,
    sequence_length=8192,
    r_squared=0.978,
)
"""Of the ladder and the 535B run."""
MAY_LAW = RateLaw(
    name="May 2026",
    source="issue 5951 of marin-community/marin",
    coefficient=0.06602,
    tokens_exponent=-0.395,
    width_exponent=-0.150,
    batch_unit="tokens",
    r_squared=0.996,
)
"""An earlier fit, which no run here uses."""
ADAMH_V16_LAW = RateLaw(
    name="AdamH v16",
    source="the heuristic before MuonH in marin-community/marin",
    coefficient=1.63,
    tokens_exponent=-0.2813,
    width_exponent=-0.3678,
    batch_unit="sequences",
)
"""An earlier rule, which no run here uses."""

NEWTON_SCHULZ = (
    (4.0848, -6.8946, 2.9270),
    (3.9505, -6.3029, 2.6377),
    (3.7418, -5.5913, 2.3037),
    (2.8769, -3.1427, 1.2046),
    (2.8366, -3.0525, 1.2012),
)

HERO_535B = Recipe(
    name="535B-A23B",
    shape=Shape(
        vocabulary_size=128_256,
        sequence_length=4096,
        window=2048,
        global_every=4,
        head_width=128,
        local_group=4,
        global_group=8,
        num_experts=384,
        experts_per_token=8,
        num_shared=2,
        width_per_expert=2,
        gated_norm_rank=128,
        convolution_taps=4,
    ),
    target=RunChoice(
        width=6144,
        racks=11,
        num_layers=48,
        evaluate_every_steps=3000,
        checkpoint_every_steps=6000,
        changes=(MixtureChange(name="second mixture", step=108_000),),
        decay=FadingDecay(leaves=("head_gate", "router"), from_step=58_014, weight=0.02),
    ),
    ladder=(
        RunChoice(width=768, racks=1),
        RunChoice(width=1024, racks=2),
        RunChoice(width=1536, racks=6),
        RunChoice(width=2048, racks=11),
    ),
    tokens_per_active=791,
    rack=Rack(devices=64, devices_installed=72, sequences=1024),
    capacity=Capacity(sender=1.15, receiver=1.15, waves=3),
    optimizer=OptimizerRule(
        law=AUGUST_LAW,
        hyperball_over_adam=13 / 3,
        warmup_share=0.01,
        final_share=0.05,
        beta1=0.90,
        beta2_per_batch=0.999,
        beta2_batch_tokens=131_072,
        beta2_bounds=(0.95, 0.9999),
        epsilon_per_root_step=9.676e-18,
        momentum=0.95,
        muon_epsilon=1e-8,
        newton_schulz=NEWTON_SCHULZ,
    ),
    z_loss=1e-4,
    mixture=MixturePlan(
        block_sequences=49_152,
        phases=(
            PlannedPhase(name="main", start_fraction=0.0, budget_tokens=15_000_000_000_000),
            PlannedPhase(name="cooldown", start_fraction=0.8, budget_tokens=3_750_000_000_000),
        ),
        available_tokens=23_106_103_007_622,
        max_epochs=8.0,
        simulate_below_flops=1e23,
    ),
    context=ContextSchedule(
        qk_mult=1.3,
        qk_slope=0.1,
        stages=(
            ContextStage(start_fraction=0.5, sequence_length=8192),
            ContextStage(start_fraction=0.95, sequence_length=65_536),
        ),
    ),
    ladder_evaluations=20,
    seed=0,
    storage_quota_bytes=100 * 2**40,
)
"""Context stages as first planned: half-way to 8,192 (later discussed: 16,384), at 95 % to 65,536. A short end at 262,144 was
planned, without saying how long, so it is not here."""
