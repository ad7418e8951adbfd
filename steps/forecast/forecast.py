"""forecast/matched_progress: predicts a larger run from a ladder of smaller ones, before it is trained.

Every progress mark g (5 %, 10 %, ... of a run) is fitted by itself: the rungs' losses at g against their compute so far,
evaluated at the target's compute at g. Runs decay their learning rate, so only equal progress can be compared; an early
point of a large rung is not a small run.
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from marin_exec import ConfigError, InputPath, Out, StepFailed, kind
from steps.files import write_json

if TYPE_CHECKING:
    from steps.forecast.curves import Curve
    from steps.forecast.fit import Prediction

METHOD = "matched_progress_v1"


@dataclass(frozen=True, kw_only=True)
class NamedRun:
    """A training run under the name that pages show."""

    name: str
    run: InputPath
    """Output of train/language_model."""


@dataclass(frozen=True, kw_only=True)
class ForecastConfig:
    """What a forecast declares before the target is trained."""

    rungs: tuple[NamedRun, ...]
    """The ladder, smallest first."""
    target_name: str
    """The run that is forecast."""
    target_flops: int
    """Its planned compute, in the same convention as the rungs'."""
    asymptote: float
    """E, nats a token: the loss that no compute gets below."""
    asymptote_range: tuple[float, float]
    """Other values of E that would have been defensible; they widen the range."""
    compute: Literal["flops", "flops_with_lm_head"] = "flops_with_lm_head"
    """Whether compute counts the output head. It matters where the head is most of the model, as in a small ladder."""
    evaluate_every: float = 0.05
    """The rungs' evaluation interval, a share of the run."""

    def __post_init__(self) -> None:
        if len(self.rungs) < 3:
            raise ConfigError(
                f"ForecastConfig.rungs: {len(self.rungs)}; three or more are needed, so that one can be left out"
            )
        low, high = self.asymptote_range
        if not low <= self.asymptote <= high:
            raise ConfigError(
                f"ForecastConfig.asymptote_range: {self.asymptote_range}; it must hold the asymptote, {self.asymptote}"
            )


@dataclass(frozen=True)
class ForecastResult:
    """The forecast of the target's final macro loss, nats a token."""

    method: str
    target: str
    target_flops: float
    predicted_loss: float
    low: float
    high: float
    """Range over leaving out each rung and over the asymptote's range; not a confidence interval."""
    asymptote: float
    amplitude: float
    exponent: float
    last_rung_loss: float
    predicted_drop: float
    """Last rung's final loss less the prediction."""


@kind("forecast/matched_progress", version=1)
def forecast(config: ForecastConfig, out: Out) -> ForecastResult:
    """Writes `forecast.json`: method, inputs, and the prediction with its range at every progress mark.

    Raises:
        StepFailed: rungs that were not evaluated at the same marks, are not in order of compute, or cannot be fitted.
    """
    from steps.forecast.fit import predict

    curves = _ladder(config)
    marks = sorted(curves[0].losses)
    predictions = {
        mark: predict(
            [curve.flops * mark for curve in curves],
            [curve.losses[mark] for curve in curves],
            config.target_flops * mark,
            asymptote=config.asymptote,
            asymptote_range=config.asymptote_range,
        )
        for mark in marks
    }
    write_json(out.file("forecast.json"), _page(config, curves, predictions))
    final = predictions[1.0]
    last = curves[-1].losses[1.0]
    return ForecastResult(
        method=METHOD,
        target=config.target_name,
        target_flops=float(config.target_flops),
        predicted_loss=final.loss,
        low=final.low,
        high=final.high,
        asymptote=final.law.asymptote,
        amplitude=final.law.amplitude,
        exponent=final.law.exponent,
        last_rung_loss=last,
        predicted_drop=last - final.loss,
    )


def _ladder(config: ForecastConfig) -> "list[Curve]":
    """Reads the rungs' curves, and refuses a ladder that cannot be compared mark by mark."""
    from steps.forecast.curves import read_curve

    curves = [
        read_curve(each.name, each.run, flops_convention=config.compute, every=config.evaluate_every)
        for each in config.rungs
    ]
    marks = sorted(curves[0].losses)
    for curve in curves:
        if sorted(curve.losses) != marks:
            raise StepFailed(
                f"forecast: rung {curve.name} was evaluated at {sorted(curve.losses)}, rung {curves[0].name} at {marks}; "
                f"evaluate all rungs at the same shares of their runs"
            )
    flops = [curve.flops for curve in curves]
    if flops != sorted(flops) or config.target_flops <= flops[-1]:
        raise StepFailed(
            f"forecast: computes {flops} and target {config.target_flops}; rungs must come smallest first and the target "
            f"must be larger than all of them"
        )
    return curves


def _page(config: ForecastConfig, curves: "list[Curve]", predictions: "dict[float, Prediction]") -> dict[str, Any]:
    """Returns what `forecast.json` holds: all that was declared, all that went in, all that came out."""
    return {
        "method": METHOD,
        "compute": config.compute,
        "evaluate_every": config.evaluate_every,
        "asymptote": config.asymptote,
        "asymptote_range": list(config.asymptote_range),
        "target": {"name": config.target_name, "flops": config.target_flops},
        "rungs": [
            {"name": c.name, "flops": c.flops, "losses": [[mark, c.losses[mark]] for mark in sorted(c.losses)]}
            for c in curves
        ],
        "predictions": [{"progress": mark, **asdict(prediction)} for mark, prediction in predictions.items()],
    }
