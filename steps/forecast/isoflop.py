"""forecast/isoflop: how parameters and tokens should grow with compute, from runs of equal compute and different sizes."""

from dataclasses import asdict, dataclass

from marin_exec import ConfigError, Out, kind
from steps.config_checks import check_number
from steps.files import write_json
from steps.forecast.forecast import NamedRun
from steps.forecast.isoflop_fit import Lowest, by_budget, fit_allocation
from steps.forecast.observations import Observation, ParameterCount, observed


@dataclass(frozen=True, kw_only=True)
class IsoFlopConfig:
    budgets_flops: tuple[float, ...]
    """Computes that runs were made at."""
    observations: tuple[Observation, ...] = ()
    """Runs made elsewhere."""
    runs: tuple[NamedRun, ...] = ()
    """Outputs of train/language_model; their compute is without the output head."""
    parameters: ParameterCount = "active_parameters"
    """The count that N is of `runs`."""
    evaluate_every: float = 0.05
    """Evaluation interval of `runs`, a share of the run."""
    tolerance: float = 0.1
    """Share of its budget that a run's compute may be off."""
    target_flops: tuple[float, ...] = ()
    """Computes that the best size and length are asked for."""

    def __post_init__(self) -> None:
        check_number(self, "tolerance", above=0, below=1)
        for field in ("budgets_flops", "target_flops"):
            if not all(value > 0 for value in getattr(self, field)):
                raise ConfigError(f"IsoFlopConfig.{field}: {getattr(self, field)}; values above 0 are needed")
        if len(set(self.budgets_flops)) < 2:
            raise ConfigError(f"IsoFlopConfig.budgets_flops: {self.budgets_flops}; two or more budgets are needed")


@dataclass(frozen=True)
class IsoFlopResult:
    """N = parameter_amplitude * C**parameter_exponent and D = token_amplitude * C**token_exponent."""

    parameter_amplitude: float
    parameter_exponent: float
    token_amplitude: float
    token_exponent: float
    lowest: list[Lowest]
    """Of each budget, ascending."""
    targets: dict[str, tuple[float, float]]
    """(N, D) by target compute, e.g. under "1e+21"."""


@kind("forecast/isoflop", version=1)
def isoflop(config: IsoFlopConfig, out: Out) -> IsoFlopResult:
    """Writes `isoflop.json`: each budget's runs and lowest point, the power laws, and the targets.

    Raises:
        StepFailed: a run belongs to no budget, or a budget's runs have no lowest point among them.
    """
    from threadpoolctl import threadpool_limits

    found = observed(config.observations, config.runs, config.parameters, config.evaluate_every)
    groups = by_budget(found, config.budgets_flops, config.tolerance)
    with threadpool_limits(limits=1):  # two BLAS threads add up in another order, and the last bits differ
        lowest, allocation = fit_allocation(groups)
    result = IsoFlopResult(
        **asdict(allocation),
        lowest=lowest,
        targets={f"{flops:.6g}": allocation(flops) for flops in config.target_flops},
    )
    runs = {f"{flops:.6g}": [asdict(each) for each in group] for flops, group in groups.items()}
    write_json(out.file("isoflop.json"), {**asdict(result), "runs": runs})
    return result
