"""At which updates a run is evaluated and checkpointed."""

from dataclasses import dataclass

from steps.recipe.checks import check_at_least


@dataclass(frozen=True, kw_only=True)
class Cadence:
    """Every so many updates, counted in updates that are done. A log that numbers updates from 0 shows one less."""

    every_steps: int
    """Updates between; a value above the run's length leaves the end alone."""
    at_start: bool = False
    """Also before the first update."""
    at_end: bool = True
    """Also after the last update, where the interval does not divide the run."""

    def __post_init__(self) -> None:
        check_at_least(self, 1, "every_steps")

    def steps(self, num_steps: int) -> list[int]:
        """Returns the numbers of done updates at which it is due, rising."""
        due = set(range(self.every_steps, num_steps + 1, self.every_steps))
        return sorted(due | ({0} if self.at_start else set()) | ({num_steps} if self.at_end else set()))

    def last_gap(self, num_steps: int) -> int:
        """Returns the updates between the last multiple of the interval and the end; 0 if the interval divides the run."""
        return num_steps % self.every_steps


def parts(num_steps: int, number: int, *, at_start: bool = False) -> Cadence:
    """Returns the cadence of round(num_steps / number) updates. It gives `number` times only if that divides the run."""
    return Cadence(every_steps=max(1, round(num_steps / number)), at_start=at_start)
