"""report/experiment: one self-contained page about an experiment, and the same values as JSON.

    index.html    the page: no network, no build step, readable without scripts
    report.json   all that is on it, and more; `provenance` holds what differs between equal runs, the rest is the content

The page is drawn from report.json's values alone, so the two cannot disagree.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Annotated, Any

from marin_exec import InputPath, Out, kind, measured
from steps.documents import NamedInput
from steps.files import read_bytes, write_bytes
from steps.forecast.forecast import NamedRun

FORMAT = "report/experiment/1"


@dataclass(frozen=True, kw_only=True)
class ExperimentReportConfig:
    """The outputs that a page shows."""

    title: str
    """Heading of the page."""
    hero: NamedRun
    """The run that was forecast."""
    rungs: tuple[NamedRun, ...]
    """The ladder below it, smallest first."""
    forecast: InputPath
    """Output of forecast/matched_progress."""
    score: InputPath
    """Output of forecast/score."""
    noise: InputPath
    """Output of ladder/noise."""
    evaluations: tuple[NamedInput, ...] = ()
    """Outputs of evaluate/checkpoint."""
    sources: tuple[NamedInput, ...]
    """Normalised documents data sets, to look samples up in."""
    cells: InputPath
    """Output of mix/cells: the funnel and the cube."""
    fuzzy: InputPath
    """Output of dedup/fuzzy."""
    heuristics: InputPath
    """Output of quality/heuristics."""
    contaminated: InputPath
    """Output of decontaminate/ngrams."""
    topics: InputPath
    """Output of cluster/topics."""
    labels: InputPath
    """Output of quality/labels_file or quality/labels_llm."""
    classifier: InputPath
    """Output of quality/classifier."""
    tokens: InputPath
    """Token store of the training cells."""
    mixture: InputPath
    """Output of mix/weights."""
    tolerated_share_of_drop: float = 0.5
    """Outside the forecast's range, an error under this share of the drop from the last rung is called near."""
    samples_per_reason: int = 1
    """Removed documents shown for each rule and benchmark; of near duplicates three times as many."""
    sample_characters: int = 280
    """Samples are cut to so many."""


@dataclass(frozen=True)
class ExperimentReportResult:
    """The page's headline, nats a token."""

    page: str
    """Below the output."""
    on_forecast: bool
    predicted_loss: float
    actual_loss: float
    error: float
    """Predicted less actual."""
    error_share_of_drop: float | None
    """None if there was no drop from the last rung."""
    seed_noise: float
    page_bytes: Annotated[int, measured]
    """Run ids and times are on the page, so its size may differ between equal runs."""


def content_digest(path: str) -> str:
    """Returns the SHA-256, in hex, of a report without its provenance, given its output directory."""
    report = json.loads(read_bytes(f"{path}/report.json"))
    content = {key: value for key, value in report.items() if key != "provenance"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@kind("report/experiment", version=1, content_digest=content_digest, reads_lineage=True)
def experiment_report(config: ExperimentReportConfig, out: Out) -> ExperimentReportResult:
    """Writes `index.html` and `report.json`.

    Raises:
        StepFailed: an output lacks a file that the page shows.
    """
    from steps.report.page import render_page

    out.progress("reading outputs")
    report = gather(config, out)
    out.progress("drawing the page")
    page = render_page(report).encode()
    for name, data in (("report.json", json.dumps(report, indent=1, allow_nan=False).encode()), ("index.html", page)):
        write_bytes(out.file(name), data)
    first = report["headline"]
    return ExperimentReportResult(
        page="index.html",
        page_bytes=len(page),
        on_forecast=first["on_forecast"],
        predicted_loss=first["predicted_loss"],
        actual_loss=first["actual_loss"],
        error=first["error"],
        error_share_of_drop=first["error_share_of_drop"],
        seed_noise=first["seed_noise"],
    )


def gather(config: ExperimentReportConfig, out: Out) -> dict[str, Any]:
    """Returns the report's values as plain JSON: content, and `provenance` apart."""
    from marin_exec.store.results import plain_result
    from steps.report import gather_data, gather_steps, gather_training
    from steps.report.gather_samples import gather_samples

    forecast = gather_training.gather_forecast(config.forecast, config.score, config.noise)
    hero = gather_training.gather_run(config.hero, "hero")
    single = ("score", "forecast", "noise", "cells", "fuzzy", "heuristics", "contaminated", "topics", "labels")
    inputs = [getattr(config, name) for name in (*single, "classifier", "tokens", "mixture")]
    inputs += [config.hero.run, *(each.run for each in config.rungs)]
    inputs += [each.path for each in (*config.evaluations, *config.sources)]
    report = {
        "format": FORMAT,
        "title": config.title,
        "headline": gather_training.headline(forecast, config.tolerated_share_of_drop),
        "forecast": forecast,
        "training": {
            "runs": [*(gather_training.gather_run(each, "rung") for each in config.rungs), hero],
            "evaluations": gather_training.gather_evaluations(config.evaluations),
        },
        "data": {
            "funnel": gather_data.gather_funnel(config.cells),
            "cube": gather_data.gather_cube(config.cells),
            "topics": gather_data.gather_topics(config.topics),
            "quality": gather_data.gather_quality(config.labels, config.classifier),
            "mixture": gather_data.gather_mixture(config.mixture, config.tokens),
            "removed_samples": gather_samples(
                config.sources,
                config.fuzzy,
                config.heuristics,
                config.contaminated,
                per_reason=config.samples_per_reason,
                characters=config.sample_characters,
            ),
        },
        "provenance": gather_steps.gather_provenance(
            out.path, out.step_name, inputs, f"{config.hero.run}/{hero['checkpoints'][-1]}"
        ),
    }
    return plain_result(report)
