"""What a forecasting method gives: a loss with its range at every mark, and what it was decided by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from steps.forecast.curves import Curve


@dataclass(frozen=True)
class Band:
    """An interval that is meant to hold so large a share of outcomes."""

    level: float
    low: float
    high: float


@dataclass(frozen=True)
class MarkForecast:
    """The forecast at one share of the run, nats a token."""

    progress: float
    loss: float
    low: float
    high: float
    """The method's widest range."""
    bands: tuple[Band, ...] = ()
    """Intervals with a stated coverage, narrowest first; empty if the method states none."""


@dataclass(frozen=True)
class MethodForecast:
    """A forecast over the whole run."""

    marks: tuple[MarkForecast, ...]
    """Ascending."""
    last_rung_loss: float
    """Final loss of the largest rung, or what the method takes it to have been."""
    details: dict[str, Any] = field(default_factory=dict)
    """Plain JSON values of the method's own."""


class Method(Protocol):
    """A declared way from a ladder to a forecast."""

    @property
    def id(self) -> str:
        """Name and version: another rule has another."""
        ...

    @property
    def conventions(self) -> tuple[str, ...]:
        """The conventions that compute is needed in."""
        ...

    def forecast(
        self, curves: Sequence[Curve], target_flops: Mapping[str, float], marks: Sequence[float]
    ) -> MethodForecast:
        """Returns the forecast of a run.

        Args:
            curves: the rungs, smallest first.
            target_flops: of the whole run, in each of the conventions.
            marks: the shares of the run that are asked for; the finished rungs have a loss at each.
        """
        ...
