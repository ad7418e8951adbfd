"""The shards of band hashes that fuzzy deduplication makes first: one a documents shard, each committed by itself.

A signature shard is named after the parameters it was made with (in its schema metadata), and reading it with others is
an error: band hashes of different parameters compare without complaint and find nothing. Bands are columns, so that a
pass over some of them reads only those. 8 bytes a band and document.
"""

import json
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from marin_exec import ShardOut, StepFailed
from steps.contract import read_documents
from steps.dedup import minhash, words
from steps.documents import read_table, write_table

_METADATA_KEY = b"minhash"
_BATCH_ROWS = 512  # of which the words are held at once


@dataclass(frozen=True, kw_only=True)
class SignatureParameters:
    """Everything that band hashes depend on besides the text."""

    bands: int
    rows: int
    shingle_words: int
    seed: int
    max_characters: int


@dataclass(frozen=True, kw_only=True)
class SignatureItem:
    """One documents shard to be signed."""

    source: str
    path: str
    """Documents data set."""
    exact_path: str
    """Table of exact duplicates for this source: they are left out."""
    shard: str
    parameters: SignatureParameters


@dataclass(frozen=True)
class SignatureCounts:
    """What became of one shard's documents."""

    documents_in: int
    exact_duplicates: int
    no_words: int
    """Left out: nothing in them to compare."""
    short: int
    """Signed from one shingle of all their words, since they have fewer words than a shingle."""
    truncated: int
    """Signed from their first `max_characters` characters only."""
    signed: int


def band_name(band: int) -> str:
    return f"band_{band:03d}"


def sign_shard(item: SignatureItem, shard: ShardOut) -> SignatureCounts:
    """Writes `signatures/<source>/<shard>`: id, num_words (int64), band_000... (uint64), in the documents' order.

    Raises:
        StepFailed: the documents or the exact table break their contract.
    """
    documents = read_documents(item.path, item.shard, ["id", "text"])
    ids = documents["id"].combine_chunks()
    duplicates = set(read_table(item.exact_path, item.shard, ["id"])["id"].to_pylist())
    is_duplicate = np.array([identifier in duplicates for identifier in ids.to_pylist()], dtype=bool)
    if strangers := len(duplicates) - np.count_nonzero(is_duplicate):
        raise StepFailed(
            f"{item.exact_path}/{item.shard}: {strangers} of its ids are not in {item.path}/{item.shard}; "
            f"give the dedup/exact output that was made from these sources"
        )
    signed = _Signed(item.parameters)
    for batch in documents.filter(pa.array(~is_duplicate)).to_batches(max_chunksize=_BATCH_ROWS):
        signed.add(batch["id"], batch["text"])
    table = signed.table()
    write_table(shard.file(f"signatures/{item.source}/{item.shard}"), table)
    return SignatureCounts(
        documents_in=len(ids),
        exact_duplicates=len(duplicates),
        no_words=len(ids) - len(duplicates) - table.num_rows,
        short=int(np.count_nonzero(table["num_words"].to_numpy() < item.parameters.shingle_words)),
        truncated=signed.truncated,
        signed=table.num_rows,
    )


class _Signed:
    """Signatures of some documents, a batch at a time."""

    def __init__(self, parameters: SignatureParameters):
        self.truncated = 0
        self._parameters = parameters
        self._functions = minhash.coefficients(parameters.seed, parameters.bands * parameters.rows)
        self._ids: list[pa.Array] = []
        self._num_words: list[np.ndarray] = []
        self._bands: list[np.ndarray] = []

    def add(self, ids: pa.StringArray, texts: pa.StringArray) -> None:
        parameters = self._parameters
        found = words.word_hashes(texts)
        has_words = found.counts > 0
        self._ids.append(ids.filter(pa.array(has_words)))
        self._num_words.append(found.counts[has_words])
        shingles = words.ngram_hashes(self._cut(found, texts).where(has_words), parameters.shingle_words)
        values = minhash.signatures(shingles, *self._functions)
        self._bands.append(minhash.band_hashes(values, parameters.bands, parameters.rows))

    def _cut(self, found: words.Hashes, texts: pa.StringArray) -> words.Hashes:
        """Returns the words that are signed: of a huge document, whose minima would match those of anything, the first."""
        lengths = pc.call_function("utf8_length", [texts]).to_numpy()
        rows = np.flatnonzero((lengths > self._parameters.max_characters) & (found.counts > 0))
        self.truncated += len(rows)
        ends = found.ends.copy()
        for row in rows.tolist():
            cut = words.word_hashes(pa.array([texts[row].as_py()[: self._parameters.max_characters]]))
            if cut.counts[0]:  # its first characters may be separators only; then the whole text has to do
                ends[row] = found.starts[row] + cut.counts[0]
                found.values[found.starts[row] : ends[row]] = cut.of(0)
        return words.Hashes(found.values, found.starts, ends)

    def table(self) -> pa.Table:
        bands = np.concatenate([np.empty((0, self._parameters.bands), dtype=np.uint64), *self._bands])
        columns = {
            "id": pa.concat_arrays([pa.array([], pa.string()), *self._ids]),
            "num_words": pa.array(np.concatenate([np.empty(0, dtype=np.int64), *self._num_words])),
        }
        columns |= {band_name(i): pa.array(bands[:, i]) for i in range(self._parameters.bands)}
        metadata = {_METADATA_KEY: json.dumps(asdict(self._parameters), sort_keys=True).encode()}
        return pa.table(columns).replace_schema_metadata(metadata)


def read_signatures(
    path: str, shard: str, parameters: SignatureParameters, columns: list[str], num_rows: int | None
) -> pa.Table:
    """Returns columns of one signature shard.

    Args:
        path: directory of the source's signatures.
        shard: its file name.
        parameters: that it has to be made with.
        columns: to be read.
        num_rows: that it has to have; None if that isn't known.

    Raises:
        StepFailed: it is missing, damaged, has another number of rows, or was made with other parameters.
    """
    table = read_table(path, shard, columns)
    found = (table.schema.metadata or {}).get(_METADATA_KEY, b"{}")
    if json.loads(found) != asdict(parameters):
        raise StepFailed(
            f"{path}/{shard}: signatures made with {found.decode()}, not with {asdict(parameters)}; signatures compare with "
            f"those of the same parameters only"
        )
    if num_rows is not None and table.num_rows != num_rows:
        raise StepFailed(f"{path}/{shard}: {table.num_rows} signatures where {num_rows} were made; rerun with --force")
    return table
