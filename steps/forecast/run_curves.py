"""forecast/run_curves: the curves of this project's own runs, with the conditions that their records prove.

Context length is in a run's own description. Which mixture it was trained on and which sets it was evaluated on are read
from the engine's record of it, as the output digests of what its config named: a declared tag could be wrong.
"""

import json
from dataclasses import dataclass, replace

from marin_exec import Out, StepFailed, kind
from steps.files import read_bytes
from steps.forecast.curves import CURVES_FILE, Conditions, Curve, read_curve, write_curves
from steps.forecast.forecast import NamedRun


@dataclass(frozen=True, kw_only=True)
class RunCurvesConfig:
    runs: tuple[NamedRun, ...]
    """Outputs of train/language_model, smallest first."""
    evaluate_every: float = 0.05
    """The runs' evaluation interval, a share of the run."""


@dataclass(frozen=True)
class RunCurvesResult:
    num_runs: int


@kind("forecast/run_curves", version=1, reads_lineage=True)
def run_curves(config: RunCurvesConfig, out: Out) -> RunCurvesResult:
    """Writes `curves.json`.

    Raises:
        StepFailed: a run is unfinished or was evaluated at another interval, or its record names no mixture.
    """
    curves = [curve_with_conditions(each.name, each.run, every=config.evaluate_every) for each in config.runs]
    write_curves(out.file(CURVES_FILE), curves)
    return RunCurvesResult(len(curves))


def curve_with_conditions(name: str, path: str, *, every: float) -> Curve:
    """Returns a run's curve with the conditions that it was made under (`run_conditions`)."""
    return replace(read_curve(name, path, every=every), conditions=run_conditions(name, path))


def run_conditions(name: str, path: str) -> Conditions:
    """Returns what a run was trained and evaluated on, by its description and its record.

    Args:
        name: of the run, for messages.
        path: its output directory, in a store.

    Raises:
        StepFailed: its record names no step as the mixture or as the evaluation sets.
    """
    from marin_exec.lineage import record_at
    from marin_exec.trees import dependency_references, flatten

    record = record_at(path)
    named = dependency_references(record.identity)
    bound = {dependency.digest: dependency.output_digest for dependency in record.dependencies}

    def digest(field: str) -> str:
        if f"config.{field}" not in named:
            raise StepFailed(
                f"run {name} ({path}): its record names no step as config.{field}, only {sorted(named)}; conditions are taken from "
                f"runs of train/language_model, whose mixture and evaluation are steps"
            )
        return bound[named[f"config.{field}"]][:16]

    sequences = flatten(record.identity).get("config.evaluation_sequences")
    described = json.loads(read_bytes(f"{path}/run.json"))
    return Conditions(
        context_length=described["model"]["sequence_length"],
        mixture=digest("mixture"),
        metric=f"macro_loss of {digest('evaluation')}, {sequences} sequences a set",
    )
