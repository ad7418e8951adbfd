"""Raw text to documents: kind `documents/normalize`.

Control characters out (optional), Unicode form (optional), then whitespace runs capped, then blank texts dropped, then
the id taken from the text as it now is, then all copies of one text but one dropped, then sorted by id and cut into
shards. The copy that is kept has the smallest (source_id, metadata), so nothing depends on the order in which a source
was read. Every document that goes is counted, and `removed.parquet` (`source_id, reason, id, kept_source_id`) names it:
nothing vanishes without a reason.

Texts are sorted through the temporary folder (`sorting`), so memory does not grow with a source but for the names of the
documents that are removed, about 150 bytes each. About 15 MB of text, or 40,000 short documents, a second on one core.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from marin_exec import ConfigError, InputPath, Out, StepFailed, kind
from steps.config_checks import check_choice, check_number
from steps.documents import DOCUMENT_SCHEMA, document_ids, shard_name, write_table
from steps.normalize.cleaning import Cleaned, cleaner
from steps.normalize.sorting import DocumentSorter
from steps.sources.raw import read_raw_batches

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
    control_characters: str = "keep"
    """"drop" takes out control characters that are no white space (NUL, escapes, C1 codes), and noncharacters."""
    repeated_run_characters: int | None = None
    """Longer runs of one character that is no white space ("=====") are cut to this length; None leaves them."""
    blank: str = "drop"
    """"drop" counts and drops texts of only whitespace; "error" fails on the first."""
    documents_per_shard: int = 10_000
    """Shard names are a function of this and of the source."""

    exact_copies: str = "drop"
    """"drop" counts and drops all copies of a text but one; "error" fails on the first."""

    def __post_init__(self) -> None:
        check_number(self, "whitespace_run_characters", "repeated_run_characters", "documents_per_shard", low=1)
        if self.unicode_form not in (None, "NFC"):
            raise ConfigError(f'NormalizeConfig.unicode_form: {self.unicode_form!r}; None or "NFC" is needed')
        check_choice(self, "control_characters", ("keep", "drop"))
        check_choice(self, "blank", ("drop", "error"))
        check_choice(self, "exact_copies", ("drop", "error"))


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
    controls_removed: int
    """Documents that lost control characters."""
    repeats_capped: int
    """Documents in which a run of one character was cut."""
    documents: int
    num_bytes: int
    shards: int


@kind("documents/normalize", version=2)
def normalize(config: NormalizeConfig, out: Out) -> NormalizeResult:
    """Writes a source as a documents data set: `part-NNNNN.parquet`, and what was dropped in `removed.parquet`.

    Raises:
        StepFailed: no document is left, or there is a blank text or a copy, and the config says that this is an error.
    """
    work = _Work(config, out.step_name)
    with DocumentSorter(DOCUMENT_SCHEMA, ("source_id", "metadata")) as sorter:
        for documents in work.cleaned():
            sorter.add(documents)
        shards = _write_shards(out, map(work.distinct, sorter.tables()), config.documents_per_shard)
    if not work.documents:
        raise StepFailed(
            f"{out.step_name}: no document is left of source {config.source}: {work.documents_in} read, "
            f"{work.blank} of them blank; check the source's text field and files"
        )
    removed = pa.concat_tables([_REMOVED_SCHEMA.empty_table(), *work.removed])
    order = [(name, "ascending") for name in _REMOVED_SCHEMA.names]
    write_table(out.file("removed.parquet"), removed.sort_by(order))
    return NormalizeResult(
        documents_in=work.documents_in,
        bytes_in=work.bytes_in,
        blank=work.blank,
        exact_duplicates=work.copies,
        whitespace_capped=work.changed["whitespace_capped"],
        recomposed=work.changed["recomposed"],
        controls_removed=work.changed["controls_removed"],
        repeats_capped=work.changed["repeats_capped"],
        documents=work.documents,
        num_bytes=work.num_bytes,
        shards=shards,
    )


class _Work:
    """The two passes over a source's documents, and what they count."""

    def __init__(self, config: NormalizeConfig, step_name: str):
        self._config, self._step_name = config, step_name
        self._clean = cleaner(
            config.unicode_form == "NFC",
            config.control_characters,
            config.whitespace_run_characters,
            config.repeated_run_characters,
        )
        self.documents_in = self.bytes_in = self.blank = self.copies = self.documents = self.num_bytes = 0
        self.changed = dict.fromkeys(Cleaned._fields[1:], 0)
        self.removed: list[pa.Table] = []

    def cleaned(self) -> Iterator[pa.Table]:
        """Yields the source's documents with clean texts, blank ones left out, in the order of the source."""
        for batch in read_raw_batches(self._config.source):
            self.documents_in += batch.num_rows
            self.bytes_in += _num_bytes(batch["text"])
            texts = self._texts(batch["text"])
            spaces = pc.call_function("utf8_is_space", [texts])
            blank = pc.call_function("or", [spaces, pc.call_function("equal", [texts, pa.scalar("")])])
            if lost := blank.true_count:
                self._blank(batch["source_id"].filter(blank), lost)
                kept = pc.call_function("invert", [blank])
                batch, texts = batch.filter(kept), texts.filter(kept)
            columns = [document_ids(texts), texts, batch["source_id"], batch["metadata"]]
            yield pa.table(columns, schema=DOCUMENT_SCHEMA)

    def _texts(self, raw: pa.StringArray) -> pa.StringArray:
        """The clean texts; the array itself if nothing was to be done."""
        cleaned = list(map(self._clean, raw.to_pylist()))
        if not any(any(each[1:]) for each in cleaned):
            return raw
        for name in self.changed:
            self.changed[name] += sum(getattr(each, name) for each in cleaned)
        return pa.array([each.text for each in cleaned], pa.string())

    def _blank(self, source_ids: pa.StringArray, count: int) -> None:
        if self._config.blank == "error":
            raise StepFailed(
                f"{self._step_name}: document {source_ids[0]} of source {self._config.source} has only whitespace; "
                f'mend the source, or set blank="drop" to drop and count such documents'
            )
        self.blank += count
        self._remove(source_ids, "blank", pa.array([""] * count), pa.array([""] * count))

    def distinct(self, documents: pa.Table) -> pa.Table:
        """Returns sorted documents without copies: the first of each id stays."""
        ids = documents["id"].combine_chunks()
        is_first = np.ones(len(ids), dtype=bool)
        is_first[1:] = pc.call_function("not_equal", [ids[1:], ids[:-1]]).to_numpy(zero_copy_only=False)
        if not is_first.all():
            copies = np.flatnonzero(~is_first)
            kept = np.flatnonzero(is_first)[np.cumsum(is_first) - 1][copies]
            self._copies(documents.take(pa.array(copies)), documents["source_id"].take(pa.array(kept)))
            documents = documents.filter(pa.array(is_first))
        self.documents += documents.num_rows
        self.num_bytes += sum(map(_num_bytes, documents["text"].chunks))
        return documents

    def _copies(self, copies: pa.Table, kept_source_ids: pa.ChunkedArray) -> None:
        if self._config.exact_copies == "error":
            raise StepFailed(
                f"{self._step_name}: documents {kept_source_ids[0]} and {copies['source_id'][0]} of source "
                f'{self._config.source} have the same text; mend the source, or set exact_copies="drop" to drop and count copies'
            )
        self.copies += copies.num_rows
        self._remove(copies["source_id"], "exact_duplicate", copies["id"], kept_source_ids)

    def _remove(self, source_ids: pa.Array, reason: str, ids: pa.Array, kept: pa.Array) -> None:
        reasons = pa.array([reason] * len(ids))
        self.removed.append(pa.table([source_ids, reasons, ids, kept], schema=_REMOVED_SCHEMA))


def _num_bytes(texts: pa.StringArray) -> int:
    return pc.call_function("sum", [pc.call_function("binary_length", [texts])]).as_py() or 0


def _write_shards(out: Out, tables: Iterator[pa.Table], documents_per_shard: int) -> int:
    """Writes documents as they come, so many a shard; returns the number of shards."""
    waiting: list[pa.Table] = []
    shards = num_waiting = 0
    for table in tables:
        waiting.append(table)
        num_waiting += table.num_rows
        while num_waiting >= documents_per_shard:
            together = pa.concat_tables(waiting)
            write_table(out.file(shard_name(shards)), together[:documents_per_shard])
            shards += 1
            waiting, num_waiting = [together[documents_per_shard:]], num_waiting - documents_per_shard
    if num_waiting:
        write_table(out.file(shard_name(shards)), pa.concat_tables(waiting))
        shards += 1
    return shards
