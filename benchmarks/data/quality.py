"""Quality: what the student knows beside its baselines, what windows and chosen labels bring, and how fast documents are scored.

The labels are the project's own, on the quickstart's documents, which are made once in ~/.cache/marin-exec/bench-quality, and
the mails of SpamAssassin. Every figure about documents is of students that had not seen them or a near-duplicate.

    python -m benchmarks.data.quality
"""

import json
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.data._corpora import normalised
from benchmarks.figures import Figures
from steps.contract import document_shards, read_documents
from steps.documents import NamedInput, read_all
from steps.embed.encoders import StaticTable, encode
from steps.embed.vectors import scale_of
from steps.quality.calibration import METHODS, buckets, calibrated, fit_curves
from steps.quality.choice import Candidates, choose
from steps.quality.classifier import baselines, without_vectors
from steps.quality.committee import disagreement, fit_committee
from steps.quality.evaluation import (
    MIN_GROUP_LABELS,
    Estimate,
    auc,
    difference_within,
    resamples,
    scorecards,
    spearman_by,
    spearman_within,
)
from steps.quality.features import Blocks, FeatureSettings, near_duplicate_groups, read_blocks
from steps.quality.labelled import Labelled, cross_fit, held_out_folds, read_labelled
from steps.quality.labels import read_labels, weighted_kappa
from steps.quality.student import Student, fit_student
from steps.quality.windows import Windows, read_windows, stored_form

_ROOT = Path(__file__).resolve().parents[2]
_SOURCES = ("code", "docstrings", "readmes", "docs", "licences")
_SETTINGS = FeatureSettings()
_RESAMPLES = 1_000
_SPLITS = 12
"""Of the simulation of what to label next."""
_GIVEN, _BUDGETS = 60, (90, 120, 180)
_TRAINING_MAILS = 2_400
_TIMED = ("stdlib-code", "python-docs", "fortunes", "wordnet-3.0", "gnome-help/de")


def quickstart() -> dict[str, str]:
    """Returns the paths of the quickstart's steps up to the labels, made if they are missing."""
    store = Path.home() / ".cache/marin-exec/bench-quality"
    store.mkdir(parents=True, exist_ok=True)
    program, experiment = Path(sys.executable).parent / "marin-exec", _ROOT / "experiments/quickstart.py"
    command = [str(program), "run", str(experiment), "--backend", "local", "--prefix", str(store)]
    for name in ("embed/documents", "quality/labels", "embed/table", *(f"documents/{name}" for name in _SOURCES)):
        command += ["--until", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)


def say(figures: Figures, what: str, found: Estimate, unit: str, *, low_at_least: float | None = None) -> None:
    """Prints a figure with its interval; the bar, if any, is on the lower end."""
    figures.add(f"{what} (95 % interval {found.low:.3f} to {found.high:.3f})", found.value, unit)
    if low_at_least is not None:
        figures.add(f"{what}, lower end of the interval", found.low, unit, at_least=low_at_least)


def own_labels(figures: Figures, data: Labelled, table: str) -> None:
    """Held-out figures of the student and its baselines, calibration, and the student that reads through windows."""
    blocks = data.blocks(_SETTINGS, None, "")
    folds, _ = held_out_folds(data, blocks, 10, 0)
    held = cross_fit(data, blocks, folds, _SETTINGS)
    draws, types = resamples(data.sources, _RESAMPLES, 0), np.array(data.content_types)
    windows = Windows(encoder=StaticTable(table=table))
    predictors = {
        "student": held.raw,
        "student through windows": cross_fit(data, data.blocks(_SETTINGS, windows, ""), folds, _SETTINGS).raw,
        "hashed n-grams": cross_fit(data, without_vectors(blocks), folds, _SETTINGS).raw,
        **baselines(data.texts, data.scores, data.sources),
    }
    cards = scorecards(predictors, data.scores, data.sources, types, positive_score=4.0, draws=draws)
    for name, card in cards.items():
        bar = 0.0 if name == "student" else None
        say(figures, f"{name}, all documents", card.spearman, "Spearman")
        say(figures, f"{name}, within sources", card.spearman_within_source, "Spearman", low_at_least=bar)
        say(figures, f"{name}, within content types", card.spearman_within_type, "Spearman", low_at_least=bar)
        say(figures, f"{name}, score 4 or more", card.auc, "AUC")
    for kind, groups in (("source", data.sources), ("content type", types)):
        for name, found in spearman_by(held.raw, data.scores, groups, draws, MIN_GROUP_LABELS).items():
            say(figures, f"student in {kind} {name}", found, "Spearman")
    for name, bar in (("length", 0.0), ("hashed n-grams", None)):
        gain = difference_within(held.raw, predictors[name], data.scores, data.sources, draws)
        say(figures, f"student less {name}, within sources", gain, "Spearman", low_at_least=bar)
    levels = np.floor(data.scores + 0.5).astype(int) - 1
    for method in METHODS:
        curves = fit_curves(held.raw, data.scores, held.content_types, 40, method)
        found = buckets(calibrated(held.raw, held.content_types, curves)).astype(int)
        figures.add(f"{method}: bucket and label, weighted kappa", weighted_kappa(found, levels), "kappa")
        for name in sorted(set(curves) - {"all"}):
            chosen = np.array(held.content_types) == name
            label, bucket = (float((each[chosen] == 2).mean()) for each in (levels, found))
            figures.add(f"{method}: {name}, share in the middle bucket (of the labels: {label:.2f})", bucket, "share")


def junk_in_the_middle(figures: Figures, data: Labelled, table: str) -> None:
    """Documents whose middle half is replaced by text of badly labelled ones: who tells them from whole ones?"""
    windows = Windows(encoder=StaticTable(table=table))
    long = [
        row for row in range(len(data.ids)) if len(data.texts[row]) >= 3 * windows.characters and data.scores[row] >= 3
    ]
    junk = "\n".join(data.texts[row] for row in range(len(data.ids)) if data.scores[row] <= 2 and row % 2)
    seen = np.array(
        [row for row in range(len(data.ids)) if row not in long and not (data.scores[row] <= 2 and row % 2)]
    )
    whole = [data.texts[row] for row in long]
    spliced = []
    for number, text in enumerate(whole):
        quarter = len(text) // 4
        start = number * 997 % max(1, len(junk) - 2 * quarter)
        filler = (junk[start:] + junk * (1 + 2 * quarter // len(junk)))[: 2 * quarter]
        spliced.append(text[:quarter] + filler + text[-quarter:])
    types = np.array(data.content_types)
    labelled = np.concatenate([np.zeros(len(whole), dtype=bool), np.ones(len(whole), dtype=bool)])
    vectors = stored_form(encode(windows.encoder, [*whole, *spliced]), windows.encoder.int8_range)

    def fitted(blocks: Blocks) -> Student:
        return fit_student(
            blocks.take(seen), data.scores[seen], types[seen].tolist(), settings=_SETTINGS, scale=data.scale
        )

    opening = fitted(data.blocks(_SETTINGS, None, ""))
    first = opening.predict(read_blocks([*whole, *spliced], vectors, _SETTINGS)).raw
    through = fitted(data.blocks(_SETTINGS, windows, ""))
    blocks = read_windows([*whole, *spliced], vectors, _SETTINGS, windows, data.scale, "")
    found = through.predict(blocks)
    by_window = found.by_window.reshape(-1, 3)
    figures.add("long documents given a junk middle", len(whole), "documents")
    figures.add("junk middles told by the score of the first 4,000 characters", auc(-first, labelled), "AUC")
    figures.add("junk middles told by the mean of three windows", auc(-found.raw, labelled), "AUC")
    drop = by_window[:, [0, 2]].mean(axis=1) - by_window[:, 1]
    figures.add("junk middles told by the middle window less the others", auc(drop, labelled), "AUC", at_least=0.8)


def what_to_label_next(figures: Figures, data: Labelled) -> None:
    """Labels are hidden and asked for again: by choice, and in a random order, at equal budgets."""
    blocks, types = data.blocks(_SETTINGS, None, ""), np.array(data.content_types)
    groups = near_duplicate_groups(blocks)

    def fit(rows: np.ndarray) -> Student:
        return fit_student(
            blocks.take(rows), data.scores[rows], types[rows].tolist(), settings=_SETTINGS, scale=data.scale
        )

    def next_rows(rows: np.ndarray, pool: np.ndarray, count: int, seed: int) -> np.ndarray:
        student, mine = fit(rows), blocks.take(rows)
        weights = fit_committee(mine, data.scores[rows], groups[rows], student, members=16, seed=seed)
        asked = blocks.take(pool)
        candidates = Candidates(
            ids=[data.ids[row] for row in pool],
            sources=data.sources[pool],
            content_types=np.array(student.predict(asked).content_types),
            uncertainty=disagreement(asked, student, weights),
            vectors=data.vectors[pool],
        )
        by_source, by_type = Counter(data.sources[rows].tolist()), Counter(types[rows].tolist())
        found = choose(candidates, data.vectors[rows], by_source, by_type, count=count, seed=seed)
        return pool[found.rows]

    figures_of: dict[tuple[str, int], list[float]] = {}
    for split in range(_SPLITS):
        rng = np.random.default_rng(split)
        held_out = np.isin(groups, rng.choice(np.unique(groups), len(np.unique(groups)) // 3, replace=False))
        test, order = np.flatnonzero(held_out), rng.permutation(np.flatnonzero(~held_out))
        chosen = order[:_GIVEN]
        for budget in _BUDGETS:
            pool = np.setdiff1d(order, chosen)
            chosen = np.concatenate([chosen, next_rows(chosen, pool, budget - len(chosen), split)])
            for name, rows in (("chosen", chosen), ("random", order[:budget])):
                raw = fit(rows).predict(blocks.take(test)).raw
                value = spearman_within(raw, data.scores[test], data.sources[test])
                figures_of.setdefault((name, budget), []).append(value)
    for budget in _BUDGETS:
        chosen, random = (np.array(figures_of[name, budget]) for name in ("chosen", "random"))
        figures.add(f"{budget} labels, random order, within sources", float(random.mean()), "Spearman")
        figures.add(f"{budget} labels, chosen, within sources", float(chosen.mean()), "Spearman")
        error = float((chosen - random).std(ddof=1) / np.sqrt(_SPLITS))
        gain = float((chosen - random).mean())
        bar = 0.0 if budget == _BUDGETS[1] else None
        figures.add(f"{budget} labels, gain of choosing (standard error {error:.3f})", gain, "Spearman", at_least=bar)


def mails(figures: Figures, path: str, table: str) -> None:
    """Spam against ham: the same student, fitted on part of the mails."""
    documents = read_all(path)
    texts, ids = documents["text"].to_pylist(), documents["id"].to_pylist()
    ham = np.array([json.loads(each)["label"] == "ham" for each in documents["metadata"].to_pylist()])
    encoder = StaticTable(table=table)
    vectors = stored_form(encode(encoder, texts), encoder.int8_range)
    data = Labelled(
        ids=ids,
        texts=texts,
        vectors=vectors,
        scores=np.where(ham, 5.0, 1.0),
        content_types=["prose"] * len(ids),
        sources=np.array(["mail"] * len(ids)),
        scale=scale_of(encoder.int8_range),
    )
    blocks = data.blocks(_SETTINGS, None, "")
    folds, groups = held_out_folds(data, blocks, 100, 0)
    share = int(100 * _TRAINING_MAILS / len(ids))
    train, test = np.flatnonzero(folds < share), np.flatnonzero(folds >= share)
    figures.add(f"mails, in {groups} groups of near-duplicates", len(ids), "mails")
    figures.add("mails fitted on", len(train), "mails")
    draws = [np.random.default_rng(seed).choice(len(test), len(test)) for seed in range(200)]
    predictors = {"length": -baselines(texts, data.scores, data.sources)["length"][test]}
    for name, seen in (("hashed n-grams", without_vectors(blocks)), ("student", blocks)):
        types = ["prose"] * len(train)
        student = fit_student(seen.take(train), data.scores[train], types, settings=_SETTINGS, scale=data.scale)
        predictors[name] = student.predict(seen.take(test)).raw
    for name, raw in predictors.items():
        raw = raw if auc(raw, ham[test]) >= 0.5 else -raw
        low, high = np.quantile([auc(raw[draw], ham[test][draw]) for draw in draws], (0.025, 0.975))
        value = auc(raw, ham[test])
        bar = 0.99 if name == "student" else None
        figures.add(f"spam and ham, {name} (95 % interval {low:.4f} to {high:.4f})", value, "AUC", at_least=bar)


def speed(figures: Figures, data: Labelled, paths: dict[str, str]) -> None:
    """Scores whole sources a shard at a time, embeddings taken as given; reading the texts counts."""
    blocks = data.blocks(_SETTINGS, None, "")
    student = fit_student(blocks, data.scores, data.content_types, settings=_SETTINGS, scale=data.scale)
    curves = fit_curves(student.predict(blocks).raw, data.scores, data.content_types, 40)
    documents = characters = 0
    rng = np.random.default_rng(0)
    seconds = 0.0
    peaks = []
    for path in paths.values():
        for shard in document_shards(path):
            vectors = rng.normal(size=(read_documents(path, shard, ["id"]).num_rows, 256)).astype(np.float32)
            started = time.process_time()
            texts = read_documents(path, shard, ["id", "text"])["text"].to_pylist()
            found = student.predict(read_blocks(texts, vectors, _SETTINGS))
            buckets(calibrated(found.raw, found.content_types, curves))
            seconds += time.process_time() - started
            documents += len(texts)
            characters += sum(map(len, texts))
        peaks.append((documents, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3))
    figures.add("documents scored", documents, "documents")
    figures.add("characters of a document, mean", characters / documents, "characters")
    figures.add("documents scored a CPU second", documents / seconds, "documents/s", at_least=4_000)
    figures.add("text scored a CPU second", characters / seconds / 1e6, "million characters/s")
    for count, peak in (peaks[0], peaks[-1]):
        figures.add(f"peak memory after {count:,} documents", peak, "MB")


def main() -> int:
    figures = Figures()
    paths = quickstart()
    corpora = normalised(("spam-assassin", *_TIMED))
    table = paths["embed/table"]
    data = read_labelled(
        tuple(NamedInput(name=name, path=paths[f"documents/{name}"]) for name in _SOURCES),
        paths["embed/documents"],
        read_labels(f"{paths['quality/labels']}/labels.jsonl"),
        at_least=400,
        advice="the quickstart's labels and sources do not go together",
    )
    speed(figures, data, {name: corpora[name] for name in _TIMED})
    own_labels(figures, data, table)
    junk_in_the_middle(figures, data, table)
    what_to_label_next(figures, data)
    mails(figures, corpora["spam-assassin"], table)
    return figures.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
