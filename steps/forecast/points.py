"""Evaluations of one run as they came in: by update, each with the conditions that held, which may change on the way."""

import json
from dataclasses import asdict, dataclass

from marin_exec import StepFailed
from steps.files import read_bytes, write_json
from steps.forecast.curves import Conditions

POINTS_FILE = "points.json"


@dataclass(frozen=True)
class Point:
    """One evaluation."""

    step: int
    """Updates of the run at the evaluation, in its own count."""
    loss: float
    """Macro loss, nats a token."""
    conditions: Conditions


@dataclass(frozen=True)
class MeasuredRun:
    """A run's evaluations so far, in the order of its updates."""

    name: str
    num_steps: int
    """Its horizon: updates of the whole run, as planned."""
    points: tuple[Point, ...]

    def progress(self, point: Point) -> float:
        """Returns the share of the run done at one of its points."""
        return point.step / self.num_steps


def write_points(path: str, run: MeasuredRun) -> None:
    """Writes a points file."""
    write_json(path, asdict(run))


def read_points(path: str) -> MeasuredRun:
    """Reads the points file in a directory.

    Raises:
        StepFailed: it holds no points, or their steps do not rise.
    """
    page = json.loads(read_bytes(f"{path}/{POINTS_FILE}"))
    points = tuple(Point(row["step"], row["loss"], Conditions(**row["conditions"])) for row in page["points"])
    steps = [point.step for point in points]
    if not points or sorted(set(steps)) != steps:
        raise StepFailed(f"{path}/{POINTS_FILE}: steps {steps}; one point at least is needed, in rising order of steps")
    return MeasuredRun(page["name"], page["num_steps"], points)
