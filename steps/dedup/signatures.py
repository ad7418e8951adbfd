"""The shards of band hashes that fuzzy deduplication makes first: one a documents shard, each committed by itself.

A signature shard is named after the parameters it was made with (in its schema metadata), and reading it with others is
an error: band hashes of different parameters compare without complaint and find nothing. Bands are columns, so that a
pass over some of them reads only those. 8 bytes a band and document.
"""

import json
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from marin_exec import ShardOut, StepFailed
from steps.dedup import minhash, words
from steps.dedup.sources import read_ids
from steps.documents import read_table, write_table

_METADATA_KEY = b"minhash"


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
    parameters = item.parameters
    ids = read_ids(item.path, item.shard)
    texts = read_table(item.path, item.shard, ["text"])["text"].to_pylist()
    skip = set(read_table(item.exact_path, item.shard, ["id"])["id"].to_pylist())
    if not skip <= set(ids):
        raise StepFailed(
            f"{item.exact_path}/{item.shard}: {len(skip - set(ids))} of its ids are not in {item.path}/{item.shard}; "
            f"give the dedup/exact output that was made from these sources"
        )
    multipliers, offsets = minhash.coefficients(parameters.seed, parameters.bands * parameters.rows)
    signed_ids, num_words, signatures = [], [], []
    no_words = truncated = 0
    for identifier, text in zip(ids, texts, strict=True):
        if identifier in skip:
            continue
        hashes = words.word_hashes(text)
        if hashes.size == 0:
            no_words += 1
            continue
        signed_ids.append(identifier)
        num_words.append(hashes.size)
        if len(text) > parameters.max_characters:  # a huge document's minima would match those of anything
            truncated += 1
            # Its first characters may be separators only; then the whole text has to do.
            hashes = cut if (cut := words.word_hashes(text[: parameters.max_characters])).size else hashes
        shingles = words.ngram_hashes(hashes, parameters.shingle_words)
        signatures.append(minhash.signature(shingles, multipliers, offsets))
    _write(shard.file(f"signatures/{item.source}/{item.shard}"), parameters, signed_ids, num_words, signatures)
    return SignatureCounts(
        documents_in=len(ids),
        exact_duplicates=len(skip),
        no_words=no_words,
        short=sum(count < parameters.shingle_words for count in num_words),
        truncated=truncated,
        signed=len(signed_ids),
    )


def _write(
    path: str, parameters: SignatureParameters, ids: list[str], num_words: list[int], signatures: list[np.ndarray]
) -> None:
    values = np.array(signatures, dtype=np.uint32).reshape(len(ids), parameters.bands * parameters.rows)
    bands = minhash.band_hashes(values, parameters.bands, parameters.rows)
    columns = {"id": pa.array(ids, pa.string()), "num_words": pa.array(num_words, pa.int64())}
    columns |= {band_name(i): pa.array(bands[:, i], pa.uint64()) for i in range(parameters.bands)}
    metadata = {_METADATA_KEY: json.dumps(asdict(parameters), sort_keys=True).encode()}
    write_table(path, pa.table(columns).replace_schema_metadata(metadata))


def read_signatures(
    path: str, shard: str, parameters: SignatureParameters, columns: list[str], num_rows: int
) -> pa.Table:
    """Returns columns of one signature shard.

    Raises:
        StepFailed: it is missing, damaged, has another number of rows, or was made with other parameters.
    """
    table = read_table(path, shard, columns)
    found = (table.schema.metadata or {}).get(_METADATA_KEY, b"{}")
    if json.loads(found) != asdict(parameters):
        raise StepFailed(f"{path}/{shard}: signatures made with {found.decode()}, not with {asdict(parameters)}; rerun")
    if table.num_rows != num_rows:
        raise StepFailed(f"{path}/{shard}: {table.num_rows} signatures where {num_rows} were made; rerun with --force")
    return table
