"""How fast duplicates are found, on one core, beside datasketch and rensa; and what memory it takes at two sizes.

    python -m benchmarks.data.dedup_speed

Texts are pieces of 2.3 kB of real documents, mean of what was measured of web text. Seconds are CPU seconds of the process
that does the work, the least of several rounds, kernels warm. datasketch and rensa are given the same texts, the same word
5-shingles (made as their users do), bands and rows, and the fastest calls that they offer; rensa has an environment of its own.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.data._corpora import normalised
from benchmarks.data._memory import peak_megabytes
from benchmarks.data._step_out import FolderOut
from benchmarks.figures import Figures
from benchmarks.peers.engines import Engine, environment_of
from benchmarks.peers.setup import make_environment
from steps.dedup.candidates import cluster_labels
from steps.dedup.exact import ExactConfig, exact_duplicates
from steps.dedup.fuzzy import FuzzyConfig, fuzzy_duplicates
from steps.dedup.minhash import band_hashes, coefficients, signatures
from steps.dedup.words import ngram_hashes, word_hashes
from steps.documents import DOCUMENT_SCHEMA, NamedInput, document_id, read_table, shard_name, shard_names, write_table

SOURCES = ("python-docs", "postgresql-docs", "django-5.0", "django-5.2", "kernel-docs")
PIECE_BYTES = 2_300
NUM_PIECES = 12_000
PEER_PIECES = 3_000
SETTINGS = {(14, 8): 20_000, (26, 11): 10_000}
"""Bands and rows, and the documents/s that are asked for."""
RENSA = Engine(name="rensa", script="", checks="", requirements=("rensa==0.5.0",))
BATCH = 512


def pieces() -> list[str]:
    """Returns texts of about `PIECE_BYTES`, cut at ends of lines from documents in a seeded order."""
    found: list[str] = []
    for path in normalised(SOURCES).values():
        for shard in shard_names(path):
            for text in read_table(path, shard, ["text"])["text"].to_pylist():
                found += _cut(text)
    random.Random(0).shuffle(found)
    return found[:NUM_PIECES]


def _cut(text: str) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for line in text.splitlines(keepends=True):
        held.append(line)
        size += len(line.encode())
        if size >= PIECE_BYTES - 40:
            yield "".join(held)
            held, size = [], 0


def bands_of(texts: pa.StringArray, bands: int, rows: int) -> np.ndarray:
    functions = coefficients(42, bands * rows)
    found = []
    for start in range(0, len(texts), BATCH):
        words = word_hashes(texts[start : start + BATCH])
        shingles = ngram_hashes(words.where(words.counts > 0), 5)
        found.append(band_hashes(signatures(shingles, *functions), bands, rows))
    return np.concatenate(found)


def groups_of(texts: pa.StringArray, bands: int, rows: int) -> list[list[int]]:
    hashes = bands_of(texts, bands, rows)
    labels, _ = cluster_labels(len(hashes), (hashes[:, band] for band in range(bands)))
    members: dict[int, list[int]] = {}
    for place, label in enumerate(labels.tolist()):
        members.setdefault(label, []).append(place)
    return [each for each in members.values() if len(each) > 1]


def seconds(work: Callable[[], object], rounds: int = 5) -> float:
    """Returns the CPU seconds of the fastest round."""
    taken = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return min(taken)


def measure_signing(figures: Figures, texts: pa.StringArray) -> None:
    bands_of(texts[:100], 2, 2)
    figures.add("mean size of a document", sum(len(each.as_py().encode()) for each in texts) / len(texts), "bytes")
    for (bands, rows), bar in SETTINGS.items():
        rate = len(texts) / seconds(lambda bands=bands, rows=rows: bands_of(texts, bands, rows))
        figures.add(f"MinHash from text, {bands} x {rows}, one core", rate, "documents/s", at_least=bar)


def measure_peers(figures: Figures, texts: list[str]) -> None:
    """The same work by all three: from texts to groups of candidates."""
    problem = make_environment(RENSA)
    if problem:
        raise SystemExit(f"rensa cannot be installed: {problem}")
    pythons = {"datasketch": sys.executable, "rensa": str(environment_of(RENSA) / "bin/python")}
    script = Path(__file__).with_name("_dedup_peer.py")
    column = pa.array(texts)
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "texts.json")
        written.write_text(json.dumps(texts), encoding="utf-8")
        for bands, rows in SETTINGS:
            own = len(texts) / seconds(lambda bands=bands, rows=rows: groups_of(column, bands, rows))
            figures.add(f"text to candidate groups, {bands} x {rows}", own, "documents/s")
            pairs = _pairs(groups_of(column, bands, rows))
            for peer, times in (("datasketch", 8), ("rensa", 4)):
                command = [pythons[peer], str(script), peer, str(written), str(bands), str(rows)]
                done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
                answer = json.loads(done.stdout)
                rate = len(texts) / answer["seconds"]
                figures.add(f"the same by {peer}", rate, "documents/s")
                figures.add(f"times {peer}'s, {bands} x {rows}", own / rate, "ratio", at_least=times)
                other = _pairs(answer["groups"])
                figures.add(f"pairs in one group by both, of those by either ({peer})", _share(pairs, other), "share")


def _pairs(groups: list[list[int]]) -> set[tuple[int, int]]:
    return {(one, other) for group in groups for one in group for other in group if one < other}


def _share(one: set, other: set) -> float:
    return len(one & other) / len(one | other) if one | other else 1.0


def measure_exact(figures: Figures, folder: Path) -> None:
    """The whole step, on ids of two sources that share a tenth."""
    texts = [[f"{i}" for i in range(250_000)], [f"{i}" for i in range(225_000, 475_000)]]
    sources = tuple(write_source(folder / name, each) for name, each in zip(("a", "b"), texts, strict=True))
    config = ExactConfig(sources=sources)
    rate = 500_000 / seconds(lambda: exact_duplicates(config, FolderOut(folder / "exact")), rounds=3)
    figures.add("exact duplicates from ids, the whole step", rate, "documents/s", at_least=200_000)


def write_source(path: Path, texts: list[str], per_shard: int = 10_000) -> NamedInput:
    """Writes texts as a documents data set."""
    rows = sorted((document_id(text), text) for text in set(texts))
    path.mkdir(parents=True)
    for number, start in enumerate(range(0, len(rows), per_shard)):
        ids, chosen = zip(*rows[start : start + per_shard], strict=True)
        columns = [ids, chosen, [""] * len(ids), ["{}"] * len(ids)]
        arrays = [pa.array(column, pa.string()) for column in columns]
        write_table(str(path / shard_name(number)), pa.table(arrays, schema=DOCUMENT_SCHEMA))
    return NamedInput(name=path.name, path=str(path))


def measure_memory(figures: Figures, folder: Path, texts: list[str]) -> None:
    """Peak memory of the steps over a corpus and over one of four times its size, each in a process of its own."""
    peaks = {}
    for times in (2, 8):
        copies = [f"{number} {text}" for number in range(times) for text in texts]
        source = write_source(folder / f"times-{times}", copies, per_shard=2_000)
        command = [sys.executable, "-m", "benchmarks.data.dedup_speed", "--memory-of", source.path]
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)
        peaks[times] = json.loads(answer.stdout)
        megabytes = sum(len(text.encode()) for text in copies) / 1e6
        for stage, value in peaks[times].items():
            figures.add(f"peak memory of {stage}, {megabytes:.0f} MB of text", value, "MB")
    growth = peaks[8]["signing"] / peaks[2]["signing"]
    figures.add("peak memory of signing, four times the text", growth, "ratio", at_most=1.1)


def print_memory(path: str) -> None:
    """Prints the peak memory of this process after signing, and after the whole of both steps."""
    from steps.dedup import fuzzy_stages

    source = NamedInput(name="s", path=path)
    with tempfile.TemporaryDirectory() as folder:
        exact = FolderOut(Path(folder, "exact"))
        exact_duplicates(ExactConfig(sources=(source,)), exact)
        config = FuzzyConfig(sources=(source,), exact=exact.path)
        fuzzy_stages.sign(config, FolderOut(Path(folder, "signed")))
        peaks = {"signing": peak_megabytes()}
        fuzzy_duplicates(config, FolderOut(Path(folder, "fuzzy")))
        peaks["the whole of dedup/fuzzy"] = peak_megabytes()
    print(json.dumps(peaks))


def main() -> int:
    figures = Figures()
    texts = pieces()
    measure_signing(figures, pa.array(texts))
    measure_peers(figures, texts[:PEER_PIECES])
    with tempfile.TemporaryDirectory() as folder:
        measure_exact(figures, Path(folder, "ids"))
        measure_memory(figures, Path(folder, "memory"), texts[:5_000])
    return figures.exit_code


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory-of"]:
        print_memory(sys.argv[2])
    else:
        raise SystemExit(main())
