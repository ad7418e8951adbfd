"""Wrong values are refused when a config is made: an experiment with one is refused before anything runs."""

import re
from pathlib import Path

import pytest

from marin_exec import ConfigError
from steps.cluster.topics import TopicsConfig
from steps.decontaminate.benchmarks import DocumentsBenchmark
from steps.decontaminate.ngrams import DecontaminateConfig
from steps.decontaminate.rules import Boilerplate, Thresholds
from steps.documents import NamedInput
from steps.embed.documents import EmbedConfig
from steps.embed.encoders import HttpEncoder, MiniLm, SentenceTransformers, StaticTable
from steps.heldout.select import HeldoutConfig
from steps.heuristics.judge import HeuristicsConfig
from steps.mix.cells import CellsConfig
from steps.mix.search.candidate import CandidateConfig
from steps.mix.search.designs import DesignsConfig
from steps.mix.weights import Phase, Proportional, WeightsConfig, WeightTable
from steps.quality.classifier import ClassifierConfig
from steps.quality.next_labels import NextLabelsConfig
from steps.quality.scores import ScoresConfig
from steps.tokenize.bpe import BpeConfig
from steps.tokenize.cache import CacheConfig

SOURCE = NamedInput(name="web", path="/documents/web")
TWICE = (SOURCE, SOURCE)
JUDGEMENTS = dict.fromkeys(("exact", "fuzzy", "heuristics", "contaminated", "heldout", "topics", "quality"), "/x")
REQUIRED = {
    TopicsConfig: {"documents": (SOURCE,), "embeddings": "/e"},
    DecontaminateConfig: {"sources": (SOURCE,)},
    DocumentsBenchmark: {"name": "held", "path": "/held"},
    EmbedConfig: {"sources": (SOURCE,), "encoder": MiniLm()},
    StaticTable: {"table": "/t"},
    SentenceTransformers: {"model": "m", "revision": "r"},
    HttpEncoder: {"url": "http://localhost", "model": "m", "dimensions": 8},
    HeldoutConfig: {"sources": (SOURCE,), "exact": "/x", "fuzzy": "/f", "fraction": 0.1},
    HeuristicsConfig: {"sources": (SOURCE,), "preset_by_source": {}},
    CellsConfig: {"sources": (SOURCE,), **JUDGEMENTS},
    WeightTable: {"weights": {"c00q0": 1.0}},
    Phase: {"rule": Proportional()},
    WeightsConfig: {"tokens": "/t", "sequence_length": 128, "budgets_tokens": (1_000,)},
    CandidateConfig: {"tokens": "/t", "surrogate": "/s", "sequence_length": 128, "budgets_tokens": (1_000,)},
    DesignsConfig: {"tokens": "/t", "num_designs": 4},
    NextLabelsConfig: {"documents": (SOURCE,), "embeddings": "/e", "labels": "/l", "classifier": "/c"},
    ClassifierConfig: {"documents": (SOURCE,), "embeddings": "/e", "labels": "/l"},
    ScoresConfig: {"documents": (SOURCE,), "embeddings": "/e", "classifier": "/c"},
    BpeConfig: {"documents": "/d", "vocabulary_size": 300},
    CacheConfig: {"documents": "/d", "tokenizer": "/t"},
}
WRONG = [
    (TopicsConfig, {"documents": TWICE}),
    (TopicsConfig, {"num_clusters": 0}),
    (TopicsConfig, {"num_topics": 65}),
    (TopicsConfig, {"min_topic_fraction": 0.11}),  # ten topics cannot have more than a tenth each
    (TopicsConfig, {"restarts": 0}),
    (DecontaminateConfig, {"sources": ()}),
    (DecontaminateConfig, {"ngram_words": 0}),
    (DecontaminateConfig, {"shortest_words": 14}),
    (DecontaminateConfig, {"sources": (NamedInput(name="evidence", path="/e"),)}),
    (DocumentsBenchmark, {"expected_records": 0}),
    (Thresholds, {"overlap": 0}),
    (Thresholds, {"overlap": 1.1}),
    (Thresholds, {"absolute_hits": 0}),
    (Boilerplate, {"source_fraction": -0.1}),
    (EmbedConfig, {"sources": TWICE}),
    (EmbedConfig, {"max_characters": 0}),
    (StaticTable, {"max_tokens": 0}),
    (MiniLm, {"max_tokens": 513}),
    (MiniLm, {"int8_range": 0.0}),
    (SentenceTransformers, {"batch_size": 0}),
    (HttpEncoder, {"api": "cohere"}),
    (HttpEncoder, {"dimensions": 0}),
    (HeldoutConfig, {"fraction": None}),
    (HeldoutConfig, {"fraction": 1.0}),
    (HeldoutConfig, {"at_least": 0}),
    (HeldoutConfig, {"longest_characters": 0}),
    (HeuristicsConfig, {"preset_by_source": {"wbe": "code"}}),
    (CellsConfig, {"sources": TWICE}),
    (CellsConfig, {"documents_per_shard": 0}),
    (WeightTable, {"weights": {"c00q0": 0.0}}),
    (WeightTable, {"weights": {"c00q0": 1.0, "c00q1": -1.0}}),
    (WeightTable, {"weights": {"c00q0": float("nan")}}),
    (Proportional, {"size_exponent": float("inf")}),
    (Phase, {"start_fraction": 1.0}),
    (WeightsConfig, {"phases": ()}),
    (WeightsConfig, {"budgets_tokens": (1_000, 0)}),
    (WeightsConfig, {"block_sequences": 65_536}),
    (WeightsConfig, {"max_epochs": 0.0}),
    (WeightsConfig, {"over_cap": "ignore"}),
    (CandidateConfig, {"budgets_tokens": ()}),
    (CandidateConfig, {"budgets_tokens": (1_000, -1)}),
    (CandidateConfig, {"phase_starts": ()}),
    (CandidateConfig, {"phase_starts": (0.5, 0.8)}),
    (CandidateConfig, {"phase_starts": (0.0, float("nan"))}),
    (CandidateConfig, {"phase_starts": (0.0, 1.0)}),
    (CandidateConfig, {"seed": -1}),
    (DesignsConfig, {"seed": -1}),
    (TopicsConfig, {"seed": -1}),
    (NextLabelsConfig, {"seed": -1}),
    (ClassifierConfig, {"seed": -1}),
    (ClassifierConfig, {"num_folds": 1}),
    (ClassifierConfig, {"hash_bits": 21}),
    (ClassifierConfig, {"positive_score": 6.0}),
    (ScoresConfig, {"min_spread": -0.1}),
    (BpeConfig, {"vocabulary_size": 257}),
    (BpeConfig, {"training_bytes": 0}),
    (CacheConfig, {"cells_per_shard": 0}),
    (CacheConfig, {"split": "a/b"}),
]


@pytest.mark.parametrize(("config_class", "wrong"), WRONG, ids=[f"{c.__name__}-{next(iter(w))}" for c, w in WRONG])
def test_config_wrong_value_is_refused_by_class_and_field(config_class, wrong):
    required = REQUIRED.get(config_class, {})
    config_class(**required)  # without the wrong value it is accepted
    [field] = wrong
    with pytest.raises(ConfigError, match=rf"{re.escape(config_class.__name__)}(\.{field}|: {field})"):
        config_class(**{**required, **wrong})


def test_decontaminate_without_a_benchmark_or_with_one_twice_is_refused():
    held = DocumentsBenchmark(name="held", path="/held")
    with pytest.raises(ConfigError, match="no benchmark is given"):
        DecontaminateConfig(sources=(SOURCE,), package_benchmarks=())
    with pytest.raises(ConfigError, match=r"\['held'\] occurs twice"):
        DecontaminateConfig(sources=(SOURCE,), documents_benchmarks=(held, held))


def test_inputs_that_may_be_left_out_are_declared_so():
    # The engine takes None for an `InputPath | None` only, and says so when a plan is made: too late for a default.
    root = Path(__file__).parents[2] / "steps"
    assert [path.name for path in root.rglob("*.py") if re.search(r": InputPath = None", path.read_text())] == []
