"""forecast/matched_progress: predicts a larger run from a ladder of smaller ones, before it is trained.

Every progress mark g (5 %, 10 %, ... of a run) is fitted by itself: the rungs' losses at g against their compute so far,
evaluated at the target's compute at g. Runs decay their learning rate, so only equal progress can be compared; an early
point of a large rung is not a small run.
"""

from dataclasses import dataclass
from typing import Any, Literal

from marin_exec import ConfigError, InputPath, Out, kind
from steps.files import write_json
from steps.forecast.curves import Curve, read_curve
from steps.forecast.fit import Prediction
from steps.forecast.ladder_curves import check_order, marks_of
from steps.forecast.matched_progress import METHOD, check_asymptotes, predict_marks, prediction_rows


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
        check_asymptotes("ForecastConfig", self.asymptote, self.asymptote_range)


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
    curves = [read_curve(each.name, each.run, every=config.evaluate_every) for each in config.rungs]
    marks = marks_of(curves)
    check_order(curves, {config.compute: config.target_flops}, (config.compute,))
    predictions = predict_marks(
        curves, config.target_flops, marks,
        compute=config.compute, asymptote=config.asymptote, asymptote_range=config.asymptote_range,
    )  # fmt: skip
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


def _page(config: ForecastConfig, curves: list[Curve], predictions: dict[float, Prediction]) -> dict[str, Any]:
    """Returns what `forecast.json` holds: all that was declared, all that went in, all that came out."""
    return {
        "method": METHOD,
        "compute": config.compute,
        "evaluate_every": config.evaluate_every,
        "asymptote": config.asymptote,
        "asymptote_range": list(config.asymptote_range),
        "target": {"name": config.target_name, "flops": config.target_flops},
        "rungs": [
            {"name": c.name, "flops": c.compute(config.compute), "losses": sorted(c.losses.items())} for c in curves
        ],
        "predictions": prediction_rows(predictions),
    }
