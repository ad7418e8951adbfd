"""Raw text to documents: kind `documents/normalize`.

Unicode form (optional), then whitespace runs capped, then blank texts dropped, then the id taken from the text as it
now is, then all copies of one text but one dropped, then sorted by id and cut into shards. The copy that is kept has
the smallest (source_id, metadata), so nothing depends on the order in which a source was read. Every document that goes
is counted, and `removed.parquet` (`source_id, reason, id, kept_source_id`) names it: nothing vanishes without a reason.

One process holds the source's text in memory; about 30 MB of text a second.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from marin_exec import ConfigError, InputPath, Out, StepFailed, kind
from steps.documents import DOCUMENT_SCHEMA, document_id, shard_name, write_table
from steps.sources.raw import RawDocument, read_raw

_REMOVED_SCHEMA = pa.schema([(name, pa.string()) for name in ("source_id", "reason", "id", "kept_source_id")])


@dataclass(frozen=True, kw_only=True)
class NormalizeConfig:
    """How the texts of one source become documents."""

    source: InputPath
    """Output of a sources/* step."""
    whitespace_run_characters: int = 128
    """Longer runs of whitespace are cut to this length (a run of megabytes stops a tokenizer)."""
    unicode_form: str | None = None
    """"NFC" composes characters; None leaves texts as they are."""
    blank: str = "drop"
    """"drop" counts and drops texts of only whitespace; "error" fails on the first."""
    documents_per_shard: int = 10_000
    """Shard names are a function of this and of the source."""

    def __post_init__(self) -> None:
        if self.whitespace_run_characters < 1:
            raise ConfigError(
                f"NormalizeConfig.whitespace_run_characters: {self.whitespace_run_characters}; 1 or more is needed"
            )
        if self.unicode_form not in (None, "NFC"):
            raise ConfigError(f'NormalizeConfig.unicode_form: {self.unicode_form!r}; None or "NFC" is needed')
        if self.blank not in ("drop", "error"):
            raise ConfigError(f'NormalizeConfig.blank: {self.blank!r}; "drop" or "error" is needed')
        if self.documents_per_shard < 1:
            raise ConfigError(f"NormalizeConfig.documents_per_shard: {self.documents_per_shard}; 1 or more is needed")


@dataclass(frozen=True)
class NormalizeResult:
    """Counters; documents_in = documents + blank + exact_duplicates. Sizes are UTF-8 bytes of text."""

    documents_in: int
    bytes_in: int
    blank: int
    exact_duplicates: int
    whitespace_capped: int
    """Documents in which at least one run of whitespace was cut."""
    recomposed: int
    """Documents that Unicode normalisation changed."""
    documents: int
    num_bytes: int
    shards: int


@kind("documents/normalize", version=1)
def normalize(config: NormalizeConfig, out: Out) -> NormalizeResult:
    """Writes a source as a documents data set: `part-NNNNN.parquet`, and what was dropped in `removed.parquet`.

    Raises:
        StepFailed: no document is left, or there is a blank text and config.blank is "error".
    """
    counts = {"documents_in": 0, "bytes_in": 0, "blank": 0, "whitespace_capped": 0, "recomposed": 0}
    removed: list[tuple[str, str, str, str]] = []
    kept: dict[str, RawDocument] = {}
    copies: list[tuple[str, str]] = []
    for document in _cleaned(config, out.step_name, counts, removed):
        identifier = document_id(document.text)
        other = kept.setdefault(identifier, document)
        if other is not document:
            first, second = sorted((other, document), key=lambda each: (each.source_id, each.metadata))
            kept[identifier] = first
            copies.append((second.source_id, identifier))
    if not kept:
        raise StepFailed(
            f"{out.step_name}: no document is left of source {config.source}: {counts['documents_in']} read, "
            f"{counts['blank']} of them blank; check the source's text field and files"
        )
    removed += [(place, "exact_duplicate", identifier, kept[identifier].source_id) for place, identifier in copies]
    _write_removed(out, removed)
    return NormalizeResult(
        **counts,
        exact_duplicates=len(copies),
        documents=len(kept),
        num_bytes=sum(len(document.text.encode()) for document in kept.values()),
        shards=_write_shards(out, kept, config.documents_per_shard),
    )


def _write_shards(out: Out, kept: dict[str, RawDocument], documents_per_shard: int) -> int:
    """Writes documents in order of id; returns the number of shards."""
    ids = sorted(kept)
    starts = range(0, len(ids), documents_per_shard)
    for index, start in enumerate(starts):
        chosen = ids[start : start + documents_per_shard]
        rows = [kept[identifier] for identifier in chosen]
        columns = [chosen, [row.text for row in rows], [row.source_id for row in rows], [row.metadata for row in rows]]
        arrays = [pa.array(column, pa.string()) for column in columns]
        write_table(out.file(shard_name(index)), pa.table(arrays, schema=DOCUMENT_SCHEMA))
    return len(starts)


def _cleaned(
    config: NormalizeConfig, step_name: str, counts: dict[str, int], removed: list[tuple[str, str, str, str]]
) -> Iterator[RawDocument]:
    longest = config.whitespace_run_characters
    long_run = re.compile(rf"\s{{{longest + 1},}}")
    for document in read_raw(config.source):
        counts["documents_in"] += 1
        counts["bytes_in"] += len(document.text.encode())
        text = document.text
        if config.unicode_form is not None:
            text = unicodedata.normalize("NFC", text)
            counts["recomposed"] += text != document.text
        text, cut = long_run.subn(lambda run: run.group()[:longest], text)
        counts["whitespace_capped"] += cut > 0
        if text.strip():
            yield document._replace(text=text)
        elif config.blank == "drop":
            counts["blank"] += 1
            removed.append((document.source_id, "blank", "", ""))
        else:
            raise StepFailed(
                f"{step_name}: document {document.source_id} of source {config.source} has only whitespace; "
                f'mend the source, or set blank="drop" to drop and count such documents'
            )


def _write_removed(out: Out, removed: list[tuple[str, str, str, str]]) -> None:
    rows = sorted(removed)
    arrays = [pa.array([row[column] for row in rows], pa.string()) for column in range(len(_REMOVED_SCHEMA))]
    write_table(out.file("removed.parquet"), pa.table(arrays, schema=_REMOVED_SCHEMA))
