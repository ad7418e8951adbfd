"""Final losses of runs of several sizes and lengths: what laws in parameters and tokens are fitted to."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from marin_exec import StepFailed
from steps.config_checks import check_number
from steps.files import read_bytes
from steps.forecast.curves import read_curve
from steps.forecast.forecast import NamedRun

ParameterCount = Literal["active_parameters", "total_parameters"]


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One finished run."""

    name: str
    parameters: int
    """N, by the count that the law is to be in."""
    tokens: int
    """D, trained on."""
    flops: int | None = None
    """C of its training; None: 6 N D."""
    loss: float
    """Held-out, at its end, nats a token."""

    def __post_init__(self) -> None:
        check_number(self, "parameters", "tokens", "flops", low=1)
        check_number(self, "loss", above=0)

    @property
    def compute(self) -> float:
        """Its training FLOPs."""
        return float(6 * self.parameters * self.tokens if self.flops is None else self.flops)


def observed(
    observations: Sequence[Observation], runs: Sequence[NamedRun], parameters: ParameterCount, every: float
) -> list[Observation]:
    """Returns what was stated, and then what the outputs of train/language_model say.

    Args:
        observations: stated ones.
        runs: finished runs.
        parameters: the count that N is of the runs.
        every: the runs' evaluation interval, a share of the run.

    Raises:
        StepFailed: two have one name, or a run is unfinished.
    """
    found = list(observations)
    for each in runs:
        described = json.loads(read_bytes(f"{each.run}/run.json"))
        loss = read_curve(each.name, each.run, every=every).losses[1.0]
        sizes = {"parameters": described[parameters], "tokens": described["tokens"], "flops": described["flops"]}
        found.append(Observation(name=each.name, loss=loss, **sizes))
    names = [each.name for each in found]
    if len(set(names)) < len(names):
        raise StepFailed(f"law: runs are named {names}; each needs a name of its own")
    return found
