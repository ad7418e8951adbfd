"""Figures that somebody gave for a run, in public or in a plan, compared with what its recipe gives."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from steps.recipe.findings import Decides, Finding
from steps.recipe.flops import PUBLISHED, PUBLISHED_WITH_HEAD, forward_flops_per_token
from steps.recipe.parameters import total_parameters
from steps.recipe.recipe import Rung


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A figure that somebody gave for a run.

    Raises:
        ValueError: the quantity is not known, or the figure is not a number.
    """

    run: str
    quantity: str
    """One of `QUANTITIES`."""
    figure: str
    """As it was printed, as a plain number, e.g. "535.3e9": it holds if what the recipe gives rounds to it."""
    source: str
    at: int = 0
    """The update, for quantities of an update."""
    decides: Decides = "configuration"
    """Which of the two holds if they differ."""
    remark: str = ""
    """Why they differ, if it is known."""

    def __post_init__(self) -> None:
        if self.quantity not in QUANTITIES:
            raise ValueError(f"statement: quantity {self.quantity!r}; one of {', '.join(QUANTITIES)} is needed")
        try:
            finite = Decimal(self.figure).is_finite()
        except InvalidOperation:
            finite = False
        if not finite:
            raise ValueError(f"statement: figure {self.figure!r}; a number as it was printed is needed, e.g. '18.0e12'")

    @property
    def within(self) -> float:
        """Half a unit of the last digit that was printed."""
        exponent = Decimal(self.figure).as_tuple().exponent
        assert isinstance(exponent, int)  # it is finite
        return float(Decimal(5).scaleb(exponent - 1))

    def check(self, run: Rung) -> Finding | None:
        """Returns what the recipe gives instead; None if the statement holds."""
        found = QUANTITIES[self.quantity](run, self.at)
        if abs(found - float(self.figure)) <= self.within * (1 + 1e-9):
            return None
        where = f" at step {self.at:,}" if self.at else ""
        return Finding(
            rule=f"stated-{self.quantity.replace(' ', '-')}",
            severity="mismatch",
            run=self.run,
            stated=f"{self.quantity}{where}: {_printed(float(self.figure))}",
            source=self.source,
            configured=_printed(found),
            decides=self.decides,
            remark=self.remark or "not explained: find out which of the two is meant, and correct the other",
        )


QUANTITIES: dict[str, Callable[[Rung, int], float]] = {
    "active parameters": lambda run, _: run.active_parameters,
    "total parameters": lambda run, _: run.total_parameters,
    "total parameters without gated norms": lambda run, _: total_parameters(run.geometry, gated_norms=False),
    "layers": lambda run, _: run.geometry.num_layers,
    "training steps": lambda run, _: run.horizon.num_steps,
    "tokens a step": lambda run, _: run.horizon.tokens_per_step,
    "training tokens": lambda run, _: run.horizon.tokens,
    "devices": lambda run, _: run.mesh.devices,
    "devices installed": lambda run, _: run.mesh.devices_installed,
    "forward FLOPs a token": lambda run, _: forward_flops_per_token(run.geometry, PUBLISHED),
    "training FLOPs": lambda run, _: run.flops(PUBLISHED),
    "training FLOPs with output head": lambda run, _: run.flops(PUBLISHED_WITH_HEAD),
    "ladder share of FLOPs": lambda run, _: run.recipe.ladder_share(),
    "Adam peak rate": lambda run, _: run.rates.adam,
    "hyperball peak rate": lambda run, _: run.rates.hyperball,
    "hyperball rate": lambda run, step: run.rates.hyperball_at(step),
    "Adam epsilon": lambda run, _: run.rates.epsilon,
    "Adam beta2": lambda run, _: run.rates.beta2,
    "warm-up steps": lambda run, _: run.rates.warmup_steps,
    "cooldown start": lambda run, _: run.stages[-1].start_step,
    "mixture budget": lambda run, _: run.recipe.mixture.budget_tokens,
}
"""What a statement can be about, each in the published convention where there are several, with the update where it needs one."""


def _printed(value: float) -> str:
    if value == int(value) and 1 <= abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.6g}"
