"""Method matched_progress_v1: each share of a run is fitted by itself, with a declared asymptote.

Source: the projection of Marin's 535B-A23B run (issue 8435 of marin-community/marin), which this method repeats to all
digits that were published. Runs decay their learning rate, so only equal progress can be compared; an early point of a
large rung is not a small run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from marin_exec import ConfigError, StepFailed
from steps.forecast.curves import CONVENTIONS, Curve
from steps.forecast.fit import Prediction, predict
from steps.forecast.method import MarkForecast, MethodForecast
from steps.forecast.unfinished import LastLine

METHOD = "matched_progress_v1"


@dataclass(frozen=True, kw_only=True)
class MatchedProgress:
    """All that the method declares."""

    asymptote: float
    """E, nats a token: the loss that no compute gets below."""
    asymptote_range: tuple[float, float]
    """Other values of E that would have been defensible; they widen the range."""
    compute: str = "flops"
    """Whether compute counts the output head: "flops" or "flops_with_lm_head"."""
    unfinished: LastLine | None = None
    """What is done with a rung that ended before its time; None refuses it."""

    def __post_init__(self) -> None:
        check_asymptotes("MatchedProgress", self.asymptote, self.asymptote_range)
        if self.compute not in CONVENTIONS:
            raise ConfigError(f"MatchedProgress.compute: {self.compute!r}; one of {', '.join(CONVENTIONS)} is needed")

    @property
    def id(self) -> str:
        return METHOD

    @property
    def conventions(self) -> tuple[str, ...]:
        """Those that compute is needed in."""
        return (self.compute,)

    def forecast(
        self, curves: Sequence[Curve], target_flops: Mapping[str, float], marks: Sequence[float]
    ) -> MethodForecast:
        """Returns the forecast of a run (`steps.forecast.method.Method`).

        Raises:
            StepFailed: a rung lacks marks and no rule for that is declared, or the rungs cannot be fitted.
        """
        whole = self._completed(curves, marks)
        predictions = predict_marks(
            whole, target_flops[self.compute], marks,
            compute=self.compute, asymptote=self.asymptote, asymptote_range=self.asymptote_range,
        )  # fmt: skip
        rows = tuple(MarkForecast(mark, each.loss, each.low, each.high) for mark, each in predictions.items())
        details = {"fits": prediction_rows(predictions), "unfinished": self._unfinished(curves, marks)}
        return MethodForecast(rows, whole[-1].losses[marks[-1]], details)

    def _completed(self, curves: Sequence[Curve], marks: Sequence[float]) -> list[Curve]:
        short = [curve.name for curve in curves if max(curve.losses) < marks[-1]]
        if short and self.unfinished is None:
            raise StepFailed(
                f"forecast: rungs {short} have no loss at {marks[-1]:.0%} of their runs; finish them, leave them out, or declare "
                f"MatchedProgress.unfinished"
            )
        return [self.unfinished.completed(curve, marks) if self.unfinished else curve for curve in curves]

    def _unfinished(self, curves: Sequence[Curve], marks: Sequence[float]) -> list[dict]:
        """Returns what was put in place of losses that are missing, and how the rule does on rungs that are finished."""
        short = [curve for curve in curves if max(curve.losses) < marks[-1]]
        if self.unfinished is None:
            return []
        return [
            {
                "rung": curve.name,
                "last_mark": max(curve.losses),
                "final_loss": self.unfinished.completed(curve, marks).losses[marks[-1]],
                "finished_rungs_above_their_line": self.unfinished.shortfalls(curves, max(curve.losses)),
            }
            for curve in short
        ]


def check_asymptotes(where: str, asymptote: float, asymptote_range: tuple[float, float]) -> None:
    """Checks that a range of asymptotes holds the one that is used.

    Raises:
        ConfigError: it does not.
    """
    low, high = asymptote_range
    if not low <= asymptote <= high:
        raise ConfigError(f"{where}.asymptote_range: {asymptote_range}; it must hold the asymptote, {asymptote}")


def predict_marks(
    curves: Sequence[Curve],
    target_flops: float,
    marks: Sequence[float],
    *,
    compute: str,
    asymptote: float,
    asymptote_range: tuple[float, float],
) -> dict[float, Prediction]:
    """Returns the prediction at each mark.

    Args:
        curves: the rungs, each with a loss at each mark.
        target_flops: of the whole target run, in the same convention.
        marks: shares of a run.
        compute: the convention.
        asymptote: E, nats a token.
        asymptote_range: other values of E.

    Raises:
        StepFailed: fewer than three rungs, or a fit that is not possible.
    """
    return {
        mark: predict(
            [curve.compute(compute) * mark for curve in curves],
            [curve.losses[mark] for curve in curves],
            target_flops * mark,
            asymptote=asymptote,
            asymptote_range=asymptote_range,
        )
        for mark in marks
    }


def prediction_rows(predictions: dict[float, Prediction]) -> list[dict]:
    """Returns the predictions as plain JSON values, a row a mark."""
    return [{"progress": mark, **asdict(prediction)} for mark, prediction in predictions.items()]
