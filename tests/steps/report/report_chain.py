"""A small chain that ends in a report: real documents, judgements, mixture, forecast, noise and score; training runs that
follow a power law, in the files and formats of real ones. `--shift` moves the hero off its forecast.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from marin_exec import InputPath, Out, Step, kind, main
from steps.documents import DOCUMENT_SCHEMA, NamedInput, document_id, read_table, write_table
from steps.forecast.forecast import ForecastConfig, NamedRun, forecast
from steps.forecast.score import ScoreConfig, score
from steps.heuristics.judge import HeuristicsConfig, judge_documents
from steps.heuristics.presets import Limit, Preset
from steps.ladder.noise import NoiseConfig, seed_noise
from steps.mix.cells import CellsConfig, documents_by_cell
from steps.mix.weights import Phase, Proportional, WeightsConfig, mixture_weights
from steps.quality.classifier import ClassifierResult
from steps.quality.evaluation import Estimate, Scorecard
from steps.quality.labels import Label, write_labels
from steps.report.experiment import ExperimentReportConfig, experiment_report
from steps.tokenize.store import CellEntry, TokenIndex, write_index

HOSTILE = "</script><img src=x onerror=alert(1)> \"'&\N{LINE SEPARATOR} is a near duplicate"
FLAGGED = "</style><script>document.title = 'owned'</script> the benchmark's own words"
SOURCES = ("code", "docstrings", "docs", "readmes", "licences")
TOPICS = ("array-shape-axis", "licence-copyright-notice", "path-file-<b>directory</b>")
SHARD = "part-00000.parquet"
RUNGS = {32: 2e11, 48: 5e11, 64: 1.1e12, 80: 2e12}
HERO_FLOPS = 5e12
TEXT, REAL = pa.string(), pa.float64()
COLUMNS = {
    "exact": {"kept_source": TEXT},
    "fuzzy": {"kept_source": TEXT, "kept_id": TEXT, "containment": REAL, "jaccard": REAL},
    "contaminated": {"benchmark": TEXT, "max_overlap": pa.float32(), "num_hits": pa.int32(), "example": TEXT},
    "heldout": {},
    "topics": {"cluster": pa.int32(), "topic": pa.int16()},
    "quality": {"score": pa.float32(), "bucket": pa.int8()},
}
SHORT = Preset(name="short", limits=(Limit(score="gopher_words", minimum=6),))
SCHEMAS = {name: pa.schema({"id": TEXT, **columns}) for name, columns in COLUMNS.items()}


@dataclass(frozen=True)
class Params:
    shift: float = 0.02
    """Nats that the hero ends above the law."""
    title: str = "A small <chain> & its report"


@dataclass(frozen=True, kw_only=True)
class TextsConfig:
    source: str


@dataclass(frozen=True)
class TextsResult:
    documents: int
    num_bytes: int


@kind("test/texts", version=1)
def texts(config: TextsConfig, out: Out) -> TextsResult:
    rows = [
        f"{config.source} text number {n} " + "with the words that people have to read of it " * (n % 7)
        for n in range(40)
    ]
    rows += [f"{HOSTILE} {config.source}", f"{FLAGGED} {config.source}", "the same text in all sources of the chain"]
    named = sorted((document_id(text), text, f"{config.source}/{n}.txt", "{}") for n, text in enumerate(rows))
    columns = [pa.array(list(column), pa.string()) for column in zip(*named, strict=True)]
    write_table(out.file(SHARD), pa.table(columns, schema=DOCUMENT_SCHEMA))
    return TextsResult(len(rows), sum(len(text.encode()) for text in rows))


@dataclass(frozen=True, kw_only=True)
class JudgementConfig:
    judgement: str
    sources: tuple[NamedInput, ...]


@kind("test/judgement", version=1)
def judgement(config: JudgementConfig, out: Out) -> dict[str, int]:
    """A sparse or dense table of the contract, by position and text; and the evidence files that pages read."""
    hits, flagged = 0, []
    for number, source in enumerate(config.sources):
        documents = read_table(source.path, SHARD)
        rows = documents.to_pylist()
        table = {
            "exact": [{"id": r["id"], "kept_source": SOURCES[0]} for r in rows if "same text" in r["text"] and number],
            "fuzzy": [
                {
                    "id": r["id"],
                    "kept_source": source.name,
                    "kept_id": rows[0]["id"],
                    "containment": 0.95,
                    "jaccard": 0.9,
                }
                for r in rows
                if r["text"].startswith(HOSTILE)
            ],
            "contaminated": [
                {"id": r["id"], "benchmark": "humaneval", "max_overlap": 0.8, "num_hits": 9, "example": "HumanEval/1"}
                for r in rows
                if r["text"].startswith(FLAGGED)
            ],
            "heldout": [{"id": r["id"]} for r in rows if "number 1" in r["text"][:40]],
            "topics": [{"id": r["id"], "cluster": 0, "topic": (n + number) % 3} for n, r in enumerate(rows)],
            "quality": [{"id": r["id"], "score": 0.5, "bucket": n % 5} for n, r in enumerate(rows)],
        }[config.judgement]
        flagged += [{**row, "source": source.name} for row in table]
        hits += len(table)
        write_table(out.file(f"{source.name}/{SHARD}"), pa.Table.from_pylist(table, schema=SCHEMAS[config.judgement]))
    if config.judgement == "contaminated":
        samples = [{**row, "source_id": "f", "matched_text": FLAGGED, "benchmarks": ["humaneval"]} for row in flagged]
        Path(out.file("flagged_samples.json")).write_text(json.dumps({"humaneval": samples}))
    if config.judgement == "topics":
        counts = dict.fromkeys(SOURCES, 14)
        listed = [
            {
                "topic": n,
                "name": name,
                "terms": name.split("-"),
                "documents": 70,
                "documents_by_source": counts,
                "clusters": [n],
            }
            for n, name in enumerate(TOPICS)
        ]
        Path(out.file("topics.json")).write_text(json.dumps({"cluster_sample_documents": [1], "topics": listed}))
    return {"hits": hits}


@dataclass(frozen=True, kw_only=True)
class LabelsConfig:
    documents: InputPath


@kind("test/labels", version=1)
def labels(config: LabelsConfig, out: Out) -> dict[str, int]:
    ids = read_table(config.documents, SHARD)["id"].to_pylist()
    kinds = ("code", "prose", "reference")
    rows = [Label(id=i, score=1 + n % 5, content_type=kinds[n % 3], reason="so", reader="a") for n, i in enumerate(ids)]
    again = [Label(id=r.id, score=min(5, r.score + n % 2), content_type=r.content_type, reason="so", reader="b")
             for n, r in enumerate(rows[:10])]  # fmt: skip
    write_labels(out.file("labels.jsonl"), [*rows, *again])
    return {"documents": len(ids)}


@kind("test/classifier", version=1)
def classifier(config: LabelsConfig, out: Out) -> ClassifierResult:
    Path(out.file("student.json")).write_text("{}")

    def card(value: float) -> Scorecard:
        estimate = Estimate(value=value, low=value - 0.0625, high=value + 0.0625)
        return Scorecard(
            spearman=estimate, spearman_within_source=estimate, spearman_within_type=estimate, auc=estimate
        )

    return ClassifierResult(
        labelled=43, groups=40, positives=17, student=card(0.731), hashed_ngrams=card(0.656),
        source_mean=card(0.312), length=card(0.245), gain_within_source=Estimate(value=0.4, low=0.3, high=0.5),
        gain_over_hashed_ngrams=Estimate(value=0.1, low=0.0, high=0.2), spearman_by_source={}, spearman_by_type={},
        content_type_accuracy=0.9, curves=("all",), beats_baselines=True, verdict="The student beats both baselines.",
        seconds=1.0,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TokensConfig:
    cells: InputPath


@kind("test/tokens", version=1)
def tokens(config: TokensConfig, out: Out) -> dict[str, int]:
    names = sorted(path.name for path in Path(config.cells).iterdir())
    cells = tuple(
        CellEntry(name=n, tokens=4000 + 10 * i, documents=9, bytes=14000, digest="0") for i, n in enumerate(names)
    )
    index = TokenIndex(
        begin_token=0, end_token=None, vocabulary_size=2048, tokenizer_digest="0", split="train", cells=cells
    )
    write_index(out.file("index.json"), index)
    return {"tokens": sum(cell.tokens for cell in cells)}


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    width: int
    flops: float
    shift: float = 0.0
    seed: int = 0
    num_steps: int = 400
    mixture: InputPath
    tokens: InputPath


@kind("test/train", version=1)
def train(config: RunConfig, out: Out) -> dict[str, float]:
    def macro(progress: float) -> float:
        law = 1.5 + 40.0 * (config.flops * progress) ** -0.1
        return law + config.shift * progress + 0.01 * config.seed + 0.004 * math.sin(40 * progress + config.width)

    def at(step: int) -> dict[str, float]:
        return {"step": step, "progress": step / config.num_steps, "tokens": 2048 * step, "flops": 1000 * step}

    steps = range(1, config.num_steps + 1)
    metrics = [
        {**at(s), "loss": 4.0, "cross_entropy": macro(s / config.num_steps) + 0.05 * math.sin(s), "router_entropy_min": 2.6,
         "grad_norm": 0.3 + 2 / s, "router_entropy": 2.7725 - 0.1 / s, "router_bias_max": 0.5, "learning_rate": 0.1 / s,
         "drop_fraction": 0.02 + 0.1 / s}
        for s in steps
    ]  # fmt: skip
    evals = []
    for s in range(config.num_steps // 20, config.num_steps + 1, config.num_steps // 20):
        loss = macro(s / config.num_steps)
        sets = {name: {"loss": loss + 0.1 * (n - 2), "bpb": loss / 3} for n, name in enumerate(SOURCES)}
        evals.append(
            {**at(s), "macro_loss": loss, "micro_loss": loss, "macro_bpb": loss / 3, "micro_bpb": 1.2, "sets": sets}
        )
    checkpoints = [f"checkpoints/step-{config.num_steps}"]
    run = {
        "model": {"width": config.width, "num_layers": 2, "num_experts": 16, "experts_per_token": 2}, "num_steps": config.num_steps,
        "batch_sequences": 16, "seed": config.seed, "tokens": 2048 * config.num_steps, "active_parameters": 1000 * config.width,
        "lm_head_parameters": 2048 * config.width, "total_parameters": 9000 * config.width, "flops": int(config.flops / 2),
        "flops_with_lm_head": int(config.flops), "checkpoints": checkpoints,
    }  # fmt: skip
    Path(out.file("run.json")).write_text(json.dumps(run))
    for name, rows in (("metrics.jsonl", metrics), ("evals.jsonl", evals)):
        Path(out.file(name)).write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path(out.file(f"{checkpoints[0]}/checkpoint.json")).write_text("{}")
    out.publish(checkpoints[0])
    return {"num_steps": config.num_steps, "macro_loss": evals[-1]["macro_loss"]}


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    checkpoint: InputPath


@kind("test/evaluation", version=1)
def evaluation(config: EvaluationConfig, out: Out) -> dict[str, float]:
    page = {"step": 400, "macro_loss": 3.4567, "micro_loss": 3.5, "macro_bpb": 1.2, "micro_bpb": 1.3, "sets": {}}
    Path(out.file("evaluation.json")).write_text(json.dumps(page))
    return {"macro_loss": page["macro_loss"]}


def data() -> dict[str, object]:
    sources = tuple(
        NamedInput(name=name, path=Step(f"documents/{name}", texts, TextsConfig(source=name))) for name in SOURCES
    )
    made: dict[str, object] = {"sources": sources}
    for name in ("exact", "fuzzy", "contaminated", "heldout", "topics", "quality"):
        made[name] = Step(f"judge-{name}", judgement, JudgementConfig(judgement=name, sources=sources))
    made["heuristics"] = Step(
        "heuristics",
        judge_documents,
        HeuristicsConfig(sources=sources, preset_by_source={}, default_preset="short", presets=(SHORT,)),
    )
    names = ("exact", "fuzzy", "heuristics", "contaminated", "heldout", "topics", "quality")
    made["cells"] = Step(
        "cells", documents_by_cell, CellsConfig(sources=sources, **{name: made[name] for name in names})
    )
    made["labels"] = Step("labels", labels, LabelsConfig(documents=sources[0].path))
    made["classifier"] = Step("classifier", classifier, LabelsConfig(documents=sources[0].path))
    made["tokens"] = Step("tokens", tokens, TokensConfig(cells=made["cells"] / "cells"))  # type: ignore[operator]
    made["mixture"] = Step("mixture", mixture_weights, WeightsConfig(
        tokens=made["tokens"], sequence_length=128, budgets_tokens=(40_000, 90_000), block_sequences=256, max_epochs=50.0,
        phases=(Phase(rule=Proportional()), Phase(rule=Proportional(quality_exponent=1.0), start_fraction=0.8))))  # fmt: skip
    return made


def pipeline(params: Params) -> list[Step]:
    made = data()
    shared = {"mixture": made["mixture"], "tokens": made["tokens"]}

    def run(name: str, width: int, flops: float, after: tuple[Step, ...] = (), **changes: float) -> Step:
        return Step(name, train, RunConfig(width=width, flops=flops, **shared, **changes), after=after)  # type: ignore[arg-type]

    rungs = tuple(
        NamedRun(name=f"d{width}", run=run(f"ladder/d{width}", width, flops)) for width, flops in RUNGS.items()
    )
    noise = Step("noise", seed_noise, NoiseConfig(runs=(rungs[0].run, run("ladder/d32-seed1", 32, RUNGS[32], seed=1))))
    made_forecast = Step("forecast", forecast, ForecastConfig(
        rungs=rungs, target_name="hero", target_flops=int(HERO_FLOPS), asymptote=1.5, asymptote_range=(1.2, 1.8)))  # fmt: skip
    hero = run("hero", 112, HERO_FLOPS, after=(made_forecast,), shift=params.shift)
    scored = Step("score", score, ScoreConfig(forecast=made_forecast, run=hero))
    checked = Step("evaluate", evaluation, EvaluationConfig(checkpoint=hero.milestone("checkpoints/step-400")))
    names = (
        "sources",
        "cells",
        "fuzzy",
        "heuristics",
        "contaminated",
        "topics",
        "labels",
        "classifier",
        "tokens",
        "mixture",
    )
    config = ExperimentReportConfig(
        title=params.title,
        hero=NamedRun(name="hero", run=hero),
        rungs=rungs,
        forecast=made_forecast,
        score=scored,
        noise=noise,
        evaluations=(NamedInput(name="hero, end", path=checked),),
        **{name: made[name] for name in names},  # type: ignore[arg-type]
    )
    return [Step("report", experiment_report, config)]


if __name__ == "__main__":
    main(pipeline)
