"""forecast/parametric_law: a law of the final loss in parameters and tokens, and what it says of runs not yet made."""

from dataclasses import asdict, dataclass

from marin_exec import Out, kind
from steps.config_checks import check_number
from steps.files import write_json
from steps.forecast.forecast import NamedRun
from steps.forecast.observations import Observation, ParameterCount, observed


@dataclass(frozen=True, kw_only=True)
class Size:
    """A run that is not made yet."""

    name: str
    parameters: int
    """N, by the same count as the runs'."""
    tokens: int
    """D, to be trained on."""

    def __post_init__(self) -> None:
        check_number(self, "parameters", "tokens", low=1)


@dataclass(frozen=True, kw_only=True)
class ParametricLawConfig:
    observations: tuple[Observation, ...] = ()
    """Runs made elsewhere."""
    runs: tuple[NamedRun, ...] = ()
    """Outputs of train/language_model."""
    parameters: ParameterCount = "active_parameters"
    """The count that N is of `runs`."""
    evaluate_every: float = 0.05
    """Evaluation interval of `runs`, a share of the run."""
    targets: tuple[Size, ...] = ()
    """What the law is read off at."""


@dataclass(frozen=True)
class ParametricLawResult:
    """L(N, D) = asymptote + parameter_amplitude / N**parameter_exponent + token_amplitude / D**token_exponent."""

    num_runs: int
    asymptote: float
    """Nats a token."""
    parameter_amplitude: float
    parameter_exponent: float
    token_amplitude: float
    token_exponent: float
    largest_error: float
    """Of a run that was fitted, predicted less actual in size, nats a token."""
    predictions: dict[str, float]
    """By target, nats a token."""


@kind("forecast/parametric_law", version=1)
def parametric_law(config: ParametricLawConfig, out: Out) -> ParametricLawResult:
    """Writes `law.json`: the law, its errors on the runs, and each target with its range over leaving out any one run.

    Raises:
        StepFailed: too few runs, sizes and lengths that rise together, or losses that do not fall with both.
    """
    from threadpoolctl import threadpool_limits

    from steps.forecast.parametric_fit import fit_parametric, without_each

    found = observed(config.observations, config.runs, config.parameters, config.evaluate_every)
    with threadpool_limits(limits=1):  # two BLAS threads add up in another order, and the last bits differ
        law = fit_parametric(found)
        others = without_each(found, law)
    errors = {each.name: law(each.parameters, each.tokens) - each.loss for each in found}
    losses = {each.name: [fit(each.parameters, each.tokens) for fit in (law, *others)] for each in config.targets}
    rows = [
        {**asdict(each), "loss": losses[each.name][0], "low": min(losses[each.name]), "high": max(losses[each.name])}
        for each in config.targets
    ]
    page = {"law": asdict(law), "runs": [asdict(each) for each in found], "errors": errors,
            "without_each_run": [asdict(each) for each in others], "targets": rows}  # fmt: skip
    write_json(out.file("law.json"), page)
    return ParametricLawResult(
        num_runs=len(found),
        **asdict(law),
        largest_error=max(map(abs, errors.values())),
        predictions={name: values[0] for name, values in losses.items()},
    )
