"""forecast/register: writes down a forecast before the run that it is of, with all that it was made from.

The record holds the digest of every curve that went in, the method with all its parameters, and what run under which
conditions the forecast is for. A run that is declared with `after=[this]` then proves that the forecast came first
(`forecast/score`); what is outside the conditions is refused (`steps.forecast.applicability`).
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from marin_exec import ConfigError, InputPath, Out, StepFailed, kind
from steps.config_checks import check_number
from steps.files import write_json
from steps.forecast.applicability import Applicability
from steps.forecast.curves import CONVENTIONS, Conditions, Curve, curve_row, read_curves
from steps.forecast.joint_smooth import JointSmooth
from steps.forecast.ladder_curves import check_order, interval_of, marks_of, shared_conditions
from steps.forecast.matched_progress import MatchedProgress
from steps.forecast.method import MethodForecast


@dataclass(frozen=True, kw_only=True)
class Target:
    """The run that is forecast, as it is planned."""

    name: str
    num_steps: int
    """Updates: the horizon that its schedule is made for."""
    flops: int
    """Training FLOPs of the whole run, without the output head."""
    flops_with_lm_head: int | None = None
    """The same with it; None if no method asks for them."""
    conditions: Conditions | None = None
    """What it is trained and evaluated on; None: as the rungs, and that is what is registered."""

    def __post_init__(self) -> None:
        check_number(self, "num_steps", "flops", "flops_with_lm_head", low=1)

    @property
    def compute(self) -> dict[str, int]:
        """Its FLOPs by convention, those that are known."""
        values = {convention: getattr(self, convention) for convention in CONVENTIONS}
        return {convention: flops for convention, flops in values.items() if flops is not None}


@dataclass(frozen=True, kw_only=True)
class RegisterConfig:
    """A forecast."""

    curves: InputPath
    """Output of forecast/run_curves or forecast/public_figures: the rungs, smallest first."""
    method: MatchedProgress | JointSmooth
    """How it is made."""
    target: Target
    """What it is of; to be evaluated at the shares of its run that the rungs were."""

    def __post_init__(self) -> None:
        if not isinstance(self.method, (MatchedProgress, JointSmooth)) or not isinstance(self.target, Target):
            return
        missing = [each for each in self.method.conventions if each not in self.target.compute]
        if missing:
            raise ConfigError(
                f"RegisterConfig.target: has no {', '.join(missing)}, which method {self.method.id} asks for; state it"
            )


@dataclass(frozen=True)
class RegisterResult:
    """The forecast of the target's final macro loss, nats a token."""

    method: str
    target: str
    predicted_loss: float
    low: float
    high: float
    """The method's widest range."""
    last_rung_loss: float
    predicted_drop: float
    """Last rung's final loss less the prediction."""
    curves_digest: str
    """SHA-256 over all curves that it was made from."""


@kind("forecast/register", version=1)
def register(config: RegisterConfig, out: Out) -> RegisterResult:
    """Writes `forecast.json`: method, inputs with their digests, conditions, and the prediction at every progress mark.

    Raises:
        StepFailed: the rungs differ in marks or conditions, are not in order of compute, or cannot be fitted.
    """
    curves = read_curves(config.curves)
    conditions = shared_conditions(curves)
    marks = marks_of(curves)
    check_order(curves, config.target.compute, config.method.conventions)
    if config.target.conditions is not None and config.target.conditions.metric != conditions.metric:
        raise StepFailed(
            f"forecast: the rungs were measured by {conditions.metric!r}, the target is to be by "
            f"{config.target.conditions.metric!r}; one loss does not forecast another"
        )
    made = config.method.forecast(curves, config.target.compute, marks)
    applicability = Applicability(
        run=config.target.name,
        num_steps=config.target.num_steps,
        conditions=config.target.conditions or conditions,
        first_mark=marks[0],
    )
    page = registered_page(config, curves, made, applicability)
    write_json(out.file("forecast.json"), page)
    final = made.marks[-1]
    return RegisterResult(
        method=config.method.id,
        target=config.target.name,
        predicted_loss=final.loss,
        low=final.low,
        high=final.high,
        last_rung_loss=made.last_rung_loss,
        predicted_drop=made.last_rung_loss - final.loss,
        curves_digest=page["curves_digest"],
    )


def registered_page(
    config: RegisterConfig, curves: Sequence[Curve], made: MethodForecast, applicability: Applicability
) -> dict[str, Any]:
    """Returns what `forecast.json` holds. `forecast/score` and pages read the keys that forecast/matched_progress writes too."""
    compute = config.method.conventions[0]
    rungs = [
        {
            "name": curve.name,
            "flops": curve.compute(compute),
            "losses": sorted(curve.losses.items()),
            "sha256": digest(curve),
        }
        for curve in curves
    ]
    return {
        "method": config.method.id,
        "parameters": asdict(config.method),
        "compute": compute,
        "evaluate_every": interval_of([mark.progress for mark in made.marks]),
        "applicability": asdict(applicability),
        "target": {"name": config.target.name, "flops": config.target.compute[compute]},
        "rungs": rungs,
        "curves_digest": hashlib.sha256("".join(rung["sha256"] for rung in rungs).encode()).hexdigest(),
        "last_rung_loss": made.last_rung_loss,
        "predictions": [asdict(mark) for mark in made.marks],
        "details": made.details,
    }


def digest(curve: Curve) -> str:
    """Returns the SHA-256 of all that a curve holds, wherever it was read from."""
    return hashlib.sha256(json.dumps(curve_row(curve), sort_keys=True).encode()).hexdigest()
