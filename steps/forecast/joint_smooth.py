"""Method joint_smooth_v1: one smooth fit over all rungs and all shares of their runs, with intervals of stated coverage.

Against fitting each share apart it uses that neighbouring shares say nearly the same, so the forecast never rises along
the run and evaluation noise averages out; and it does not fix what the ladder cannot tell. Its intervals hold

* the asymptote, summed over a declared normal prior, weighted by how well each value explains the rungs;
* how far a single run lies off the law (seed, geometry), of which the target is a new draw;
* the noise of the evaluation that the forecast will be compared with (`steps.forecast.noise`);
* the compute conventions declared, equally likely beforehand;
* what an unfinished rung would have come to: its missing marks are not filled in, just not there.

They do not hold what no rung shows: another mixture, a law that changes its form above the ladder, a schedule of another shape.
The model is in `steps.forecast.joint_model`. Everything is summed over fixed grids; nothing is sampled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from marin_exec import ConfigError, StepFailed
from steps.config_checks import check_number
from steps.forecast.curves import CONVENTIONS, Curve
from steps.forecast.ladder_curves import interval_of
from steps.forecast.method import Band, MarkForecast, MethodForecast
from steps.forecast.noise import NOISE_FLOOR, EvaluationNoise, evaluation_noise, learning_rate_share

if TYPE_CHECKING:
    from steps.forecast.bands import Mixture
    from steps.forecast.joint_model import Components, Observed

METHOD = "joint_smooth_v1"


@dataclass(frozen=True, kw_only=True)
class JointSmooth:
    """All that the method declares."""

    asymptote_mean: float = 1.5
    """Of E's normal prior, nats a token."""
    asymptote_deviation: float = 0.2
    """Of the same. Projections of Marin's runs took 1.5 and 1.6, and one of those was too low (issue 8435)."""
    computes: tuple[str, ...] = CONVENTIONS
    """Conventions of compute, equally likely beforehand; those that all runs must have."""
    levels: tuple[float, ...] = (0.8, 0.95)
    """Coverage that the intervals are meant to have, ascending."""
    final_rate_share: float = 0.05
    """The learning rate at the end of a run as a share of its peak; it falls in a straight line, and noise with it."""

    seed_deviation: float | None = None
    """Deviation between the final losses of runs that differ in their seed alone, nats a token (kind ladder/noise): a single
    run lies at least so far off the law. None: not measured."""

    def __post_init__(self) -> None:
        check_number(self, "asymptote_deviation", "seed_deviation", above=0)
        check_number(self, "final_rate_share", low=0, high=1)
        if (
            not self.computes
            or not set(self.computes) <= set(CONVENTIONS)
            or len(set(self.computes)) < len(self.computes)
        ):
            raise ConfigError(
                f"JointSmooth.computes: {self.computes}; one or both of {', '.join(CONVENTIONS)} are needed"
            )
        rising = list(self.levels) == sorted(set(self.levels))
        if not self.levels or not rising or not all(0 < level < 1 for level in self.levels):
            raise ConfigError(f"JointSmooth.levels: {self.levels}; rising values above 0 and below 1 are needed")

    @property
    def id(self) -> str:
        return METHOD

    @property
    def conventions(self) -> tuple[str, ...]:
        """Those that compute is needed in."""
        return self.computes

    def forecast(
        self, curves: Sequence[Curve], target_flops: Mapping[str, float], marks: Sequence[float]
    ) -> MethodForecast:
        """Returns the forecast of a run (`steps.forecast.method.Method`).

        Raises:
            StepFailed: fewer than two rungs, evaluations that are not evenly spaced, or losses too low for the asymptote's prior.
        """
        from threadpoolctl import threadpool_limits

        if len(curves) < 2:
            raise StepFailed(f"forecast: {len(curves)} rungs; two or more are needed")
        for curve in curves:
            interval_of(sorted(curve.losses))
        noise = evaluation_noise(curves, self.final_rate_share)
        marks_M = np.array(marks)
        with threadpool_limits(limits=1):  # two BLAS threads add up in another order, and the last bits differ
            fits = {each: self._fit(curves, each, target_flops[each], None, marks_M, noise) for each in self.computes}
            mixture = self._mixture(fits, marks_M, noise)
            rows = self._rows(mixture, marks_M)
            ends = self._unfinished_ends(curves, marks_M, noise)
        last = curves[-1]
        details = {
            "noise": asdict(noise),
            **_learned(fits, mixture),
            "deviation_at_the_end": _deviations(fits, mixture, self._noise_at(marks_M[-1:], noise)[0]),
            "unfinished": ends,
        }
        final = last.losses[marks[-1]] if marks[-1] in last.losses else ends[-1]["final_loss"]
        return MethodForecast(rows, final, details)

    def _noise_at(self, progress: np.ndarray, noise: EvaluationNoise) -> np.ndarray:
        return np.hypot(noise.deviation * learning_rate_share(progress, self.final_rate_share), NOISE_FLOOR)

    def _fit(
        self,
        curves: Sequence[Curve],
        compute: str,
        flops: float,
        rung: int | None,
        marks_M: np.ndarray,
        noise: EvaluationNoise,
    ) -> "Components":
        from steps.forecast.joint_model import ASYMPTOTE_MARGIN, ASYMPTOTE_REACH, Wanted, posterior

        observed = self._observed(curves, compute, noise)
        lowest = self.asymptote_mean - ASYMPTOTE_REACH * self.asymptote_deviation
        if not lowest < observed.losses_N.min() - ASYMPTOTE_MARGIN:
            raise StepFailed(
                f"forecast: loss {observed.losses_N.min()} is not above any asymptote of the prior ({lowest:.3g} and up); "
                f"declare a lower asymptote_mean"
            )
        wanted = Wanted(marks_M, float(np.log(float(flops))), rung)
        return posterior(
            observed, wanted, self.asymptote_mean, self.asymptote_deviation, self._seed_scale(observed.losses_N)
        )

    def _seed_scale(self, losses_N: np.ndarray) -> float:
        """Returns the deviation between seeds in units of ln(loss - E), at the lowest loss and the prior's mean of E."""
        if self.seed_deviation is None:
            return 0.0
        return self.seed_deviation / max(losses_N.min() - self.asymptote_mean, self.asymptote_deviation)

    def _observed(self, curves: Sequence[Curve], compute: str, noise: EvaluationNoise) -> "Observed":
        from steps.forecast.joint_model import Observed

        rows = [
            (mark, np.log(curve.compute(compute)), curve.losses[mark], rung)
            for rung, curve in enumerate(curves)
            for mark in sorted(curve.losses)
        ]
        progress_N, log_flops_N, losses_N, rung_N = (np.array(column) for column in zip(*rows, strict=True))
        return Observed(progress_N, log_flops_N, losses_N, self._noise_at(progress_N, noise), rung_N)

    def _mixture(self, fits: "Mapping[str, Components]", marks_M: np.ndarray, noise: EvaluationNoise) -> "Mixture":
        """Returns the distribution of an evaluation at each mark, over all conventions."""
        from steps.forecast.bands import Mixture

        log_weight_K = np.concatenate([fit.log_weight_K for fit in fits.values()])
        weight_K = np.exp(log_weight_K - log_weight_K.max())
        mean_KM = np.concatenate([fit.mean_KM for fit in fits.values()])
        noise_M = self._noise_at(marks_M, noise)
        variance_KM = np.concatenate([fit.variance_KM for fit in fits.values()]) + (noise_M / np.exp(mean_KM)) ** 2
        asymptote_K = np.concatenate([fit.asymptote_K for fit in fits.values()])
        return Mixture(weight_K / weight_K.sum(), asymptote_K, mean_KM, np.sqrt(variance_KM))

    def _rows(self, mixture: "Mixture", marks_M: np.ndarray) -> tuple[MarkForecast, ...]:
        from steps.forecast.bands import falling

        tails = [(1 - level) / 2 for level in self.levels]
        quantiles_MQ = mixture.quantiles([0.5, *tails, *(1 - tail for tail in tails)])
        smooth_MQ = np.stack([falling(column) for column in quantiles_MQ.T], axis=1)
        rows = []
        for mark, (median, *ends) in zip(marks_M, smooth_MQ.tolist(), strict=True):
            pairs = zip(self.levels, ends[: len(tails)], ends[len(tails) :], strict=True)
            bands = tuple(Band(level, low, high) for level, low, high in pairs)
            rows.append(MarkForecast(float(mark), median, bands[-1].low, bands[-1].high, bands))
        return tuple(rows)

    def _unfinished_ends(
        self, curves: Sequence[Curve], marks_M: np.ndarray, noise: EvaluationNoise
    ) -> list[dict[str, Any]]:
        """Returns what each unfinished rung would have come to, as the same fit sees it."""
        found = []
        for rung, curve in enumerate(curves):
            if max(curve.losses) >= marks_M[-1]:
                continue
            fits = {
                each: self._fit(curves, each, curve.compute(each), rung, marks_M[-1:], noise) for each in self.computes
            }
            (end,) = self._rows(self._mixture(fits, marks_M[-1:], noise), marks_M[-1:])
            found.append(
                {
                    "rung": curve.name,
                    "last_mark": max(curve.losses),
                    "final_loss": end.loss,
                    "bands": [asdict(band) for band in end.bands],
                }
            )
        return found


def _learned(fits: "Mapping[str, Components]", mixture: "Mixture") -> dict[str, Any]:
    """Returns what the rungs said about the asymptote, the conventions and how far a rung lies off the law."""
    lengths = [len(fit.log_weight_K) for fit in fits.values()]
    by_convention = np.split(mixture.weight_K, np.cumsum(lengths)[:-1])
    rung_scale_K = np.concatenate([fit.rung_scale_K for fit in fits.values()])
    mean = float(mixture.weight_K @ mixture.asymptote_K)
    return {
        "asymptote": {
            "mean": mean,
            "deviation": float(np.sqrt(mixture.weight_K @ (mixture.asymptote_K - mean) ** 2)),
        },
        "compute_weights": {name: float(weights.sum()) for name, weights in zip(fits, by_convention, strict=True)},
        "rung_deviation": float(mixture.weight_K @ rung_scale_K),
    }


def _deviations(fits: "Mapping[str, Components]", mixture: "Mixture", noise: float) -> dict[str, float]:
    """Returns the deviation of the final loss, nats a token, by where it is from; their squares add up to the total's.

    By the law of total variance: between asymptotes, then between conventions at an asymptote, then the rest.
    """
    means_KM, variances_KM = mixture.moments()
    mean_K, variance_K, weight_K = means_KM[:, -1], variances_KM[:, -1], mixture.weight_K
    convention_K = np.repeat(np.arange(len(fits)), [len(fit.log_weight_K) for fit in fits.values()])
    rung_scale_K = np.concatenate([fit.rung_scale_K for fit in fits.values()])
    total = weight_K @ variance_K + weight_K @ (mean_K - weight_K @ mean_K) ** 2
    asymptote = _between([mixture.asymptote_K], mean_K, weight_K)
    compute = _between([mixture.asymptote_K, convention_K], mean_K, weight_K) - asymptote
    rung = weight_K @ (rung_scale_K * (mean_K - mixture.asymptote_K)) ** 2
    rest = total - asymptote - compute - rung - noise**2
    parts = {"total": total, "asymptote": asymptote, "compute_convention": compute, "single_run": rung, "evaluation": noise**2,
             "law": rest}  # fmt: skip
    return {name: float(np.sqrt(max(0.0, variance))) for name, variance in parts.items()}


def _between(keys: Sequence[np.ndarray], mean_K: np.ndarray, weight_K: np.ndarray) -> float:
    """Returns the variance of the mean between groups of components that have the same keys."""
    _, group_K = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
    weight_G = np.bincount(group_K, weight_K)
    mean_G = np.bincount(group_K, weight_K * mean_K) / np.maximum(weight_G, np.finfo(float).tiny)
    return float(weight_G @ (mean_G - weight_K @ mean_K) ** 2)
