"""A recipe, its price and its lint as tables in Markdown, for a page in the docs and for people at a terminal."""

from collections.abc import Iterable, Sequence

from steps.recipe.findings import Finding
from steps.recipe.flops import PUBLISHED, PUBLISHED_WITH_HEAD, forward_flops_per_token
from steps.recipe.mixture import block_steps
from steps.recipe.price import Price
from steps.recipe.recipe import Recipe


def markdown_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table; bars in cells are escaped, and line breaks become spaces."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(_cell(each) for each in line) + " |" for line in lines) + "\n"


def shape_table(recipe: Recipe) -> str:
    """Returns geometry, parameters and forward FLOPs of each run."""
    headers = ("run", "layers", "global", "heads", "KV local/global", "active", "total", "forward FLOPs/token")
    rows = [
        (
            run.name,
            f"{run.geometry.num_layers}",
            f"{len(run.geometry.global_layers)}",
            f"{run.geometry.num_heads}",
            f"{run.geometry.local_kv_heads}/{run.geometry.global_kv_heads}",
            f"{run.active_parameters:,}",
            f"{run.total_parameters:,}",
            f"{forward_flops_per_token(run.geometry, PUBLISHED):,}",
        )
        for run in recipe.runs
    ]
    return markdown_table(headers, rows)


def training_table(recipe: Recipe) -> str:
    """Returns horizon, compute, rates and stages of each run."""
    headers = ("run", "racks", "steps", "tokens/step", "tokens", "FLOPs", "with head", "Adam", "MuonH, AdamH", "epsilon", "beta2",
               "warm-up", "cooldown from")  # fmt: skip
    rows = []
    for run in recipe.runs:
        horizon, rates = run.horizon, run.rates
        rows.append(
            (
                run.name,
                f"{run.mesh.racks}",
                f"{horizon.num_steps:,}",
                f"{horizon.tokens_per_step:,}",
                f"{horizon.tokens:.4g}",
                f"{run.flops(PUBLISHED):.4g}",
                f"{run.flops(PUBLISHED_WITH_HEAD):.4g}",
                f"{rates.adam:.4g}",
                f"{rates.hyperball:.4g}",
                f"{rates.epsilon:.4g}",
                f"{rates.beta2:.4g}",
                f"{rates.warmup_steps:,}",
                f"{run.stages[-1].start_step:,}",
            )
        )
    return markdown_table(headers, rows)


def context_table(recipe: Recipe, lengths: Sequence[int]) -> str:
    """Returns what longer sequences would make of the large run: query factor, batch, block boundaries, starts of stages."""
    run = recipe.target_run
    stages = [stage.name for stage in run.stages if stage.start_step]
    rows = []
    for length in lengths:
        batch = run.horizon.tokens_per_step // length
        starts = {stage.name: stage.start_step for stage in run.stages_at(batch)}
        factor = recipe.context.qk_mult_at(length, recipe.shape.sequence_length)
        every = block_steps(recipe.mixture.block_sequences, batch)
        rows.append(
            (f"{length:,}", f"{factor:.3f}", f"{batch:,}", f"{every:,}", *(f"{starts[name]:,}" for name in stages))
        )
    headers = ("sequence", "qk_mult", "sequences/step", "block boundary every", *(f"{name} from" for name in stages))
    return markdown_table(headers, rows)


def price_table(price: Price) -> str:
    """Returns the price of each run."""
    headers = ("run", "chips", "tokens", "FLOPs with head", "days", "chip hours", "M tokens/s", "checkpoint TB", "kept", "kept TB",
               "evaluations", "their share of FLOPs")  # fmt: skip
    rows = [
        (
            run.name,
            f"{run.chips:,}",
            f"{run.tokens:.4g}",
            f"{run.flops['published_with_head']:.4g}",
            f"{run.days:.3g}",
            f"{run.chip_hours:,.0f}",
            f"{run.tokens_per_second / 1e6:.3g}",
            f"{run.checkpoint_bytes / 1e12:.3g}",
            f"{run.permanent_checkpoints}",
            f"{run.permanent_bytes / 1e12:.3g}",
            f"{run.evaluations}",
            f"{run.evaluation_share:.2%}",
        )
        for run in price.runs
    ]
    return markdown_table(headers, rows)


def price_lines(price: Price) -> list[str]:
    """Returns what holds for all runs together, a sentence each."""
    shares = price.ladder_share
    return [
        f"The ladder has {shares['published']:.2%} of the large run's FLOPs without the output head, "
        f"{shares['published_with_head']:.2%} with it, and {price.ladder_chip_hours_share:.2%} of its chip hours.",
        f"One run after the other takes {price.days:.3g} days, without evaluations, checkpoints and failures.",
        f"The token store has {price.token_store_bytes / 1e12:.4g} TB, and the large run reads "
        f"{price.tokens_read_bytes / 1e12:.4g} TB of tokens.",
    ]


def findings_table(findings: Sequence[Finding]) -> str:
    """Returns what a lint found, in its order."""
    headers = ("", "run", "stated", "where", "configured", "decides", "remark")
    return markdown_table(
        headers, [(f.severity, f.run, f.stated, f.source, f.configured, f.decides, f.remark) for f in findings]
    )


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
