"""The step "documents/language": which language each document is in, with the scores that say so.

Output: a dense attribute table (`<source>/part-NNNNN.parquet`):

* `id`
* `language`: ISO 639-1 code, or "und" (undetermined) where text in no language is likeliest, as tables and encoded data
  are, or where the likeliest language has less than `UNDETERMINED_BELOW`;
* `language_score` (float32): probability of the likeliest language, also where `language` is "und";
* `likeliest_language`: the language that has it; `second_language`, `second_score` (float32): the next one;
* `no_language_score` (float32): probability of text in no language.

Nothing is dropped here: a later step keeps or drops by language and score. `samples.json` has some documents of each
language, to be read.
"""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
import pyarrow as pa

from marin_exec import ConfigError, Out, ShardOut, kind, measured
from steps.config_checks import check_number, check_sources
from steps.contract import document_shards, read_documents
from steps.documents import NamedInput, write_table
from steps.samples import Ranked, chosen_samples, shard_samples, write_samples

if TYPE_CHECKING:
    from steps.language.model import LanguageModel

UNDETERMINED = "und"
UNDETERMINED_BELOW = 0.2
"""Of documents of the GNOME help with a lower score, fewer than half were in the language that was likeliest."""


@dataclass(frozen=True, kw_only=True)
class LanguageConfig:
    sources: tuple[NamedInput, ...]
    """Documents data sets."""
    model: str = "py3langid==0.4.0"
    """Distribution that carries the model, and its version."""
    languages: tuple[str, ...] | None = None
    """The only languages to consider (ISO 639-1); None considers all that the model knows."""
    samples_per_language: int = 5
    """At most so many documents a language go to samples.json."""
    sample_characters: int = 300
    """Samples are cut to this many characters."""
    seed: int = 0
    """Of the choice of samples."""

    def __post_init__(self) -> None:
        check_sources(self, "sources")
        check_number(self, "samples_per_language", "sample_characters", low=0)
        if self.languages is not None and not self.languages:
            raise ConfigError("LanguageConfig.languages is empty; name one at least, or leave it out to consider all")


@dataclass(frozen=True)
class LanguageResult:
    """Counts by source, then by language, "und" among them; characters are those of the texts."""

    documents: dict[str, dict[str, int]]
    characters: dict[str, dict[str, int]]
    mean_score: dict[str, float]
    """Mean language_score of a source's documents."""
    seconds: Annotated[float, measured]


@dataclass(frozen=True)
class LanguageTask:
    """One shard of one source."""

    source: NamedInput
    shard: str
    model: str
    languages: tuple[str, ...] | None
    samples: int
    seed: int


@dataclass(frozen=True)
class LanguageCounts:
    """What one shard gives back; `samples` by language."""

    documents: dict[str, int]
    characters: dict[str, int]
    sum_of_scores: float
    samples: dict[str, Ranked]


def languages_of(model: "LanguageModel", texts: list[str]) -> dict[str, np.ndarray]:
    """Returns the columns of the table but for `id`, as arrays of T rows; see the module for what they are."""
    from steps.language.model import probabilities

    found = probabilities(model, texts)
    spoken = found[:, :-1]  # the last label is that of no language
    order = np.argsort(-spoken, axis=1, kind="stable")[:, :2]
    rows = np.arange(len(texts))
    names = np.array(model.labels[:-1])
    first = names[order[:, 0]] if len(texts) else np.array([], dtype=str)
    second = names[order[:, -1]] if len(texts) else np.array([], dtype=str)
    first_score, second_score = spoken[rows, order[:, 0]], spoken[rows, order[:, -1]]
    undetermined = (found[:, -1] > first_score) | (first_score < UNDETERMINED_BELOW)

    def rounded(scores: np.ndarray) -> np.ndarray:
        return np.round(scores, 4).astype(np.float32)  # the last bits differ by processor

    return {
        "language": np.where(undetermined, UNDETERMINED, first),
        "language_score": rounded(first_score),
        "likeliest_language": first,
        "second_language": second,
        "second_score": rounded(second_score),
        "no_language_score": rounded(found[:, -1]),
    }


def language_shard(task: LanguageTask, shard: ShardOut) -> LanguageCounts:
    """Writes the dense table of one shard of documents."""
    from steps.language.model import load_model

    documents = read_documents(task.source.path, task.shard, ["id", "text"])
    ids, texts = documents["id"].to_pylist(), documents["text"].to_pylist()
    columns = languages_of(load_model(task.model, task.languages), texts)
    table = pa.table({"id": documents["id"]} | {name: pa.array(values) for name, values in columns.items()})
    write_table(shard.file(f"{task.source.name}/{task.shard}"), table)
    counts: dict[str, int] = {}
    characters: dict[str, int] = {}
    languages = columns["language"].tolist()
    for language, text in zip(languages, texts, strict=True):
        counts[language] = counts.get(language, 0) + 1
        characters[language] = characters.get(language, 0) + len(text)
    return LanguageCounts(
        documents=counts,
        characters=characters,
        sum_of_scores=float(columns["language_score"].sum(dtype=np.float64)),
        samples=shard_samples(zip(languages, ids, strict=True), task.seed, task.samples),
    )


@kind("documents/language", version=1)
def identify_languages(config: LanguageConfig, out: Out) -> LanguageResult:
    """Writes `<source>/part-NNNNN.parquet` for every source, and `samples.json`.

    Raises:
        IdentityMismatch: the model is not installed, or in another version.
        ConfigError: one of the languages is not known to the model.
        StepFailed: a source is not a documents data set.
    """
    from steps.language.model import load_model

    started = time.monotonic()
    load_model(config.model, config.languages)  # says what is wrong before any shard runs
    tasks = {
        f"{source.name}/{shard}": LanguageTask(
            source, shard, config.model, config.languages, config.samples_per_language, config.seed
        )
        for source in config.sources
        for shard in document_shards(source.path)
    }
    counts = {name: LanguageCounts(**value) for name, value in out.map_shards(language_shard, tasks).items()}
    chosen = chosen_samples({name: count.samples for name, count in counts.items()}, config.samples_per_language)
    places = {name: (task.source, task.shard) for name, task in tasks.items()}
    write_samples(out.file("samples.json"), dict(sorted(chosen.items())), places, config.sample_characters)

    def total(attribute: str, source: str) -> dict[str, int]:
        sums: dict[str, int] = {}
        for name, task in tasks.items():
            if task.source.name == source:
                for language, count in getattr(counts[name], attribute).items():
                    sums[language] = sums.get(language, 0) + count
        return dict(sorted(sums.items(), key=lambda each: (-each[1], each[0])))

    documents = {source.name: total("documents", source.name) for source in config.sources}
    scores = {
        source.name: sum(counts[n].sum_of_scores for n, task in tasks.items() if task.source.name == source.name)
        for source in config.sources
    }
    return LanguageResult(
        documents=documents,
        characters={source.name: total("characters", source.name) for source in config.sources},
        mean_score={name: round(scores[name] / max(1, sum(documents[name].values())), 4) for name in documents},
        seconds=time.monotonic() - started,
    )
