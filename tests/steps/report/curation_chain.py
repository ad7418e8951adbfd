"""Curation in small, from raw texts to all of its pages: every stage by its real step but for vectors and quality."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from marin_exec import Out, Step, kind, main
from steps.cluster.topics import TopicsConfig, topics
from steps.decontaminate.benchmarks import DocumentsBenchmark
from steps.decontaminate.ngrams import DecontaminateConfig, find_contaminated
from steps.dedup.exact import ExactConfig, exact_duplicates
from steps.dedup.fuzzy import FuzzyConfig, fuzzy_duplicates
from steps.documents import NamedInput, read_table, shard_names, write_table
from steps.embed.documents import EmbedResult
from steps.embed.vectors import embedding_table, quantize, scale_of
from steps.heuristics.judge import HeuristicsConfig, judge_documents
from steps.mix.cells import CellsConfig, documents_by_cell
from steps.mix.weights import Phase, Proportional, WeightsConfig, mixture_weights
from steps.normalize.normalize import NormalizeConfig, normalize
from steps.report.stage_pages import stage_pages
from steps.sources.cards import SourceCard
from steps.sources.raw import RawDocument, raw_name, write_raw
from steps.tokenize.bpe import BpeConfig, train_bpe
from steps.tokenize.cache import CacheConfig, token_cache

SOURCES = ("prose", "mail")
BUCKETS = 5


@dataclass(frozen=True, kw_only=True)
class TextsConfig:
    name: str


@kind("test/curation_texts", version=1)
def texts(config: TextsConfig, out: Out) -> dict[str, int]:
    rows = []
    for n in range(60 if config.name in SOURCES else 2):
        words = [f"{config.name}{n}w{k} and the {k % 7} of a" for k in range(40)]
        if n % 10 == 1:  # nearly the one before
            words = [f"{config.name}{n - 1}w{k} and the {k % 7} of a" for k in range(39)]
        if n == 5:  # holds a document that is held out
            words = [f"held0w{k} and the {k % 7} of a" for k in range(40)]
        rows.append(RawDocument(f"{config.name}/{n}", "a word" if n == 7 else f"{' '.join(words)}.", "{}"))
    rows += [RawDocument(f"{config.name}/again", rows[0].text, "{}"), RawDocument(f"{config.name}/blank", " ", "{}")]
    return {"documents": write_raw(out.file(raw_name(0)), rows)[0]}


@dataclass(frozen=True, kw_only=True)
class OfDocumentsConfig:
    sources: tuple[NamedInput, ...]


@kind("test/curation_vectors", version=1)
def vectors(config: OfDocumentsConfig, out: Out) -> EmbedResult:
    """A direction for each of four first digits of the ids."""
    documents = 0
    for name, shard, ids in _ids(config):
        found = np.stack(
            [np.random.default_rng(int(each, 16)).normal(size=8) + 9 * np.eye(8)[int(each[0], 16) % 4] for each in ids]
        )
        found /= np.linalg.norm(found, axis=1, keepdims=True)
        write_table(out.file(f"{name}/{shard}"), embedding_table(ids, quantize(found, 1.0), scale_of(1.0)))
        documents += len(ids)
    return EmbedResult(
        documents=documents, dimensions=8, scale=scale_of(1.0), documents_by_source={}, clipped_fraction=0.0,
        min_cosine=0.99, mean_cosine=0.999, seconds=0.0,
    )  # fmt: skip


@kind("test/curation_buckets", version=1)
def buckets(config: OfDocumentsConfig, out: Out) -> dict[str, int]:
    for name, shard, ids in _ids(config):
        found = pa.array([int(each[1], 16) % BUCKETS for each in ids], pa.int8())
        write_table(out.file(f"{name}/{shard}"), pa.table({"id": pa.array(ids), "bucket": found}))
    return {}


@kind("test/curation_nothing_held_out", version=1)
def nothing(config: OfDocumentsConfig, out: Out) -> dict[str, int]:
    for name, shard, _ in _ids(config):
        write_table(out.file(f"{name}/{shard}"), pa.table({"id": pa.array([], pa.string())}))
    return {}


def _ids(config: OfDocumentsConfig) -> Iterator[tuple[str, str, list[str]]]:
    for source in config.sources:
        for shard in shard_names(source.path):
            yield source.name, shard, read_table(source.path, shard, ["id"])["id"].to_pylist()


def pipeline() -> list[Step]:
    raw = {name: Step(f"raw/{name}", texts, TextsConfig(name=name)) for name in (*SOURCES, "held")}
    documents = {
        name: Step(f"documents/{name}", normalize, NormalizeConfig(source=step, documents_per_shard=20))
        for name, step in raw.items()
    }
    sources = tuple(NamedInput(name=name, path=documents[name]) for name in SOURCES)
    exact = Step("exact", exact_duplicates, ExactConfig(sources=sources))
    fuzzy = Step("fuzzy", fuzzy_duplicates, FuzzyConfig(sources=sources, exact=exact))
    limits = HeuristicsConfig(sources=sources, preset_by_source={}, default_preset="reference")
    rules = Step("rules", judge_documents, limits)
    held = (DocumentsBenchmark(name="held", path=documents["held"]),)
    overlap = DecontaminateConfig(sources=sources, package_benchmarks=(), documents_benchmarks=held)
    contaminated = Step("overlap", find_contaminated, overlap)
    of_documents = OfDocumentsConfig(sources=sources)
    embedded, quality, heldout = (Step(each.__name__, each, of_documents) for each in (vectors, buckets, nothing))
    topics_config = TopicsConfig(
        documents=sources, embeddings=embedded, num_clusters=8, num_topics=4, min_topic_fraction=0.1, restarts=1,
        merge_restarts=1, stability_seeds=1, intruder_questions=50,
    )  # fmt: skip
    topic = Step("topics", topics, topics_config)
    cells = CellsConfig(
        sources=sources, exact=exact, fuzzy=fuzzy, heuristics=rules, contaminated=contaminated, heldout=heldout,
        topics=topic, quality=quality,
    )  # fmt: skip
    kept = Step("cells", documents_by_cell, cells)
    bpe = Step("tokenizer", train_bpe, BpeConfig(documents=kept / "cells", vocabulary_size=300))
    tokens = Step("tokens", token_cache, CacheConfig(documents=kept / "cells", tokenizer=bpe))
    weights = WeightsConfig(
        tokens=tokens, sequence_length=64, phases=(Phase(rule=Proportional()),), budgets_tokens=(64_000,),
        block_sequences=100, over_cap="water_fill",
    )  # fmt: skip
    mixture = Step("mixture", mixture_weights, weights)
    cards = tuple(
        SourceCard(name=name, kind="help", languages=("en",), origin="a test", licence="CC-0", limits="Made up.")
        for name in SOURCES
    )
    given = {"fuzzy": fuzzy, "heuristics": rules, "contaminated": contaminated, "cells": kept, "tokens": tokens}
    return stage_pages(
        sources=sources,
        normalized=sources,
        raw=tuple(NamedInput(name=name, path=raw[name]) for name in SOURCES),
        cards=cards,
        embeddings=embedded,
        topics=topic,
        mixture=mixture,
        **given,
    )


if __name__ == "__main__":
    main(pipeline)
