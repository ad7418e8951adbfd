"""recipe/price: what a large run and its ladder cost, before anything of them is run.

Output: `price.json` (all figures, and what they rest on) and `price.md` (tables for people).
"""

from dataclasses import asdict, dataclass

from marin_exec import Out, kind
from steps.files import write_bytes, write_json
from steps.recipe.price import Assumptions, price
from steps.recipe.recipe import Recipe
from steps.recipe.tables import price_lines, price_table, training_table


@dataclass(frozen=True, kw_only=True)
class PriceConfig:
    """A recipe, and what its price rests on."""

    recipe: Recipe
    assumptions: Assumptions


@dataclass(frozen=True)
class PriceResult:
    """Of the large run, unless it says otherwise."""

    tokens: int
    flops: int
    """Of training, without the output head, as published."""
    flops_with_lm_head: int
    total_parameters: int
    days: float
    """Of training, without evaluations, checkpoints and failures."""
    chips: int
    chip_hours: float
    checkpoint_bytes: int
    permanent_bytes: int
    """Of all checkpoints that stay."""
    token_store_bytes: int
    """Of all that the mixture draws from."""
    evaluation_share: float
    """FLOPs of its evaluations over those of training."""
    ladder_share: float
    """FLOPs of all rungs over the large run's, without the output head."""
    ladder_share_with_lm_head: float
    ladder_chip_hours_share: float


@kind("recipe/price", version=1)
def price_recipe(config: PriceConfig, out: Out) -> PriceResult:
    """Writes the price of every run and of all together."""
    found = price(config.recipe, config.assumptions)
    write_json(out.file("price.json"), {**asdict(found), "assumptions": asdict(config.assumptions)})
    lines = "\n".join(f"* {line}" for line in price_lines(found))
    page = f"# {found.recipe}\n\n{training_table(config.recipe)}\n{price_table(found)}\n{lines}\n"
    write_bytes(out.file("price.md"), page.encode())
    target = found.runs[-1]
    return PriceResult(
        tokens=target.tokens,
        flops=target.flops["published"],
        flops_with_lm_head=target.flops["published_with_head"],
        total_parameters=target.total_parameters,
        days=target.days,
        chips=target.chips,
        chip_hours=target.chip_hours,
        checkpoint_bytes=target.checkpoint_bytes,
        permanent_bytes=target.permanent_bytes,
        token_store_bytes=found.token_store_bytes,
        evaluation_share=target.evaluation_share,
        ladder_share=found.ladder_share["published"],
        ladder_share_with_lm_head=found.ladder_share["published_with_head"],
        ladder_chip_hours_share=found.ladder_chip_hours_share,
    )
