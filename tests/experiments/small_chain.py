"""The quickstart's chain in a small form: every stage for real, on some 270 documents and models of width 16 to 64.

Labels are a file that the tests make from the documents by a rule (tests/chain/stores.py); everything else is the default.
"""

from dataclasses import dataclass, replace

import numpy as np

from marin_exec import Out, Step, kind, main
from steps.cluster.topics import TopicsConfig, topics
from steps.decontaminate.benchmarks import HUMANEVAL, DocumentsBenchmark
from steps.decontaminate.ngrams import DecontaminateConfig, find_contaminated
from steps.dedup.exact import ExactConfig, exact_duplicates
from steps.dedup.fuzzy import FuzzyConfig, fuzzy_duplicates
from steps.documents import NamedInput
from steps.embed.documents import EmbedConfig, embed_documents
from steps.embed.encoders import StaticTable
from steps.embed.vectors import write_array
from steps.evaluate.checkpoint import CheckpointEvaluationConfig, evaluate_checkpoint
from steps.forecast.forecast import ForecastConfig, NamedRun, forecast
from steps.forecast.score import ScoreConfig, score
from steps.heldout.select import HeldoutConfig, select_heldout
from steps.heuristics.judge import HeuristicsConfig, judge_documents
from steps.ladder.noise import NoiseConfig, seed_noise
from steps.ladder.rule import RungSpec, rung
from steps.mix.cells import CellsConfig, documents_by_cell
from steps.mix.weights import Phase, Proportional, WeightsConfig, mixture_weights
from steps.model.counts import training_flops
from steps.normalize.normalize import NormalizeConfig, normalize
from steps.quality.classifier import ClassifierConfig, classifier
from steps.quality.labels_file import LabelsFileConfig, labels_file
from steps.quality.scores import ScoresConfig, scores
from steps.report.experiment import ExperimentReportConfig, experiment_report
from steps.sources.environment import EnvironmentConfig, environment_texts
from steps.tokenize.bpe import BpeConfig, train_bpe
from steps.tokenize.cache import CacheConfig, token_cache
from steps.train.language_model import OptimizerConfig, TrainConfig, train_language_model
from steps.train.threads import train_resources

LICENCES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "joblib",
    "wrapt",
    "click",
    "h11",
    "idna",
    "httpx",
    "starlette",
    "urllib3",
)
SEQUENCE_LENGTH = 32
VOCABULARY_SIZE = 512
DOCUMENTS_PER_SHARD = 8
"""Small, so that fuzzy deduplication has enough shards to be killed between two of them."""
NUM_STEPS = 100
EVALUATION_SEQUENCES = 16
MINILM_TOKENS = 30_522
"""Rows of a token table for MiniLM's tokenizer."""


def short_rung(width: int) -> RungSpec:
    """Returns the ladder's rung of that width, ended early."""
    whole = rung(width, vocabulary_size=VOCABULARY_SIZE, sequence_length=SEQUENCE_LENGTH)
    return replace(whole, num_steps=NUM_STEPS)


RUNGS = tuple(short_rung(width) for width in (16, 32, 48))
HERO = short_rung(64)


@dataclass(frozen=True)
class Params:
    labels: str = "/labels/of/the/test.jsonl"
    labels_digest: str = "0" * 32
    containment: float = 0.9
    bands_per_pass: int = 26
    """A runtime field of fuzzy deduplication."""
    log_every: int = 20
    """A runtime field of training."""


@dataclass(frozen=True)
class TokenTableConfig:
    dimensions: int = 64
    seed: int = 0


@kind("small_chain/token_table", version=1)
def token_table(config: TokenTableConfig, out: Out) -> dict[str, int]:
    """Writes random token vectors: documents of like words get like vectors, without distilling a model first."""
    random = np.random.default_rng(config.seed)
    table = random.standard_normal((MINILM_TOKENS, config.dimensions)).astype(np.float16)
    write_array(out.file("table.npy"), table)
    return {"vocabulary": len(table)}


def pinned(*names: str) -> tuple[str, ...]:
    """Returns "name==version" as the default sources have them: one list of versions to keep, not two."""
    from steps.sources.environment_default import ALL_DISTRIBUTIONS

    version = dict(each.split("==") for each in ALL_DISTRIBUTIONS)
    return tuple(f"{name}=={version[name]}" for name in names)


def source_configs() -> dict[str, EnvironmentConfig]:
    return {
        "code": EnvironmentConfig(
            distributions=pinned("fsspec", "httpx", "starlette"), extract="code", max_document_bytes=6_000
        ),
        "docstrings": EnvironmentConfig(
            distributions=pinned("optax"), extract="docstrings", max_document_bytes=4_000, sample_documents=180
        ),
        "licences": EnvironmentConfig(distributions=pinned(*LICENCES), extract="licences"),
    }


def normal_config(source: object) -> NormalizeConfig:
    return NormalizeConfig(source=source, documents_per_shard=DOCUMENTS_PER_SHARD)


def documents() -> tuple[NamedInput, ...]:
    named = []
    for name, config in source_configs().items():
        raw = Step(f"sources/{name}", environment_texts, config)
        named.append(NamedInput(name=name, path=Step(f"documents/{name}", normalize, normal_config(raw))))
    return tuple(named)


@dataclass(frozen=True)
class Data:
    sources: tuple[NamedInput, ...]
    tokens: Step
    mixture: Step
    evaluation: Step
    judged: dict[str, Step]
    """What the report shows of the data, by the names of its config's fields."""


def data(params: Params) -> Data:
    sources = documents()
    exact = Step("dedup/exact", exact_duplicates, ExactConfig(sources=sources))
    fuzzy = Step(
        "dedup/fuzzy",
        fuzzy_duplicates,
        FuzzyConfig(sources=sources, exact=exact, containment=params.containment, bands_per_pass=params.bands_per_pass),
    )
    presets = {"code": "code", "docstrings": "reference", "licences": "prose"}
    rules = Step("quality/heuristics", judge_documents, HeuristicsConfig(sources=sources, preset_by_source=presets))
    heldout = Step(
        "heldout",
        select_heldout,
        HeldoutConfig(sources=sources, exact=exact, fuzzy=fuzzy, heuristics=rules, fraction=0.06, at_least=3),
    )
    held = tuple(
        DocumentsBenchmark(name=f"heldout-{each.name}", path=heldout / f"documents/{each.name}") for each in sources
    )
    contaminated = Step(
        "decontaminate",
        find_contaminated,
        DecontaminateConfig(sources=sources, package_benchmarks=(HUMANEVAL,), documents_benchmarks=held),
    )
    table = Step("embed/table", token_table, TokenTableConfig())
    vectors = Step(
        "embed/documents",
        embed_documents,
        EmbedConfig(sources=sources, encoder=StaticTable(table=table, max_tokens=64)),
    )
    topic = Step(
        "cluster/topics",
        topics,
        TopicsConfig(documents=sources, embeddings=vectors, num_clusters=8, num_topics=3, min_topic_fraction=0.05),
    )
    labels = Step(
        "quality/labels",
        labels_file,
        LabelsFileConfig(documents=sources, labels=params.labels, digest=params.labels_digest),
    )
    student = Step(
        "quality/classifier",
        classifier,
        ClassifierConfig(documents=sources, embeddings=vectors, labels=labels, num_folds=4, num_resamples=100),
    )
    quality = Step("quality/scores", scores, ScoresConfig(documents=sources, embeddings=vectors, classifier=student))
    kept = Step(
        "mix/cells",
        documents_by_cell,
        CellsConfig(
            sources=sources,
            exact=exact,
            fuzzy=fuzzy,
            heuristics=rules,
            contaminated=contaminated,
            heldout=heldout / "table",
            topics=topic,
            quality=quality,
        ),
    )
    bpe = Step("tokenizer", train_bpe, BpeConfig(documents=kept / "cells", vocabulary_size=VOCABULARY_SIZE))
    tokens = Step("tokens/train", token_cache, CacheConfig(documents=kept / "cells", tokenizer=bpe))
    evaluation = Step(
        "tokens/evaluation",
        token_cache,
        CacheConfig(documents=heldout / "documents", tokenizer=bpe, split="evaluation"),
    )
    mixture = Step(
        "mix/weights",
        mixture_weights,
        WeightsConfig(
            tokens=tokens,
            sequence_length=SEQUENCE_LENGTH,
            budgets_tokens=tuple(each.tokens for each in (*RUNGS, HERO)),
            phases=(Phase(rule=Proportional()), Phase(rule=Proportional(quality_exponent=1.0), start_fraction=0.8)),
            block_sequences=256,
        ),
    )
    judged = {"cells": kept, "fuzzy": fuzzy, "heuristics": rules, "contaminated": contaminated, "topics": topic}
    judged |= {"labels": labels, "classifier": student}
    return Data(sources, tokens, mixture, evaluation, judged)


def training(
    name: str, spec: RungSpec, data: Data, params: Params, *, seed: int = 0, after: tuple[Step, ...] = ()
) -> Step:
    config = TrainConfig(
        model=spec.model,
        optimizer=OptimizerConfig(learning_rate=spec.learning_rate, adam_learning_rate=spec.adam_learning_rate),
        tokens=data.tokens,
        mixture=data.mixture,
        evaluation=data.evaluation,
        batch_sequences=spec.batch_sequences,
        num_steps=spec.num_steps,
        seed=seed,
        evaluation_sequences=EVALUATION_SEQUENCES,
        wandb_mode="disabled",
        log_every=params.log_every,
    )
    return Step(name, train_language_model, config, resources=train_resources(), after=after)


def pipeline(params: Params) -> list[Step]:
    made = data(params)
    rungs = tuple(NamedRun(name=spec.name, run=training(f"ladder/{spec.name}", spec, made, params)) for spec in RUNGS)
    again = training(f"ladder/{RUNGS[0].name}-seed1", RUNGS[0], made, params, seed=1)
    noise = Step("ladder/noise", seed_noise, NoiseConfig(runs=(rungs[0].run, again)))
    prediction = Step(
        "forecast",
        forecast,
        ForecastConfig(
            rungs=rungs,
            target_name="hero",
            target_flops=training_flops(HERO.model, HERO.tokens, with_lm_head=True),
            asymptote=1.5,
            asymptote_range=(1.0, 2.0),
        ),
    )
    hero = training("hero", HERO, made, params, after=(prediction,))
    scored = Step("forecast/score", score, ScoreConfig(forecast=prediction, run=hero))
    half = Step(
        f"evaluate/hero-step-{HERO.num_steps // 2}",
        evaluate_checkpoint,
        CheckpointEvaluationConfig(
            checkpoint=hero.milestone(f"checkpoints/step-{HERO.num_steps // 2}"),
            evaluation=made.evaluation,
            evaluation_sequences=EVALUATION_SEQUENCES,
        ),
        resources=train_resources(),
    )
    report = Step(
        "report",
        experiment_report,
        ExperimentReportConfig(
            title="The small chain",
            hero=NamedRun(name="hero", run=hero),
            rungs=rungs,
            forecast=prediction,
            score=scored,
            noise=noise,
            evaluations=(NamedInput(name="half", path=half),),
            sources=made.sources,
            tokens=made.tokens,
            mixture=made.mixture,
            **made.judged,
        ),
    )
    return [report]


if __name__ == "__main__":
    main(pipeline)
