"""forecast/public_figures: the published losses of a ladder and of the run above it, as curves and points.

The figures are packaged with this module (`public/*.json`), each file with its source, the names of the runs and the
conditions they share. A config states the file's digest, so other figures are another step.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import xxhash

from marin_exec import IdentityMismatch, Out, kind, runtime
from steps.files import read_bytes, write_json
from steps.forecast.curves import CONVENTIONS, CURVES_FILE, Conditions, Curve, write_curves
from steps.forecast.points import POINTS_FILE, MeasuredRun, Point, write_points

MARIN_535B_A23B = "marin_535b_a23b.json"
"""Ladder and hero run of marin-community/marin issue 8435: dropless Paloma macro loss, and the forecast that was published."""
MARIN_535B_A23B_DIGEST = "4c9f32e8b04803b96bee6e9411fe0799"


@dataclass(frozen=True, kw_only=True)
class PublicFiguresConfig:
    figures: Annotated[str, runtime] = MARIN_535B_A23B
    """Name of a file in steps/forecast/public/, or a path or URL. Where it lies is no identity; `digest` is."""
    digest: str = MARIN_535B_A23B_DIGEST
    """xxh3-128 of the file's bytes, 32 hex digits."""


@dataclass(frozen=True)
class PublicFiguresResult:
    source: str
    """Where the figures were published."""
    num_rungs: int
    num_points: int
    """Evaluations of the run above the ladder."""


@kind("forecast/public_figures", version=1)
def public_figures(config: PublicFiguresConfig, out: Out) -> PublicFiguresResult:
    """Writes `curves.json` (the rungs), `points.json` (the run above them) and `published.json` (its published forecast).

    Raises:
        IdentityMismatch: the file is not the one that the config means.
    """
    figures = read_figures(config)
    curves, run = ladder_of(figures), target_of(figures)
    write_curves(out.file(CURVES_FILE), curves)
    write_points(out.file(POINTS_FILE), run)
    write_json(out.file("published.json"), figures["published_forecast"])
    return PublicFiguresResult(figures["source"], len(curves), len(run.points))


def read_figures(config: PublicFiguresConfig) -> dict[str, Any]:
    """Returns the figures as they stand in the file.

    Raises:
        IdentityMismatch: the file's digest is not the config's.
    """
    packaged = Path(__file__).parent / "public" / config.figures
    path = str(packaged) if packaged.is_file() else config.figures
    data = read_bytes(path)
    digest = xxhash.xxh3_128_hexdigest(data)
    if digest != config.digest:
        raise IdentityMismatch(
            f"{path}: its digest is {digest}, the config says {config.digest}; state the digest of the figures that are meant"
        )
    return json.loads(data)


def ladder_of(figures: dict[str, Any]) -> list[Curve]:
    """Returns the rungs' curves, smallest first; an unfinished one ends early."""
    conditions = Conditions(**figures["conditions"])
    every = figures["evaluate_every"]
    curves = []
    for rung in figures["rungs"]:
        losses = {round((index + 1) * every, 6): loss for index, loss in enumerate(rung["losses"])}
        flops = {convention: rung[convention] for convention in CONVENTIONS}
        curves.append(Curve(rung["name"], rung["num_steps"], flops, losses, conditions=conditions))
    return curves


def target_of(figures: dict[str, Any]) -> MeasuredRun:
    """Returns the evaluations of the run above the ladder, each under the mixture that it was made with."""
    target, shared = figures["target"], figures["conditions"]
    points = tuple(
        Point(step, loss, Conditions(**{**shared, "mixture": mixture})) for step, loss, mixture in target["points"]
    )
    return MeasuredRun(target["name"], target["num_steps"], points)


def target_flops(figures: dict[str, Any]) -> dict[str, int]:
    """Returns the planned compute of the run above the ladder, by convention."""
    return {convention: figures["target"][convention] for convention in CONVENTIONS}
