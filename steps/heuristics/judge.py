"""The step "quality/heuristics": a keep-or-drop decision by limits on the scores of published filter rules.

Output: a dense attribute table (`<source>/part-NNNNN.parquet`: id, keep, reasons; and every score, unless the scores came
from `quality/heuristic_scores`), `samples.json` (removed documents by reason, to be read) and `quantiles.json` (how each
score is spread in each source, to choose limits by). Nothing is removed here.
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from marin_exec import ConfigError, InputPath, Out, ShardOut, kind, measured
from steps.config_checks import check_number, check_sources
from steps.contract import document_shards, read_documents
from steps.documents import NamedInput, join_dense, read_table, write_table
from steps.files import write_json
from steps.heuristics.language_rules import LANGUAGE_RULES, LanguageRule, preset_in
from steps.heuristics.presets import PRESETS, Preset
from steps.heuristics.scores import SCORE_NAMES
from steps.heuristics.stop_words import STOP_WORDS
from steps.samples import Ranked, chosen_samples, shard_samples, write_samples

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(frozen=True, kw_only=True)
class HeuristicsConfig:
    sources: tuple[NamedInput, ...]
    """Documents data sets to judge."""
    preset_by_source: dict[str, str]
    """Which preset judges which source, e.g. {"code": "code"}."""
    default_preset: str = "prose"
    """Judges the sources that `preset_by_source` does not name."""
    presets: tuple[Preset, ...] = PRESETS
    """The presets that names refer to, with all their limits: a changed limit is a changed identity."""
    scores: InputPath | None = None
    """Output of quality/heuristic_scores, so that other limits read no text; None scores here."""
    languages: InputPath | None = None
    """Output of documents/language; None judges every document as English."""
    language_rules: tuple[LanguageRule, ...] = LANGUAGE_RULES
    """How limits change by language, if there are languages."""
    stop_words: dict[str, tuple[str, ...]] = field(default_factory=lambda: dict(STOP_WORDS))
    """By language, if there are languages. In one without, the number of stop words is not judged."""
    samples_per_reason: int = 20
    """At most so many removed documents a reason go to samples.json."""
    sample_characters: int = 600
    """Samples are cut to this many characters."""
    seed: int = 0
    """Of the choice of samples."""

    def __post_init__(self) -> None:
        check_sources(self, "sources")
        check_number(self, "samples_per_reason", "sample_characters", low=0)
        _presets_by_source(self)


@dataclass(frozen=True)
class HeuristicsResult:
    """Counts by source, and by source and rule; a document with several reasons counts under each."""

    documents_in: dict[str, int]
    documents_kept: dict[str, int]
    characters_in: dict[str, int]
    characters_kept: dict[str, int]
    removed_by_rule: dict[str, dict[str, int]]
    removed_by_one_rule: dict[str, dict[str, int]]
    """Documents with this reason and no other: what would come back without the rule."""
    preset: dict[str, str]
    seconds: Annotated[float, measured]


@dataclass(frozen=True)
class ShardTask:
    """One shard to judge."""

    source: NamedInput
    shard: str
    preset: Preset
    scores: str | None
    languages: str | None
    language_rules: tuple[LanguageRule, ...]
    stop_words: dict[str, tuple[str, ...]]
    samples_per_reason: int
    seed: int


@dataclass(frozen=True)
class ShardCounts:
    """What judging one shard gives back; counts and samples by rule."""

    documents: int
    kept: int
    characters: int
    characters_kept: int
    removed: dict[str, int]
    removed_alone: dict[str, int]
    samples: dict[str, Ranked]


@kind("quality/heuristics", version=2)
def judge_documents(config: HeuristicsConfig, out: Out) -> HeuristicsResult:
    """Says which documents break a limit of their source's preset, and how.

    Raises:
        StepFailed: a source is not a documents data set, or the scores or languages are not those of its documents.
    """
    started = time.monotonic()
    presets = _presets_by_source(config)
    tasks = {
        f"{source.name}/{shard}": ShardTask(
            source=source,
            shard=shard,
            preset=presets[source.name],
            scores=config.scores,
            languages=config.languages,
            language_rules=config.language_rules,
            stop_words=config.stop_words,
            samples_per_reason=config.samples_per_reason,
            seed=config.seed,
        )
        for source in config.sources
        for shard in document_shards(source.path)
    }
    counts = {name: ShardCounts(**value) for name, value in out.map_shards(judge_shard, tasks).items()}
    _write_samples(config, out, tasks, counts)
    _write_quantiles(config, out, tasks)

    def of(source: NamedInput) -> list[ShardCounts]:
        return [counts[name] for name, task in tasks.items() if task.source.name == source.name]

    def total(attribute: str) -> dict[str, int]:
        return {source.name: sum(getattr(each, attribute) for each in of(source)) for source in config.sources}

    def by_rule(attribute: str) -> dict[str, dict[str, int]]:
        sums = {}
        for source in config.sources:
            found = sum((Counter(getattr(each, attribute)) for each in of(source)), Counter())
            sums[source.name] = {rule: found[rule] for rule in SCORE_NAMES if found[rule]}
        return sums

    return HeuristicsResult(
        documents_in=total("documents"),
        documents_kept=total("kept"),
        characters_in=total("characters"),
        characters_kept=total("characters_kept"),
        removed_by_rule=by_rule("removed"),
        removed_by_one_rule=by_rule("removed_alone"),
        preset={name: preset.name for name, preset in presets.items()},
        seconds=time.monotonic() - started,
    )


def judge_shard(task: ShardTask, shard: ShardOut) -> ShardCounts:
    """Writes the dense table of one shard of documents."""
    from steps.heuristics.tables import languages_of_shard, score_table

    documents = read_documents(task.source.path, task.shard, ["id", "text"] if task.scores is None else ["id"])
    ids = documents.select(["id"])
    languages = languages_of_shard(ids, task.languages, task.source.name, task.shard)
    if task.scores is None:
        scores = score_table(documents, languages, task.stop_words, task.preset.stop_words)
    else:
        where = f"{task.scores}/{task.source.name}"
        scores = join_dense(ids, read_table(where, task.shard), f"{where}/{task.shard}")
    reasons = _reasons(task, scores, languages)
    keep = np.array([not found for found in reasons], dtype=bool)
    columns: dict[str, Any] = {
        "id": scores["id"],
        "keep": pa.array(keep, pa.bool_()),
        "reasons": pa.array([", ".join(found.values()) for found in reasons], pa.string()),
    }
    if task.scores is None:
        columns |= {name: scores[name] for name in SCORE_NAMES}
    write_table(shard.file(f"{task.source.name}/{task.shard}"), pa.table(columns))
    lengths = scores["characters"].to_numpy()
    labelled = [(rule, each) for each, found in zip(scores["id"].to_pylist(), reasons, strict=True) for rule in found]
    return ShardCounts(
        documents=len(reasons),
        kept=int(keep.sum()),
        characters=int(lengths.sum()),
        characters_kept=int(lengths[keep].sum()),
        removed=dict(Counter(rule for found in reasons for rule in found)),
        removed_alone=dict(Counter(rule for found in reasons if len(found) == 1 for rule in found)),
        samples=shard_samples(labelled, task.seed, task.samples_per_reason),
    )


def _reasons(task: ShardTask, scores: pa.Table, languages: list[str] | None) -> list[dict[str, str]]:
    """Returns why each document is removed, by rule; {} if it is kept."""
    reasons: list[dict[str, str]] = [{} for _ in range(len(scores))]
    present = [None] if languages is None else sorted(set(languages))
    for language in present:
        preset, rows = task.preset, np.arange(len(scores))
        if language is not None:
            preset = preset_in(preset, language, task.language_rules, task.stop_words)
            rows = np.flatnonzero([each == language for each in languages or ()])
        for limit in preset.limits:
            values = scores[limit.score].to_numpy()
            for row in rows[limit.broken_by(values[rows])].tolist():
                reasons[row][limit.score] = limit.reason(values[row].item()) or ""
    return reasons


def _presets_by_source(config: HeuristicsConfig) -> dict[str, Preset]:
    presets = {preset.name: preset for preset in config.presets}
    names = [source.name for source in config.sources]
    unknown = sorted(set(config.preset_by_source) - set(names))
    if unknown:
        raise ConfigError(
            f"HeuristicsConfig.preset_by_source names {unknown}, which are no sources; the sources are {names}"
        )
    chosen = {name: config.preset_by_source.get(name, config.default_preset) for name in names}
    for name, preset in chosen.items():
        if preset not in presets:
            raise ConfigError(f"source {name!r}: preset {preset!r} is not known; the presets are {sorted(presets)}")
    return {name: presets[preset] for name, preset in chosen.items()}


def _write_samples(
    config: HeuristicsConfig, out: Out, tasks: dict[str, ShardTask], counts: dict[str, ShardCounts]
) -> None:
    chosen = chosen_samples({name: count.samples for name, count in counts.items()}, config.samples_per_reason)
    places = {name: (task.source, task.shard) for name, task in tasks.items()}

    def reasons(name: str, ids: set[str]) -> dict[str, dict[str, Any]]:
        table = read_table(f"{out.path}/{tasks[name].source.name}", tasks[name].shard, ["id", "reasons"])
        return {row["id"]: {"reasons": row["reasons"]} for row in table.to_pylist() if row["id"] in ids}

    in_order = {rule: chosen[rule] for rule in SCORE_NAMES if rule in chosen}
    write_samples(out.file("samples.json"), in_order, places, config.sample_characters, reasons)


def _write_quantiles(config: HeuristicsConfig, out: Out, tasks: dict[str, ShardTask]) -> None:
    """How each score is spread in each source: what one needs to see before moving a limit."""
    folder = out.path if config.scores is None else config.scores
    quantiles: dict[str, dict[str, list[float]]] = {}
    for source in config.sources:
        shards = [task.shard for task in tasks.values() if task.source.name == source.name]
        table = pa.concat_tables([read_table(f"{folder}/{source.name}", shard, list(SCORE_NAMES)) for shard in shards])
        quantiles[source.name] = {
            name: [round(float(v), 6) for v in np.quantile(table[name].to_numpy(), QUANTILES)] if len(table) else []
            for name in SCORE_NAMES
        }
    write_json(out.file("quantiles.json"), {"quantiles": QUANTILES, "scores": quantiles})
