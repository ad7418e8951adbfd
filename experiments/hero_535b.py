"""Marin's 535B-A23B run with its ladder and forecast, at full scale: to be planned, priced and linted on a laptop.

Every number is that of `steps.recipe.hero` (docs/recipe.md). These run anywhere, in seconds:

    marin-exec plan experiments/hero_535b.py
    marin-exec run experiments/hero_535b.py --until recipe/price --until recipe/lint --until 'public/*'

The rest needs the data, which exists elsewhere and is adopted where it lies (`--tokens URL --tokens_digest ...`), and racks of
accelerators: a cluster that lacks them refuses the steps. The published run's data can't be read by everybody, so the digests
below are no literals of it: the first run that reads your data says what they are.
"""

from dataclasses import dataclass, replace

from marin_exec import Resources, Step, adopt, main
from steps.evaluate.checkpoint import CheckpointEvaluationConfig, evaluate_checkpoint
from steps.forecast.forecast import NamedRun
from steps.forecast.joint_smooth import JointSmooth
from steps.forecast.matched_progress import MatchedProgress
from steps.forecast.public_figures import PublicFiguresConfig, public_figures
from steps.forecast.register import RegisterConfig, Target, register
from steps.forecast.run_curves import RunCurvesConfig, run_curves
from steps.forecast.score import ScoreConfig, score
from steps.forecast.score_points import ScorePointsConfig, score_points
from steps.forecast.unfinished import LastLine
from steps.recipe.flops import PUBLISHED, PUBLISHED_WITH_HEAD
from steps.recipe.hero import HERO_535B
from steps.recipe.hero_price import GB200 as CHIP
from steps.recipe.hero_price import HERO_ASSUMPTIONS
from steps.recipe.hero_statements import hero_statements
from steps.recipe_steps.lint import LintConfig, lint_recipe
from steps.recipe_steps.price import PriceConfig, price_recipe
from steps.recipe_steps.run_config import run_config, run_resources
from steps.train.language_model import train_language_model

DEVICES_PER_MACHINE = 4  # of the 18 machines in a rack, 16 train
NOT_KNOWN = tuple(f"{number:064x}" for number in range(3))  # no data has these digests
NEAR_THE_DATA = Resources(cpus=16, custom={"near_the_data": 1})  # reading 92 TB is nothing for a laptop
PUBLISHED_METHOD = MatchedProgress(asymptote=1.5, asymptote_range=(1.3, 1.7), compute="flops", unfinished=LastLine())
METHODS = {"matched": PUBLISHED_METHOD, "joint": JointSmooth()}
FIRST_FORECAST, LAST_ON_FIRST_MIXTURE = 20_000, 107_999  # steps of the public points that the forecast is for


@dataclass(frozen=True, kw_only=True)
class Params:
    """Where the data lies that was made before, and the digests of its manifests, as `marin-exec adopt URL` prints them."""

    tokens: str = "gs://hero-535b/tokens"
    tokens_digest: str = NOT_KNOWN[0]
    mixture: str = "gs://hero-535b/mixture"
    mixture_digest: str = NOT_KNOWN[1]
    evaluation: str = "gs://hero-535b/evaluation"
    evaluation_digest: str = NOT_KNOWN[2]


def pipeline(params: Params) -> list[Step]:
    # What a laptop can do: the price, what does not agree, and the forecast from the public losses of the ladder.
    price = Step("recipe/price", price_recipe, PriceConfig(recipe=HERO_535B, assumptions=HERO_ASSUMPTIONS))
    known = ("retention d6144",)  # 66 checkpoints that stay do not fit the quota
    lint_config = LintConfig(recipe=HERO_535B, statements=hero_statements(), accepted=known)
    lint = Step("recipe/lint", lint_recipe, lint_config)
    *rungs, large = HERO_535B.runs
    target = Target(
        name=large.name,
        num_steps=large.horizon.num_steps,
        flops=large.flops(PUBLISHED),
        flops_with_lm_head=large.flops(PUBLISHED_WITH_HEAD),
    )
    figures = Step("public/losses", public_figures, PublicFiguresConfig())
    public_scores = []
    for name, method in METHODS.items():
        made = RegisterConfig(curves=figures, method=method, target=target)
        public = Step(f"public/forecast-{name}", register, made)
        points = ScorePointsConfig(
            forecast=public, points=figures, first_step=FIRST_FORECAST, last_step=LAST_ON_FIRST_MIXTURE
        )
        public_scores.append(Step(f"public/score-{name}", score_points, points))

    # The data, adopted where it lies.
    adopted = {
        "tokens": adopt(params.tokens, params.tokens_digest, name="data/tokens"),
        "mixture": adopt(params.mixture, params.mixture_digest, name="data/mixture"),
        "evaluation": adopt(params.evaluation, params.evaluation_digest, name="data/evaluation"),
    }
    data = {name: replace(step, resources=NEAR_THE_DATA) for name, step in adopted.items()}

    # The ladder, its forecasts, and only then the large run. Nothing is trained before somebody has looked at the lint.
    runs = tuple(
        NamedRun(
            name=rung.name,
            run=Step(
                f"ladder/{rung.name}",
                train_language_model,
                run_config(rung, **data, device_flops=CHIP.peak_flops),
                resources=run_resources(rung, devices_per_process=DEVICES_PER_MACHINE),
                after=(lint,),
            ),
        )
        for rung in rungs
    )
    curves = Step("ladder/curves", run_curves, RunCurvesConfig(runs=runs))
    forecasts = {
        name: Step(f"forecast/{name}", register, RegisterConfig(curves=curves, method=method, target=target))
        for name, method in METHODS.items()
    }
    config = run_config(large, **data, device_flops=CHIP.peak_flops)
    resources = run_resources(large, devices_per_process=DEVICES_PER_MACHINE)
    hero = Step(
        "hero", train_language_model, config, resources=resources, after=(lint, *forecasts.values()), see=(price,)
    )
    scores = [
        Step(f"score/{name}", score, ScoreConfig(forecast=forecast, run=hero)) for name, forecast in forecasts.items()
    ]

    # Every checkpoint that stays is evaluated, while the run goes on.
    evaluations = [
        Step(
            f"evaluate/{checkpoint.split('/')[-1]}",
            evaluate_checkpoint,
            CheckpointEvaluationConfig(checkpoint=hero.milestone(checkpoint), evaluation=data["evaluation"]),
            resources=Resources(gpus=HERO_535B.rack.devices),
        )
        for checkpoint in config.checkpoints
    ]
    return [price, *public_scores, *scores, *evaluations]


if __name__ == "__main__":
    main(pipeline)
