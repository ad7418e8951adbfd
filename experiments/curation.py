"""All of data curation on real text: 89 sources in 40 languages to 200 cells, tokens and a mixture.

    marin-exec run experiments/curation.py                   all of the corpora: 0.3 GB
    marin-exec run experiments/curation.py --fraction 0.125  an eighth of each source, to try it out

The packages are fetched once (docs/corpora.md). Every number below is the record of what was done; what is not here is the
default of the step's config class.
"""

from dataclasses import dataclass
from typing import Any

from marin_exec import Step, main
from steps.cluster.topics import TopicsConfig, topics
from steps.decontaminate.benchmarks import HUMANEVAL, DocumentsBenchmark
from steps.decontaminate.lm_eval import LmEvalConfig, lm_eval_items
from steps.decontaminate.ngrams import DecontaminateConfig, find_contaminated
from steps.dedup.exact import ExactConfig, exact_duplicates
from steps.dedup.fuzzy import FuzzyConfig, fuzzy_duplicates
from steps.documents import NamedInput
from steps.embed.documents import EmbedConfig, embed_documents
from steps.embed.encoders import StaticTable
from steps.embed.static_table import StaticTableConfig, static_table
from steps.heldout.select import HeldoutConfig, select_heldout
from steps.heuristics.judge import HeuristicsConfig, judge_documents
from steps.language.language import LanguageConfig, identify_languages
from steps.mix.cells import CellsConfig, documents_by_cell
from steps.mix.weights import Phase, Proportional, WeightsConfig, mixture_weights
from steps.normalize.sample import SampleConfig, sample_documents
from steps.quality.classifier import ClassifierConfig, classifier
from steps.quality.gate import GateConfig, gate
from steps.quality.labels_file import LabelsFileConfig, labels_file
from steps.quality.labels_merged import LabelsMergedConfig, labels_merged
from steps.quality.labels_metadata import LabelsMetadataConfig, MetadataLabel, labels_metadata
from steps.quality.next_labels import NextLabelsConfig, next_labels
from steps.quality.scores import ScoresConfig, scores
from steps.quality.windows import Windows
from steps.report.stage_pages import stage_pages
from steps.sources.corpora import cards, documents
from steps.sources.corpora import sources as raw_texts
from steps.tokenize.bpe import BpeConfig, train_bpe
from steps.tokenize.cache import CacheConfig, token_cache

SEQUENCE_LENGTH = 1_024
VOCABULARY_SIZE = 16_384
CLUSTERS, TOPICS = 500, 40
PRESETS = {"code": "code"} | dict.fromkeys(("essay", "fiction", "mail", "samples", "speeches"), "prose")
HELD_OUT = (
    *("python-docs", "postgresql-docs", "kernel-docs", "kernel-bindings", "man-pages/library", "man-pages/de"),
    *("man-pages/ja", "libreoffice-help/en", "libreoffice-help/ja", "dictionaries/gcide", "dictionaries/foldoc"),
    *("fortunes", "fortunes-de", "fortunes-ru", "brown", "spam-assassin", "stdlib-code"),
)
# Read by the rubric, of all sources but mail, which nobody may read: there what the corpus says of itself stands in.
LABELS, LABELS_DIGEST = "corpora.jsonl", "7d6d3f0f8ed36ed822655e206b02dff4"
MAIL_LABELS = (
    MetadataLabel(source="spam-assassin", field="label", value="spam", score=1, content_type="prose", at_most=60),
    MetadataLabel(source="spam-assassin", field="label", value="ham", score=3, content_type="prose", at_most=60),
)


@dataclass(frozen=True)
class Params:
    fraction: float = 1.0
    """Share of each source's documents that is used."""


def named(steps: dict[str, Step]) -> tuple[NamedInput, ...]:
    return tuple(NamedInput(name=name, path=step) for name, step in steps.items())


def pipeline(params: Params) -> list[Step]:
    # Text: every source normalised. Their order is the priority of the copy that stays.
    given = documents()
    if params.fraction < 1:
        given = {
            name: Step(f"sample/{name}", sample_documents, SampleConfig(documents=step, fraction=params.fraction))
            for name, step in given.items()
        }
    sources = named(given)

    # Judgements, each a table beside the documents. Nothing is removed before mix/cells.
    language = Step("language", identify_languages, LanguageConfig(sources=sources))
    exact = Step("dedup/exact", exact_duplicates, ExactConfig(sources=sources))
    # Priority, not length: half-translated pages are longer than the original, which would fall to them.
    fuzzy = Step("dedup/fuzzy", fuzzy_duplicates, FuzzyConfig(sources=sources, exact=exact, survivor="priority"))
    # Each document by the limits of its kind of text in its language.
    presets = {name: PRESETS.get(card.kind, "reference") for name, card in cards().items()}
    limits = HeuristicsConfig(sources=sources, preset_by_source=presets, languages=language)
    rules = Step("quality/heuristics", judge_documents, limits)
    choice = HeldoutConfig(
        sources=sources, exact=exact, fuzzy=fuzzy, heuristics=rules, fraction=0.005, from_sources=HELD_OUT
    )
    heldout = Step("heldout", select_heldout, choice)
    held = [DocumentsBenchmark(name=f"heldout-{name}", path=heldout / f"documents/{name}") for name in HELD_OUT]
    suites = Step("benchmarks/lm-eval", lm_eval_items, LmEvalConfig())
    overlap = DecontaminateConfig(
        sources=sources, package_benchmarks=(HUMANEVAL,), suites=(suites,), documents_benchmarks=tuple(held)
    )
    contaminated = Step("decontaminate", find_contaminated, overlap)
    table = Step("embed/table", static_table, StaticTableConfig(dimensions=256))
    encoder = StaticTable(table=table)
    vectors = Step("embed/documents", embed_documents, EmbedConfig(sources=sources, encoder=encoder))
    topics_config = TopicsConfig(
        documents=sources, embeddings=vectors, num_clusters=CLUSTERS, num_topics=TOPICS, min_topic_fraction=0.005
    )
    topic = Step("cluster/topics", topics, topics_config)
    # A student of labels that were read, of every document's beginning, middle and end. Where it does not choose, it is not asked.
    matched = 0.5 if params.fraction == 1 else 0.0  # a small part may hold none of those that were read
    read_config = LabelsFileConfig(documents=sources, labels=LABELS, digest=LABELS_DIGEST, min_matched_fraction=matched)
    read = Step("quality/labels-read", labels_file, read_config)
    known = Step("quality/labels-known", labels_metadata, LabelsMetadataConfig(documents=sources, labels=MAIL_LABELS))
    labels = Step("quality/labels", labels_merged, LabelsMergedConfig(labels=(read, known)))
    asked: dict[str, Any] = {"documents": sources, "embeddings": vectors, "windows": Windows(encoder=encoder)}
    student = Step("quality/classifier", classifier, ClassifierConfig(**asked, labels=labels))
    quality = Step("quality/scores", scores, ScoresConfig(**asked, classifier=student))
    gated = Step("quality/gate", gate, GateConfig(documents=sources, scores=quality))
    hidden = tuple(name for name, card in cards().items() if not card.show)
    next_config = NextLabelsConfig(**asked, labels=labels, classifier=student, never_show=hidden)
    to_label = Step("quality/next", next_labels, next_config)

    # Cells of topic x quality, a tokenizer, token stores, and a mixture in two phases.
    cells_config = CellsConfig(
        sources=sources, exact=exact, fuzzy=fuzzy, heuristics=rules, contaminated=contaminated,
        heldout=heldout / "table", topics=topic, quality=gated,
    )  # fmt: skip
    kept = Step("mix/cells", documents_by_cell, cells_config)
    bpe_config = BpeConfig(documents=kept / "cells", vocabulary_size=VOCABULARY_SIZE, training_bytes=30_000_000)
    bpe = Step("tokenizer", train_bpe, bpe_config)
    tokens = Step("tokens/train", token_cache, CacheConfig(documents=kept / "cells", tokenizer=bpe))
    phases = (Phase(rule=Proportional()), Phase(rule=Proportional(quality_exponent=1.0), start_fraction=0.8))
    weights = WeightsConfig(
        tokens=tokens, sequence_length=SEQUENCE_LENGTH, phases=phases, over_cap="water_fill",
        budgets_tokens=tuple(round(params.fraction * each) for each in (5_000_000, 20_000_000)),
    )  # fmt: skip
    mixture = Step("mix/weights", mixture_weights, weights)

    # Pages to read, one a stage (steps/report/stage_pages.py); mail stands on none.
    pages = stage_pages(
        normalized=named(documents()), raw=named(raw_texts()),
        sources=sources, cards=tuple(cards().values()), fuzzy=fuzzy, languages=language, heuristics=rules,
        contaminated=contaminated, embeddings=vectors, topics=topic, labels=labels, classifier=student, scores=quality,
        gate=gated, next_labels=to_label, cells=kept, tokenizer=bpe, tokens=tokens, mixture=mixture,
    )  # fmt: skip
    return [mixture, to_label, *pages]


if __name__ == "__main__":
    main(pipeline)
