"""Fourteen sources of unlike text, 2,000 documents each at most, and the quickstart's table of token vectors."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.data._corpora import normalised
from steps.cluster.sample import draw_rows
from steps.documents import read_all

SOURCES = (
    "python-docs", "postgresql-docs", "perl-docs", "kernel-docs", "man-pages/ja", "libreoffice-help/zh", "gnome-help/de",
    "dictionaries/foldoc", "dictionaries/gcide", "wordnet-3.0", "fortunes-ru", "brown", "spam-assassin", "stdlib-code",
)  # fmt: skip
_DOCUMENTS = 2_000
_ROOT = Path(__file__).resolve().parents[2]


def texts_and_sources() -> tuple[list[str], np.ndarray]:
    """Returns a seeded draw of texts and the number of each one's source, int64[n]."""
    texts, sources = [], []
    for number, path in enumerate(normalised(SOURCES).values()):
        table = read_all(path, columns=["id", "text"])
        rows = draw_rows(table["id"].to_pylist(), _DOCUMENTS, 0)
        texts += table["text"].take(rows).to_pylist()
        sources += [number] * len(rows)
    return texts, np.array(sources)


def static_table() -> str:
    """Returns the folder of the quickstart's embed/table, made once a machine (26 CPU seconds)."""
    store = Path.home() / ".cache/marin-exec/bench-quality"
    store.mkdir(parents=True, exist_ok=True)
    program, experiment = Path(sys.executable).parent / "marin-exec", _ROOT / "experiments/quickstart.py"
    command = [
        str(program),
        "run",
        str(experiment),
        "--backend",
        "local",
        "--prefix",
        str(store),
        "--until",
        "embed/table",
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)["embed/table"]
