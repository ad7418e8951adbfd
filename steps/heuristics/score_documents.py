"""The step "quality/heuristic_scores": every score of every document, with no decision in it.

Output: a dense attribute table (`<source>/part-NNNNN.parquet`: id, characters (int64), one float64 column a score, named and
defined in `steps/heuristics/scores.py`). Other limits, or other presets, then cost a `quality/heuristics` that reads no text.
"""

import time
from dataclasses import dataclass, field
from typing import Annotated

from marin_exec import ConfigError, InputPath, Out, ShardOut, kind, measured
from steps.config_checks import check_sources
from steps.contract import document_shards, read_documents
from steps.documents import NamedInput, write_table
from steps.heuristics.stop_words import STOP_WORDS


@dataclass(frozen=True, kw_only=True)
class HeuristicScoresConfig:
    sources: tuple[NamedInput, ...]
    """Documents data sets to score."""
    languages: InputPath | None = None
    """Output of documents/language: each document's stop words are those of its language. None takes English for all."""
    stop_words: dict[str, tuple[str, ...]] = field(default_factory=lambda: dict(STOP_WORDS))
    """By language (ISO 639-1), small letters; in a language without, `gopher_stop_words` is 0."""

    def __post_init__(self) -> None:
        check_sources(self, "sources")
        for language, words in self.stop_words.items():
            if len(words) > 64:
                raise ConfigError(
                    f"HeuristicScoresConfig.stop_words: {len(words)} of {language!r}; 64 at most are allowed"
                )


@dataclass(frozen=True)
class HeuristicScoresResult:
    """Counts by source."""

    documents: dict[str, int]
    characters: dict[str, int]
    seconds: Annotated[float, measured]


@dataclass(frozen=True)
class ScoreTask:
    """One shard to score."""

    source: NamedInput
    shard: str
    languages: str | None
    stop_words: dict[str, tuple[str, ...]]


def score_shard(task: ScoreTask, shard: ShardOut) -> dict[str, int]:
    """Writes the dense table of one shard; returns its counts."""
    from steps.heuristics.tables import languages_of_shard, score_table

    documents = read_documents(task.source.path, task.shard, ["id", "text"])
    languages = languages_of_shard(documents.select(["id"]), task.languages, task.source.name, task.shard)
    table = score_table(documents, languages, task.stop_words, task.stop_words.get("en", ()))
    write_table(shard.file(f"{task.source.name}/{task.shard}"), table)
    return {"documents": len(documents), "characters": sum(table["characters"].to_pylist())}


@kind("quality/heuristic_scores", version=1)
def score_documents(config: HeuristicScoresConfig, out: Out) -> HeuristicScoresResult:
    """Writes `<source>/part-NNNNN.parquet` for every source.

    Raises:
        StepFailed: a source is not a documents data set, or the languages are not those of its documents.
    """
    started = time.monotonic()
    tasks = {
        f"{source.name}/{shard}": ScoreTask(source, shard, config.languages, config.stop_words)
        for source in config.sources
        for shard in document_shards(source.path)
    }
    counts = out.map_shards(score_shard, tasks)

    def total(counter: str) -> dict[str, int]:
        return {
            source.name: sum(counts[name][counter] for name, task in tasks.items() if task.source.name == source.name)
            for source in config.sources
        }

    return HeuristicScoresResult(
        documents=total("documents"), characters=total("characters"), seconds=time.monotonic() - started
    )
