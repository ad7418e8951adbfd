"""Rungs that ended before their time: a declared rule for the losses that they would have had.

Source of the rule and its constants: the projection of Marin's 535B-A23B run (issue 8435 of marin-community/marin), whose
largest rung stopped at 80 % of its course: a straight line through its last evaluations, plus a correction set by hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from marin_exec import ConfigError, StepFailed
from steps.forecast.curves import Curve


@dataclass(frozen=True, kw_only=True)
class LastLine:
    """A straight line in progress through a rung's last evaluations, and a constant added to what it gives."""

    from_mark: float = 0.6
    """The line goes through the evaluations from this share of the run on."""
    correction: float = 0.005
    """Added beyond the last evaluation, nats a token: finished rungs end above such a line."""

    def __post_init__(self) -> None:
        if not 0 < self.from_mark < 1:
            raise ConfigError(
                f"LastLine.from_mark: {self.from_mark!r}; a share of the run above 0 and below 1 is needed"
            )

    def line(self, curve: Curve, last_mark: float) -> tuple[float, float]:
        """Returns (slope, intercept) of the least-squares line through a curve's losses up to a mark.

        Raises:
            StepFailed: fewer than two evaluations lie there.
        """
        marks = [mark for mark in sorted(curve.losses) if self.from_mark <= mark <= last_mark]
        if len(marks) < 2:
            raise StepFailed(
                f"run {curve.name}: {len(marks)} evaluations between {self.from_mark:.0%} and {last_mark:.0%} of its course; a "
                f"line needs two. Let the rule's line begin earlier, or leave the run out"
            )
        slope, intercept = np.polyfit(marks, [curve.losses[mark] for mark in marks], 1)
        return float(slope), float(intercept)

    def completed(self, curve: Curve, marks: Sequence[float]) -> Curve:
        """Returns the curve with a loss at each of the marks beyond its last evaluation."""
        missing = [mark for mark in marks if mark > max(curve.losses)]
        if not missing:
            return curve
        slope, intercept = self.line(curve, max(curve.losses))
        continued = {mark: slope * mark + intercept + self.correction for mark in missing}
        return replace(curve, losses={**curve.losses, **continued})

    def shortfalls(self, curves: Sequence[Curve], last_mark: float) -> dict[str, float]:
        """Returns how far each finished run ended above its line through the evaluations up to a mark, without correction."""
        ends = {curve.name: sum(self.line(curve, last_mark)) for curve in curves if curve.finished}
        return {curve.name: curve.losses[1.0] - ends[curve.name] for curve in curves if curve.finished}
