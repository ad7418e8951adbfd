"""What the price of the 535B run rests on."""

from steps.recipe.price import Assumptions, Chip, Speed

GB200 = Chip(
    name="GB200, one GPU",
    peak_flops=2.5e15,
    source="NVIDIA's data sheet of the GB200 NVL72: 360 PFLOP/s of bf16 with sparsity over 72 GPUs, half of it dense",
)

HERO_ASSUMPTIONS = Assumptions(
    chip=GB200,
    target_speeds=(
        Speed(from_step=0, mfu=0.205),
        Speed(from_step=81_716, mfu=0.234),
        Speed(from_step=146_139, mfu=0.2675),
    ),
    ladder_mfu=0.15,
    evaluation_tokens=23 * 1024 * 4096,
)
"""Utilisations of the large run as logged before and after its transport (81,716) and its attention kernel (146,139) were replaced
(issue 8435 of marin-community/marin). Assumed, not published: 15 % for the rungs, of which it is only known that they ran
slower, and 1,024 sequences of each of the 23 held-out sets (16 of Paloma, 7 of Uncheatable Eval)."""
