"""What a registered forecast is for: a loss of another run, or of this run under other conditions, is not its to be scored by."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from steps.forecast.curves import Conditions


@dataclass(frozen=True, kw_only=True)
class Applicability:
    """The one run that a forecast was registered for."""

    run: str
    """Its name."""
    num_steps: int
    """Its horizon, in updates: the schedule of the learning rate ends there."""
    conditions: Conditions
    first_mark: float
    """Share of the run below which nothing was forecast."""

    @classmethod
    def from_json(cls, page: Mapping[str, Any]) -> "Applicability":
        """Returns what a registered forecast says of itself."""
        return cls(
            run=page["run"],
            num_steps=page["num_steps"],
            conditions=Conditions(**page["conditions"]),
            first_mark=page["first_mark"],
        )

    def differences(self, *, run: str, num_steps: int, conditions: Conditions, progress: float) -> list[str]:
        """Returns a phrase for each field in which a loss is outside, naming the value got and the one registered."""
        got = {"run": run, "num_steps": num_steps, **asdict(conditions)}
        registered = {"run": self.run, "num_steps": self.num_steps, **asdict(self.conditions)}
        found = [
            f"{name} is {got[name]!r}, registered is {each!r}" for name, each in registered.items() if got[name] != each
        ]
        if progress < self.first_mark:
            found.append(f"progress is {progress:.2%}, the first mark is {self.first_mark:.0%}")
        if progress > 1:
            found.append(f"progress is {progress:.2%}, the last mark is 100%")
        return found
