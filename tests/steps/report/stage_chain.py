"""Curation in small: hostile texts, vectors that say their subject, and every later stage by its real step, to its page."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from marin_exec import InputPath, Out, Step, kind, main
from steps.cluster.topics import TopicsConfig, topics
from steps.documents import DOCUMENT_SCHEMA, NamedInput, document_id, read_table, write_table
from steps.embed.documents import EmbedResult
from steps.embed.vectors import embedding_table, quantize, scale_of
from steps.files import write_json
from steps.mix.cells import CellsConfig, documents_by_cell
from steps.mix.weights import Phase, Proportional, WeightsConfig, mixture_weights
from steps.quality.classifier import ClassifierConfig, classifier
from steps.quality.gate import GateConfig, gate
from steps.quality.labels import Label, write_labels
from steps.quality.next_labels import NextLabelsConfig, next_labels
from steps.quality.scores import ScoresConfig, scores
from steps.report.mixture import MixtureReportConfig, mixture_report
from steps.report.quality import QualityReportConfig, quality_report
from steps.report.topics import TopicsReportConfig, topics_report
from steps.sources.cards import SourceCard
from steps.tokenize.bpe import BpeConfig, train_bpe
from steps.tokenize.cache import CacheConfig, token_cache

SHARD = "part-00000.parquet"
SUBJECTS = (
    "matrix eigenvalue solver",
    "poem river mountain",
    "socket <b>server</b> request",
    "licence warranty liability",
)
SECRET = "the secret that only mails hold"
HOSTILE = (
    "</script><script>document.title = 'owned'</script>",
    "<img src=x onerror=\"document.title = 'owned'\"> {{ 7 * 7 }} {% raw %}",
    "right to left \u202e gpj.exe, jane.doe@example.com or +1 (555) 123-4567",
)
PER_SUBJECT = 16


def card(name: str, show: bool = True) -> SourceCard:
    return SourceCard(
        name=name, kind="help", languages=("en",), origin="a <test>", licence="CC-0", limits="Made up.", show=show
    )


CARDS = (card("prose"), card("mail", show=False))
SOURCES = ("prose", "mail", "uncarded")


def texts_of(source: str) -> list[str]:
    secret = "" if source == "prose" else f" {SECRET}"
    hostile = dict(enumerate(HOSTILE))
    return [
        f"{source} {subject} number {n} {'more words to read ' * (n % 5)}{_filler(source, n, place)} {hostile.get(n, '')}{secret}"
        for place, subject in enumerate(SUBJECTS)
        for n in range(PER_SUBJECT + 4 * place)
    ]


def _filler(source: str, *numbers: int) -> str:
    """Words that keep texts from being near-duplicates of each other."""
    rng = np.random.default_rng([*source.encode(), *numbers])
    return " ".join(f"filler{number}" for number in rng.integers(0, 300, size=12).tolist())


@dataclass(frozen=True, kw_only=True)
class TextsConfig:
    source: str


@kind("test/hostile_texts", version=1)
def texts(config: TextsConfig, out: Out) -> dict[str, int]:
    named = sorted((document_id(t), t, f"<i>{config.source}/{n}", "{}") for n, t in enumerate(texts_of(config.source)))
    columns = [pa.array(list(column), pa.string()) for column in zip(*named, strict=True)]
    write_table(out.file(SHARD), pa.table(columns, schema=DOCUMENT_SCHEMA))
    return {"documents": len(named)}


@dataclass(frozen=True, kw_only=True)
class VectorsConfig:
    sources: tuple[NamedInput, ...]
    encoder: str = "<u>made up</u>"


@kind("test/vectors", version=1)
def vectors(config: VectorsConfig, out: Out) -> EmbedResult:
    documents = 0
    for source in config.sources:
        rows = read_table(source.path, SHARD, ["id", "text"]).to_pylist()
        found = np.stack([_vector(row["id"], row["text"]) for row in rows])
        table = embedding_table([row["id"] for row in rows], quantize(found, 1.0), scale_of(1.0))
        write_table(out.file(f"{source.name}/{SHARD}"), table)
        documents += len(rows)
    return EmbedResult(
        documents=documents, dimensions=8, scale=scale_of(1.0), documents_by_source={}, clipped_fraction=0.00025,
        min_cosine=0.9911, mean_cosine=0.9987, seconds=0.0,
    )  # fmt: skip


def _vector(identifier: str, text: str) -> np.ndarray:
    """Near its subject's axis; the first two axes lie close to each other."""
    subject = next(place for place, words in enumerate(SUBJECTS) if words in text)
    vector = 0.1 * np.random.default_rng(int(identifier, 16)).normal(size=8) + np.eye(8)[subject]
    vector[0] += subject == 1
    return vector / np.linalg.norm(vector)


@dataclass(frozen=True, kw_only=True)
class LabelsConfig:
    documents: tuple[NamedInput, ...]


@kind("test/stage_labels", version=1)
def labels(config: LabelsConfig, out: Out) -> dict[str, int]:
    """Longer is better, and the content type goes by the subject; some documents are read twice."""
    found = []
    for source in config.documents:
        for row in read_table(source.path, SHARD, ["id", "text"]).to_pylist():
            label = Label(
                id=row["id"], score=1 + row["text"].count("more words"), reason="so", reader="one",
                content_type="prose" if "poem" in row["text"] or "matrix" in row["text"] else "reference",
            )  # fmt: skip
            found.append(label)
    again = [replace(each, reader="two", score=min(5, each.score + n % 2)) for n, each in enumerate(found[:12])]
    write_labels(out.file("labels.jsonl"), [*found, *again])
    return {"documents": len(found)}


def quality(sources: tuple[NamedInput, ...], embedded: Step) -> dict[str, Any]:
    """Labels of two sources, one of which nobody may read; the third has none."""
    read = Step("labels", labels, LabelsConfig(documents=sources[:2]))
    asked: dict[str, Any] = {"documents": sources, "embeddings": embedded}
    student = Step(
        "classifier", classifier, ClassifierConfig(**asked, labels=read, num_folds=3, num_resamples=4, hash_bits=8)
    )
    scored = Step("scores", scores, ScoresConfig(**asked, classifier=student))
    gated = Step("gate", gate, GateConfig(documents=sources, scores=scored, unjudged=("uncarded",)))
    wanted = NextLabelsConfig(
        **asked, labels=read, classifier=student, never_show=("mail",), count=12, members=3, candidates_per_source=40
    )
    chosen = Step("next", next_labels, wanted)
    return {"labels": read, "classifier": student, "scores": scored, "gate": gated, "next_labels": chosen}


@dataclass(frozen=True, kw_only=True)
class NothingConfig:
    sources: tuple[NamedInput, ...]
    columns: tuple[str, ...] = ()


@kind("test/nothing_found", version=1)
def nothing_found(config: NothingConfig, out: Out) -> dict[str, int]:
    """The tables of a judgement that is against no document; dense with the column `keep`, else sparse."""
    for source in config.sources:
        ids = read_table(source.path, SHARD, ["id"])
        empty = pa.table(
            {"id": pa.array([], pa.string()), **{name: pa.array([], pa.string()) for name in config.columns}}
        )
        kept = ids.append_column("keep", pa.array([True] * len(ids))).append_column(
            "reasons", pa.array([""] * len(ids))
        )
        write_table(out.file(f"{source.name}/{SHARD}"), kept if "keep" in config.columns else empty)
    return {}


@kind("test/languages", version=1)
def languages(config: NothingConfig, out: Out) -> dict[str, int]:
    for source in config.sources:
        ids = read_table(source.path, SHARD, ["id"])
        said = ["en" if identifier < "8" else "de" for identifier in ids["id"].to_pylist()]
        write_table(out.file(f"{source.name}/{SHARD}"), ids.append_column("language", pa.array(said)))
    return {}


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    trained_on: InputPath


@kind("test/simulating_run", version=1)
def run(config: RunConfig, out: Out) -> dict[str, int]:
    """What train/language_model says of a small run that stands for a larger one."""
    write_json(out.file("run.json"), {"tokens": 2_000, "simulated_budget_tokens": 20_000, "subset_seed": 5})
    return {}


def mixed(sources: tuple[NamedInput, ...], topic: Step, scored: Step) -> dict[str, Any]:
    """Cells, a tokenizer, a token store and a mixture of which one cell and the tail are small."""
    columns = {
        "exact": ("kept_source",),
        "fuzzy": ("kept_source", "kept_id", "containment"),
        "heuristics": ("keep",),
        "contaminated": ("benchmark", "max_overlap"),
        "heldout": (),
    }
    found = {
        name: Step(f"judge/{name}", nothing_found, NothingConfig(sources=sources, columns=each))
        for name, each in columns.items()
    }
    kept = Step("cells", documents_by_cell, CellsConfig(sources=sources, **found, topics=topic, quality=scored))
    bpe = Step("tokenizer", train_bpe, BpeConfig(documents=kept / "cells", vocabulary_size=400))
    tokens = Step("tokens", token_cache, CacheConfig(documents=kept / "cells", tokenizer=bpe))
    phases = (Phase(rule=Proportional()), Phase(rule=Proportional(quality_exponent=2.0), start_fraction=0.75))
    weights = WeightsConfig(
        tokens=tokens, sequence_length=32, budgets_tokens=(2_000, 20_000), phases=phases, block_sequences=100, max_epochs=1.5,
        over_cap="water_fill",
    )  # fmt: skip
    mixture = Step("mixture", mixture_weights, weights)
    spoken = Step("languages", languages, NothingConfig(sources=sources))
    runs = (NamedInput(name="a <run>", path=Step("run", run, RunConfig(trained_on=mixture))),)
    return {"runs": runs, "cells": kept, "tokenizer": bpe, "tokens": tokens, "mixture": mixture, "languages": spoken}


def pipeline() -> list[Step]:
    sources = tuple(
        NamedInput(name=name, path=Step(f"documents/{name}", texts, TextsConfig(source=name))) for name in SOURCES
    )
    embedded = Step("embed", vectors, VectorsConfig(sources=sources))
    topics_config = TopicsConfig(
        documents=sources, embeddings=embedded, num_clusters=8, num_topics=4, min_topic_fraction=0.1, restarts=1,
        merge_restarts=1, stability_seeds=1, intruder_questions=100, samples_per_topic=8,
    )  # fmt: skip
    topic = Step("topics", topics, topics_config)
    judged = quality(sources, embedded)
    store = mixed(sources, topic, judged["scores"])
    page = TopicsReportConfig(
        title="The <topics> & their page", topics=topic, embeddings=embedded, cells=store["cells"], cards=CARDS, samples_per_topic=6
    )  # fmt: skip
    mixture_page = MixtureReportConfig(title="The <mixture> & its page", topics=topic, **store, tried_documents=20)
    quality_page = QualityReportConfig(
        title="The <quality> & its page", sources=sources, cards=CARDS, **judged, samples_per_band=2, next_shown=8
    )
    return [
        Step("report/topics", topics_report, page),
        Step("report/quality", quality_report, quality_page),
        Step("report/mixture", mixture_report, mixture_page),
    ]


if __name__ == "__main__":
    main(pipeline)
