"""The step "quality/heuristics": scores of published filter rules, and a keep-or-drop decision by thresholds.

Output: a dense attribute table (`<source>/part-NNNNN.parquet`: id, keep, reasons, one column a score), `samples.json`
(removed documents by reason, to be read) and `quantiles.json` (how each score is spread in each source, to choose
thresholds by). Nothing is removed here.
"""

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from marin_exec import ConfigError, Out, ShardOut, kind, measured
from steps.config_checks import check_number, check_sources
from steps.contract import document_shards, read_documents
from steps.documents import NamedInput, read_table, shard_names, write_table
from steps.files import write_bytes, write_json
from steps.heuristics.presets import CODE, PROSE, REFERENCE, Preset
from steps.heuristics.scores import SCORE_NAMES, score_text
from steps.seeded_ranks import choice_rank

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(frozen=True, kw_only=True)
class HeuristicsConfig:
    sources: tuple[NamedInput, ...]
    """Documents data sets to judge."""
    preset_by_source: dict[str, str]
    """Which preset judges which source, e.g. {"code": "code"}."""
    default_preset: str = "prose"
    """Judges the sources that `preset_by_source` does not name."""
    presets: tuple[Preset, ...] = (PROSE, CODE, REFERENCE)
    """The presets that names refer to, with all their limits: a changed limit is a changed identity."""
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
    preset: dict[str, str]
    seconds: Annotated[float, measured]


@dataclass(frozen=True)
class ShardTask:
    """One shard to judge."""

    source: str
    path: str
    shard: str
    preset: Preset
    samples_per_reason: int
    seed: int


@dataclass(frozen=True)
class ShardCounts:
    """What judging one shard gives back; `samples` has (rank, id) by rule, lowest ranks first."""

    documents: int
    kept: int
    characters: int
    characters_kept: int
    removed: dict[str, int] = field(default_factory=dict)
    samples: dict[str, list[tuple[int, str]]] = field(default_factory=dict)


@kind("quality/heuristics", version=1)
def judge_documents(config: HeuristicsConfig, out: Out) -> HeuristicsResult:
    """Scores all documents and says which of them break a limit of their source's preset, and how.

    Raises:
        StepFailed: a source is not a documents data set.
    """
    started = time.monotonic()
    presets = _presets_by_source(config)
    tasks = {
        f"{source.name}/{shard}": ShardTask(
            source.name, source.path, shard, presets[source.name], config.samples_per_reason, config.seed
        )
        for source in config.sources
        for shard in document_shards(source.path)
    }
    counts = {name: ShardCounts(**value) for name, value in out.map_shards(judge_shard, tasks).items()}
    _write_samples(config, out, tasks, counts)
    _write_quantiles(config, out)

    def total(attribute: str) -> dict[str, int]:
        return {
            source.name: sum(getattr(counts[n], attribute) for n, task in tasks.items() if task.source == source.name)
            for source in config.sources
        }

    removed = {source.name: Counter() for source in config.sources}
    for name, task in tasks.items():
        removed[task.source].update(counts[name].removed)
    return HeuristicsResult(
        documents_in=total("documents"),
        documents_kept=total("kept"),
        characters_in=total("characters"),
        characters_kept=total("characters_kept"),
        removed_by_rule={
            name: {rule: counter[rule] for rule in SCORE_NAMES if counter[rule]} for name, counter in removed.items()
        },
        preset={name: preset.name for name, preset in presets.items()},
        seconds=time.monotonic() - started,
    )


def judge_shard(task: ShardTask, shard: ShardOut) -> ShardCounts:
    """Writes the dense table of one shard of documents."""
    documents = read_documents(task.path, task.shard, ["id", "text"])
    ids, texts = documents["id"].to_pylist(), documents["text"].to_pylist()
    scores = [score_text(text, task.preset.stop_words) for text in texts]
    reasons = [_reasons(task.preset, values) for values in scores]
    keep = [not found for found in reasons]
    columns: dict[str, Any] = {
        "id": pa.array(ids, pa.string()),
        "keep": pa.array(keep, pa.bool_()),
        "reasons": pa.array([", ".join(found.values()) for found in reasons], pa.string()),
    }
    for name in SCORE_NAMES:
        columns[name] = pa.array([values[name] for values in scores], pa.float64())
    write_table(shard.file(f"{task.source}/{task.shard}"), pa.table(columns))

    by_rule: dict[str, list[tuple[int, str]]] = {}
    for identifier, found in zip(ids, reasons, strict=True):
        for rule in found:
            by_rule.setdefault(rule, []).append((sample_rank(identifier, task.seed), identifier))
    lengths = [len(text) for text in texts]
    return ShardCounts(
        documents=len(texts),
        kept=sum(keep),
        characters=sum(lengths),
        characters_kept=sum(length for length, kept in zip(lengths, keep, strict=True) if kept),
        removed={rule: len(members) for rule, members in by_rule.items()},
        samples={rule: sorted(members)[: task.samples_per_reason] for rule, members in by_rule.items()},
    )


def sample_rank(identifier: str, seed: int) -> int:
    """Returns a document's place in a seeded shuffle, the same however documents are spread over shards."""
    return choice_rank(seed, identifier) >> 1  # 63 bits: survives any JSON reader as int64


def _reasons(preset: Preset, scores: dict[str, float]) -> dict[str, str]:
    found = {limit.score: limit.reason(scores[limit.score]) for limit in preset.limits}
    return {rule: reason for rule, reason in found.items() if reason is not None}


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
    chosen: dict[str, list[tuple[int, str, str]]] = {}
    for name, count in counts.items():
        for rule, members in count.samples.items():
            chosen.setdefault(rule, []).extend((rank, identifier, name) for rank, identifier in members)
    chosen = {rule: sorted(chosen[rule])[: config.samples_per_reason] for rule in SCORE_NAMES if rule in chosen}
    wanted: dict[str, set[str]] = {}
    for members in chosen.values():
        for _, identifier, name in members:
            wanted.setdefault(name, set()).add(identifier)
    shown = {name: _read_samples(config, out, tasks[name], identifiers) for name, identifiers in wanted.items()}
    samples = {rule: [shown[name][identifier] for _, identifier, name in members] for rule, members in chosen.items()}
    write_bytes(out.file("samples.json"), json.dumps(samples, indent=1, ensure_ascii=False).encode())


def _read_samples(config: HeuristicsConfig, out: Out, task: ShardTask, identifiers: set[str]) -> dict[str, dict]:
    documents = read_table(task.path, task.shard, ["id", "text", "source_id"])
    reasons = read_table(f"{out.path}/{task.source}", task.shard, ["reasons"])["reasons"]
    found = {}
    for row, identifier in enumerate(documents["id"].to_pylist()):
        if identifier in identifiers:
            text = documents["text"][row].as_py()
            found[identifier] = {
                "id": identifier,
                "source": task.source,
                "source_id": documents["source_id"][row].as_py(),
                "reasons": reasons[row].as_py(),
                "characters": len(text),
                "text": text[: config.sample_characters],
            }
    return found


def _write_quantiles(config: HeuristicsConfig, out: Out) -> None:
    """How each score is spread in each source: what one needs to see before moving a limit."""
    quantiles: dict[str, dict[str, list[float]]] = {}
    for source in config.sources:
        tables = [read_table(f"{out.path}/{source.name}", shard) for shard in shard_names(source.path)]
        table = pa.concat_tables(tables)
        quantiles[source.name] = {
            name: [round(float(v), 6) for v in np.quantile(table[name].to_numpy(), QUANTILES)] if len(table) else []
            for name in SCORE_NAMES
        }
    write_json(out.file("quantiles.json"), {"quantiles": QUANTILES, "scores": quantiles})
