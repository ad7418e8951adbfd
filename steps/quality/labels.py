"""Quality labels: their file format, and how well two readers agree.

A label file is JSONL, one reading a line: `{"id", "score", "content_type", "reason", "reader"}`. A second reading of a
document is another line with another reader. No text is in it: `id` is the document's id, a hash of its text.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from marin_exec import open_file
from marin_exec.errors import ConfigError, StepFailed
from steps.files import read_bytes

CONTENT_TYPES = ("prose", "code", "reference", "legal", "structured", "other")
"""The rubric's content types."""
SCORES = (1, 2, 3, 4, 5)
"""The rubric's scores."""
_MAX_REASON_CHARACTERS = 500


@dataclass(frozen=True, kw_only=True)
class Label:
    id: str
    """Document id."""
    score: int
    """1 to 5."""
    content_type: str
    """One of `CONTENT_TYPES`."""
    reason: str
    """One line, the reader's own words."""
    reader: str
    """Who read it: a name of the reader or of the model."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How far two independent readings of the same documents agree."""

    pairs: int
    """Documents read twice."""
    exact: float
    """Share with the same score."""
    within_one: float
    """Share whose scores differ by at most 1."""
    weighted_kappa: float
    """Cohen's kappa with quadratic weights: 1 is perfect, 0 is chance."""
    spearman: float
    """Rank correlation of the scores."""
    same_content_type: float
    """Share with the same content type."""


def parse_judgement(value: object) -> tuple[int, str, str]:
    """Returns (score, content type, reason) from a JSON value of the rubric's answer form.

    Raises:
        ValueError: a field is missing or not what the rubric allows; the message says which.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{str(value)[:80]!r} is not a JSON object")
    score, content_type, reason = (value.get(key) for key in ("score", "content_type", "reason"))
    if isinstance(score, bool) or not isinstance(score, (int, float)) or score not in SCORES:
        raise ValueError(f"score {score!r} is not a whole number from 1 to 5")
    if content_type not in CONTENT_TYPES:
        raise ValueError(f"content_type {content_type!r} is not one of {', '.join(CONTENT_TYPES)}")
    if not isinstance(reason, str) or not reason.strip() or len(reason) > _MAX_REASON_CHARACTERS:
        raise ValueError(f"reason {str(reason)[:80]!r} is not a text of 1 to {_MAX_REASON_CHARACTERS} characters")
    return int(score), content_type, " ".join(reason.split())


def read_labels(path: str) -> list[Label]:
    """Returns the labels of a JSONL file, in its order.

    Raises:
        ConfigError: the file does not exist.
        StepFailed: a line is not a label (names the line), or a reader has read a document twice.
    """
    try:
        lines = read_bytes(path).decode().split("\n")
    except FileNotFoundError as error:
        raise ConfigError(f"label file {path}: not there; give the path of a JSONL file of labels") from error
    labels: list[Label] = []
    seen: set[tuple[str, str]] = set()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        label = _parse_line(line, f"{path} line {number}")
        if (label.id, label.reader) in seen:
            raise StepFailed(f"{path} line {number}: {label.reader} has read {label.id} before; one reading a reader")
        seen.add((label.id, label.reader))
        labels.append(label)
    return labels


def _parse_line(line: str, where: str) -> Label:
    try:
        value = json.loads(line)
        score, content_type, reason = parse_judgement(value)
    except ValueError as error:
        raise StepFailed(f"{where}: {error}; see steps/quality/rubric.md") from error
    for key in ("id", "reader"):
        if not isinstance(value.get(key), str) or not value[key]:
            raise StepFailed(f"{where}: {key} is {value.get(key)!r}; a text is needed")
    return Label(id=value["id"], score=score, content_type=content_type, reason=reason, reader=value["reader"])


def write_labels(full_path: str, labels: Iterable[Label]) -> None:
    """Writes labels as JSONL, sorted by document id and then reader."""
    with open_file(full_path, "wb") as file:
        for label in sorted(labels, key=lambda label: (label.id, label.reader)):
            file.write((json.dumps(asdict(label), ensure_ascii=False) + "\n").encode())


def first_readings(labels: Sequence[Label]) -> list[Label]:
    """Returns one label a document: the first in the order given."""
    first: dict[str, Label] = {}
    for label in labels:
        first.setdefault(label.id, label)
    return list(first.values())


def mean_scores(labels: Iterable[Label]) -> dict[str, float]:
    """Returns each document's score, the mean over its readers."""
    scores: dict[str, list[int]] = {}
    for label in labels:
        scores.setdefault(label.id, []).append(label.score)
    return {each: sum(values) / len(values) for each, values in scores.items()}


def agreement(labels: Sequence[Label]) -> Agreement | None:
    """Returns how far the first two readings of each document agree, or None if fewer than two documents have two."""
    readings: dict[str, list[Label]] = {}
    for label in labels:
        readings.setdefault(label.id, []).append(label)
    pairs = [each[:2] for each in readings.values() if len(each) > 1]
    if len(pairs) < 2:
        return None
    first = np.array([a.score for a, _ in pairs])
    second = np.array([b.score for _, b in pairs])
    return Agreement(
        pairs=len(pairs),
        exact=round(float((first == second).mean()), 4),
        within_one=round(float((np.abs(first - second) <= 1).mean()), 4),
        weighted_kappa=round(weighted_kappa(first, second), 4),
        spearman=round(spearman(first, second), 4),
        same_content_type=round(sum(a.content_type == b.content_type for a, b in pairs) / len(pairs), 4),
    )


def weighted_kappa(first: np.ndarray, second: np.ndarray) -> float:
    """Returns Cohen's kappa with quadratic weights of two int[n] arrays of scores; 1 if neither ever varies."""
    observed = np.square(first - second).mean()
    expected = np.square(first[:, None] - second[None, :]).mean()
    return float(1.0 - observed / expected) if expected else 1.0


def mean_ranks(values: np.ndarray) -> np.ndarray:
    """Returns float64[n]: ranks from 1, equal values sharing their mean rank."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Returns the rank correlation of two arrays, mean ranks for ties; 0 if one of them does not vary."""
    ranks = [mean_ranks(each) - (len(each) + 1) / 2 for each in (first, second)]
    norms = [float(np.sqrt(np.square(each).sum())) for each in ranks]
    return float(ranks[0] @ ranks[1] / (norms[0] * norms[1])) if min(norms) > 0 else 0.0
