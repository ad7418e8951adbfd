"""The label file that the small chain is given: a judgement by rule, made from the documents themselves."""

import sys
from pathlib import Path

from directory_out import DirectoryOut
from engine import EXPERIMENTS

from steps.documents import read_all
from steps.normalize.normalize import normalize
from steps.quality.labels import Label, write_labels
from steps.sources.environment import environment_texts

CONTENT_TYPES = {"code": "code", "docstrings": "reference", "licences": "legal"}


def score_by_length(text: str) -> int:
    """Returns the test's own rule of quality, which a student can learn: longer is better, by doublings."""
    return min(5, max(1, len(text).bit_length() - 8))


def write_labels_by_length(folder: Path) -> Path:
    """Writes a label for each document of the small chain, a second reading for every fourth; returns the file."""
    sys.path.insert(0, str(EXPERIMENTS))
    import small_chain

    labels: dict[tuple[str, str], Label] = {}
    for name, config in small_chain.source_configs().items():
        raw, documents = folder / "raw" / name, folder / "documents" / name
        environment_texts(config, DirectoryOut(raw))
        normalize(small_chain.normal_config(str(raw)), DirectoryOut(documents))
        table = read_all(str(documents), columns=["id", "text"])
        for identifier, text in zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True):
            for label in _readings(identifier, text, CONTENT_TYPES[name]):
                labels[label.id, label.reader] = label
    path = folder / "labels.jsonl"
    write_labels(str(path), labels.values())
    return path


def _readings(identifier: str, text: str, content_type: str) -> list[Label]:
    score, reason = score_by_length(text), f"{len(text)} characters"
    readings = [Label(id=identifier, score=score, content_type=content_type, reason=reason, reader="first")]
    if int(identifier, 16) % 4 == 0:
        again = min(5, score + 1)
        readings.append(Label(id=identifier, score=again, content_type=content_type, reason=reason, reader="second"))
    return readings
