"""The whole chain on a laptop: raw text to a mixture-of-experts run that was forecast before it was trained.

The text is what the locked packages of this environment hold. Every number below is the record of what was done; what
is not here is the default of the step's config class. `make quickstart` runs it and says where the report is.
"""

from dataclasses import dataclass

from marin_exec import Step, main
from steps.cluster.topics import TopicsConfig, topics
from steps.decontaminate.benchmarks import HUMANEVAL, DocumentsBenchmark
from steps.decontaminate.ngrams import DecontaminateConfig, find_contaminated
from steps.dedup.exact import ExactConfig, exact_duplicates
from steps.dedup.fuzzy import FuzzyConfig, fuzzy_duplicates
from steps.documents import NamedInput
from steps.embed.documents import EmbedConfig, embed_documents
from steps.embed.encoders import StaticTable
from steps.embed.static_table import StaticTableConfig, static_table
from steps.evaluate.checkpoint import CheckpointEvaluationConfig, evaluate_checkpoint
from steps.forecast.forecast import ForecastConfig, NamedRun, forecast
from steps.forecast.score import ScoreConfig, score
from steps.heldout.select import HeldoutConfig, select_heldout
from steps.heuristics.judge import HeuristicsConfig, judge_documents
from steps.ladder.noise import NoiseConfig, seed_noise
from steps.ladder.rule import HERO_WIDTH, RUNG_WIDTHS, RungSpec, rung
from steps.mix.cells import CellsConfig, documents_by_cell
from steps.mix.weights import Phase, Proportional, WeightsConfig, mixture_weights
from steps.model.counts import training_flops
from steps.normalize.normalize import NormalizeConfig, normalize
from steps.quality.classifier import ClassifierConfig, classifier
from steps.quality.labels_file import LabelsFileConfig, labels_file
from steps.quality.scores import ScoresConfig, scores
from steps.sources.environment import environment_texts
from steps.sources.environment_default import default_sources
from steps.tokenize.bpe import BpeConfig, train_bpe
from steps.tokenize.cache import CacheConfig, token_cache
from steps.train.language_model import OptimizerConfig, TrainConfig, train_language_model
from steps.train.threads import train_resources

SEQUENCE_LENGTH = 128
VOCABULARY_SIZE = 2_048
CONTAINMENT = 0.9
EVALUATION_SEQUENCES = 96  # of each source, at most
PRESETS = {"code": "code", "docstrings": "reference", "readmes": "reference", "docs": "reference", "licences": "prose"}
LABELS = "environment_default.jsonl"
LABELS_DIGEST = "3b4b9c63506fe25887de085050bc27d6"
RUNGS = tuple(rung(w, vocabulary_size=VOCABULARY_SIZE, sequence_length=SEQUENCE_LENGTH) for w in RUNG_WIDTHS)
HERO = rung(HERO_WIDTH, vocabulary_size=VOCABULARY_SIZE, sequence_length=SEQUENCE_LENGTH)
NOISE_RUNG = RUNGS[0]


@dataclass(frozen=True)
class Data:
    """What training reads: token stores and the mixture over them."""

    tokens: Step
    mixture: Step
    evaluation: Step
    judged: dict[str, Step]
    """Steps that pages show, by stage."""


def documents() -> tuple[NamedInput, ...]:
    """Raw text of five sources, normalised; the order is the priority of the copy that stays."""
    named = []
    for name, config in default_sources(seed=0).items():
        raw = Step(f"sources/{name}", environment_texts, config)
        normal = NormalizeConfig(source=raw, documents_per_shard=400)
        named.append(NamedInput(name=name, path=Step(f"documents/{name}", normalize, normal)))
    return tuple(named)


def data() -> Data:
    sources = documents()
    exact = Step("dedup/exact", exact_duplicates, ExactConfig(sources=sources))
    fuzzy = Step("dedup/fuzzy", fuzzy_duplicates, FuzzyConfig(sources=sources, exact=exact, containment=CONTAINMENT))
    rules = Step("quality/heuristics", judge_documents, HeuristicsConfig(sources=sources, preset_by_source=PRESETS))
    heldout = Step(
        "heldout",
        select_heldout,
        HeldoutConfig(sources=sources, exact=exact, fuzzy=fuzzy, heuristics=rules, fraction=0.04, at_least=10),
    )
    held = tuple(
        DocumentsBenchmark(name=f"heldout-{each.name}", path=heldout / f"documents/{each.name}") for each in sources
    )
    contaminated = Step(
        "decontaminate",
        find_contaminated,
        DecontaminateConfig(sources=sources, package_benchmarks=(HUMANEVAL,), documents_benchmarks=held),
    )
    table = Step("embed/table", static_table, StaticTableConfig(dimensions=256))
    vectors = Step("embed/documents", embed_documents, EmbedConfig(sources=sources, encoder=StaticTable(table=table)))
    topic = Step("cluster/topics", topics, TopicsConfig(documents=sources, embeddings=vectors, num_clusters=64))
    labels = Step(
        "quality/labels", labels_file, LabelsFileConfig(documents=sources, labels=LABELS, digest=LABELS_DIGEST)
    )
    student = Step(
        "quality/classifier", classifier, ClassifierConfig(documents=sources, embeddings=vectors, labels=labels)
    )
    quality = Step("quality/scores", scores, ScoresConfig(documents=sources, embeddings=vectors, classifier=student))
    kept = Step(
        "mix/cells",
        documents_by_cell,
        CellsConfig(sources=sources, exact=exact, fuzzy=fuzzy, heuristics=rules, contaminated=contaminated,
                    heldout=heldout / "table", topics=topic, quality=quality),
    )  # fmt: skip
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
    judged = {"exact": exact, "fuzzy": fuzzy, "heuristics": rules, "contaminated": contaminated, "classifier": student}
    return Data(tokens, mixture, evaluation, judged)


def training(name: str, spec: RungSpec, data: Data, *, seed: int = 0, after: tuple[Step, ...] = ()) -> Step:
    config = TrainConfig(
        model=spec.model,
        optimizer=OptimizerConfig(learning_rate=spec.learning_rate, adam_learning_rate=spec.adam_learning_rate),
        tokens=data.tokens,
        mixture=data.mixture,
        evaluation=data.evaluation,
        batch_sequences=spec.batch_sequences,
        num_steps=spec.num_steps,
        evaluation_sequences=EVALUATION_SEQUENCES,
        seed=seed,
    )
    return Step(name, train_language_model, config, resources=train_resources(), after=after)


def pipeline() -> list[Step]:
    made = data()
    rungs = [training(f"ladder/{spec.name}", spec, made) for spec in RUNGS]
    again = training(f"ladder/{NOISE_RUNG.name}-seed1", NOISE_RUNG, made, seed=1)
    noise = Step("ladder/noise", seed_noise, NoiseConfig(runs=(rungs[0], again)))
    prediction = Step(
        "forecast",
        forecast,
        ForecastConfig(
            rungs=tuple(NamedRun(name=spec.name, run=run) for spec, run in zip(RUNGS, rungs, strict=True)),
            target_name="hero",
            target_flops=training_flops(HERO.model, HERO.tokens, with_lm_head=True),
            asymptote=1.5,
            asymptote_range=(1.0, 2.0),
        ),
    )
    hero = training("hero", HERO, made, after=(prediction,))
    scored = Step("forecast/score", score, ScoreConfig(forecast=prediction, run=hero))
    half = evaluate_checkpoint_at(hero, HERO.num_steps // 2, made)
    return [scored, noise, half]


def evaluate_checkpoint_at(run: Step, step: int, data: Data) -> Step:
    checkpoint = run.milestone(f"checkpoints/step-{step}")
    config = CheckpointEvaluationConfig(
        checkpoint=checkpoint, evaluation=data.evaluation, evaluation_sequences=EVALUATION_SEQUENCES
    )
    return Step(f"evaluate/{run.name}-step-{step}", evaluate_checkpoint, config, resources=train_resources())


if __name__ == "__main__":
    main(pipeline)
