"""The whole chain on a laptop: raw text to a mixture-of-experts run that was forecast before it was trained.

The text is what the locked packages of this environment hold. Every number below is the record of what was done; what
is not here is the default of the step's config class. `make quickstart` runs it and says where the report is.
"""

from typing import Any

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
from steps.ladder.config import ladder_config
from steps.ladder.noise import NoiseConfig, seed_noise
from steps.ladder.rule import HERO_WIDTH, RUNG_WIDTHS, rung
from steps.mix.cells import CellsConfig, documents_by_cell
from steps.mix.weights import Phase, Proportional, WeightsConfig, mixture_weights
from steps.model.counts import training_flops
from steps.normalize.normalize import NormalizeConfig, normalize
from steps.quality.classifier import ClassifierConfig, classifier
from steps.quality.labels_file import LabelsFileConfig, labels_file
from steps.quality.scores import ScoresConfig, scores
from steps.report.experiment import ExperimentReportConfig, experiment_report
from steps.sources.environment import environment_texts
from steps.sources.environment_default import default_sources
from steps.tokenize.bpe import BpeConfig, train_bpe
from steps.tokenize.cache import CacheConfig, token_cache
from steps.train.language_model import train_language_model
from steps.train.threads import train_resources

SEQUENCE_LENGTH = 128
VOCABULARY_SIZE = 2_048
PRESETS = {"code": "code", "docstrings": "reference", "readmes": "reference", "docs": "reference", "licences": "prose"}
LABELS, LABELS_DIGEST = "environment_default.jsonl", "3b4b9c63506fe25887de085050bc27d6"
RUNGS = [rung(width, vocabulary_size=VOCABULARY_SIZE, sequence_length=SEQUENCE_LENGTH) for width in RUNG_WIDTHS]
HERO = rung(HERO_WIDTH, vocabulary_size=VOCABULARY_SIZE, sequence_length=SEQUENCE_LENGTH)
EVALUATION_SEQUENCES = 40  # of each held-out set, at most


def pipeline() -> list[Step]:
    # Text: five sources, normalised. Their order is the priority of the copy that stays.
    documents = []
    for name, config in default_sources(seed=0).items():
        raw = Step(f"sources/{name}", environment_texts, config)
        normal = NormalizeConfig(source=raw, documents_per_shard=400)
        documents.append(NamedInput(name=name, path=Step(f"documents/{name}", normalize, normal)))
    sources = tuple(documents)

    # Judgements, each a table beside the documents. Nothing is removed before mix/cells.
    exact = Step("dedup/exact", exact_duplicates, ExactConfig(sources=sources))
    fuzzy = Step("dedup/fuzzy", fuzzy_duplicates, FuzzyConfig(sources=sources, exact=exact, containment=0.9))
    rules = Step("quality/heuristics", judge_documents, HeuristicsConfig(sources=sources, preset_by_source=PRESETS))
    choice = HeldoutConfig(
        sources=sources, exact=exact, fuzzy=fuzzy, heuristics=rules, fraction=0.04, at_least=10, seed=0
    )
    heldout = Step("heldout", select_heldout, choice)
    held = [DocumentsBenchmark(name=f"heldout-{s.name}", path=heldout / f"documents/{s.name}") for s in sources]
    overlap = DecontaminateConfig(sources=sources, package_benchmarks=(HUMANEVAL,), documents_benchmarks=tuple(held))
    contaminated = Step("decontaminate", find_contaminated, overlap)
    table = Step("embed/table", static_table, StaticTableConfig(dimensions=256))
    vectors = Step("embed/documents", embed_documents, EmbedConfig(sources=sources, encoder=StaticTable(table=table)))
    topics_config = TopicsConfig(documents=sources, embeddings=vectors, num_clusters=64, merge_restarts=1)
    topic = Step("cluster/topics", topics, topics_config)
    labels_config = LabelsFileConfig(documents=sources, labels=LABELS, digest=LABELS_DIGEST)
    labels = Step("quality/labels", labels_file, labels_config)
    student_config = ClassifierConfig(documents=sources, embeddings=vectors, labels=labels)
    student = Step("quality/classifier", classifier, student_config)
    quality_config = ScoresConfig(documents=sources, embeddings=vectors, classifier=student)
    quality = Step("quality/scores", scores, quality_config)

    # Cells of topic x quality, a tokenizer, token stores, and a mixture in two phases.
    cells_config = CellsConfig(
        sources=sources, exact=exact, fuzzy=fuzzy, heuristics=rules, contaminated=contaminated,
        heldout=heldout / "table", topics=topic, quality=quality,
    )  # fmt: skip
    kept = Step("mix/cells", documents_by_cell, cells_config)
    bpe = Step("tokenizer", train_bpe, BpeConfig(documents=kept / "cells", vocabulary_size=VOCABULARY_SIZE))
    tokens = Step("tokens/train", token_cache, CacheConfig(documents=kept / "cells", tokenizer=bpe))
    held_tokens = CacheConfig(documents=heldout / "documents", tokenizer=bpe, split="validation")
    evaluation = Step("tokens/evaluation", token_cache, held_tokens)
    phases = (
        Phase(rule=Proportional()),
        Phase(rule=Proportional(quality_exponent=1.0), start_fraction=0.8),
    )
    weights = WeightsConfig(
        tokens=tokens, sequence_length=SEQUENCE_LENGTH, phases=phases, block_sequences=256,
        budgets_tokens=tuple(spec.tokens for spec in (*RUNGS, HERO)),
    )  # fmt: skip
    mixture = Step("mix/weights", mixture_weights, weights)
    data: dict[str, Any] = {"tokens": tokens, "mixture": mixture, "evaluation": evaluation}
    data["evaluation_sequences"] = EVALUATION_SEQUENCES

    # The ladder, its noise, the forecast, and only then the hero.
    one_core = train_resources(1)
    runs = [
        Step(f"ladder/{spec.name}", train_language_model, ladder_config(spec, **data), resources=one_core)
        for spec in RUNGS
    ]
    other_seed = ladder_config(RUNGS[0], **data, seed=1)
    again = Step(f"ladder/{RUNGS[0].name}-seed1", train_language_model, other_seed, resources=one_core)
    noise = Step("ladder/noise", seed_noise, NoiseConfig(runs=(runs[0], again)))
    rungs = tuple(NamedRun(name=spec.name, run=run) for spec, run in zip(RUNGS, runs, strict=True))
    hero_flops = training_flops(HERO.model, HERO.tokens, with_lm_head=True)
    method = ForecastConfig(
        rungs=rungs, target_name="hero", target_flops=hero_flops, asymptote=1.5, asymptote_range=(1.0, 2.0)
    )
    prediction = Step("forecast", forecast, method)
    large = ladder_config(HERO, **data)
    hero = Step("hero", train_language_model, large, resources=train_resources(2), after=(prediction,))
    scored = Step("forecast/score", score, ScoreConfig(forecast=prediction, run=hero))
    evaluations = []
    for checkpoint in large.checkpoints[1::2]:  # half-way, while the hero is still running, and at its end
        name = checkpoint.split("/")[-1]
        evaluated = CheckpointEvaluationConfig(
            checkpoint=hero.milestone(checkpoint), evaluation=evaluation, evaluation_sequences=EVALUATION_SEQUENCES
        )
        run = Step(f"evaluate/hero-{name}", evaluate_checkpoint, evaluated, resources=one_core)
        evaluations.append(NamedInput(name=name, path=run))

    page = ExperimentReportConfig(
        title="Quickstart", hero=NamedRun(name="hero", run=hero), rungs=rungs, forecast=prediction, score=scored,
        noise=noise, evaluations=tuple(evaluations), sources=sources, cells=kept, fuzzy=fuzzy, heuristics=rules,
        contaminated=contaminated, topics=topic, labels=labels, classifier=student, tokens=tokens, mixture=mixture,
    )  # fmt: skip
    return [Step("report", experiment_report, page)]


if __name__ == "__main__":
    main(pipeline)
