"""Embed documents: one int8 unit vector a document, a dense table beside the documents of every source.

A shard is one task, committed on its own. Its texts are encoded in batches; what stays of a batch is int8, so the float
vectors of one batch are all that is held of them, however large the shard.
"""

import time
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from marin_exec import Out, ShardOut, StepFailed, kind, measured
from steps.config_checks import check_number, check_sources
from steps.contract import document_shards, read_documents
from steps.documents import NamedInput, write_table
from steps.embed.encoders import Encoder, encode
from steps.embed.vectors import embedding_table, quantize, scale_of

_BATCH_DOCUMENTS = 16_384
"""Part of the result with MiniLm, whose vectors rest in their last bits on which texts are encoded together."""


@dataclass(frozen=True, kw_only=True)
class EmbedConfig:
    sources: tuple[NamedInput, ...]
    """Documents data sets."""
    encoder: Encoder
    """What makes the vectors."""
    max_characters: int = 100_000
    """Longer texts are cut before they are tokenised."""

    def __post_init__(self) -> None:
        check_sources(self, "sources")
        check_number(self, "max_characters", low=1)


@dataclass(frozen=True, kw_only=True)
class EmbedResult:
    documents: int
    """Rows written."""
    dimensions: int
    """Length of a vector."""
    scale: float
    """What an int8 entry is multiplied by."""
    documents_by_source: dict[str, int]
    """Rows by source."""
    clipped_fraction: float
    """Entries outside the int8 range; above about 0.001 the range is too small for the encoder."""
    min_cosine: float
    """Smallest cosine between a vector and its int8 form."""
    mean_cosine: float
    """Their mean cosine."""
    seconds: Annotated[float, measured]
    """Wall time."""


@dataclass(frozen=True, kw_only=True)
class EmbedShard:
    """One shard of one source."""

    path: str
    """Documents data set."""
    shard: str
    """File name in it."""
    relative: str
    """Where its vectors go in the output."""
    encoder: Encoder
    max_characters: int


def embed_shard(item: EmbedShard, shard: ShardOut) -> dict[str, float]:
    """Embeds one shard of documents; returns its counts."""
    table = read_documents(item.path, item.shard, columns=["id", "text"])
    int8_range = item.encoder.int8_range
    batches, clipped, cosines = [], 0, []
    for start in range(0, max(1, table.num_rows), _BATCH_DOCUMENTS):  # a shard without rows has its dimensions too
        texts = table["text"].slice(start, _BATCH_DOCUMENTS).to_pylist()
        vectors = encode(item.encoder, [text[: item.max_characters] for text in texts])
        quantized = quantize(vectors, int8_range)
        restored = quantized.astype(np.float64)
        if not restored.any(axis=1).all():
            raise StepFailed(
                f"{item.relative}: a vector has only zeros as int8; the encoder's int8_range {int8_range} is too large for it"
            )
        batches.append(quantized)
        clipped += int((np.abs(vectors) > int8_range).sum())
        cosines.append((restored * vectors).sum(axis=1) / np.linalg.norm(restored, axis=1))
        shard.progress(f"embedded {start + len(texts)} documents", done=start + len(texts), total=table.num_rows)
    quantized, cosine = np.concatenate(batches), np.concatenate(cosines)
    write_table(shard.file(item.relative), embedding_table(table["id"].to_pylist(), quantized, scale_of(int8_range)))
    return {
        "documents": table.num_rows,
        "dimensions": quantized.shape[1],
        "clipped": clipped,
        "min_cosine": round(float(cosine.min(initial=1.0)), 6),
        "sum_cosine": round(float(cosine.sum()), 6),
    }


@kind("embed/documents", version=1)
def embed_documents(config: EmbedConfig, out: Out) -> EmbedResult:
    """Writes `<source>/part-NNNNN.parquet` (id, embedding) for every source.

    Raises:
        ConfigError: the encoder's package or its key is missing.
        StepFailed: a vector is zero or not finite, or the encoder failed.
    """
    names = [source.name for source in config.sources]
    started = time.monotonic()
    items = {
        f"{source.name}/{shard}": EmbedShard(
            path=source.path,
            shard=shard,
            relative=f"{source.name}/{shard}",
            encoder=config.encoder,
            max_characters=config.max_characters,
        )
        for source in config.sources
        for shard in document_shards(source.path)
    }
    counts = out.map_shards(embed_shard, items)
    documents = sum(each["documents"] for each in counts.values())
    dimensions, *others = sorted({each["dimensions"] for each in counts.values()})
    if others:
        raise StepFailed(
            f"vectors of {dimensions} and of {others} dimensions; give the model's revision, and run again"
        )
    return EmbedResult(
        documents=documents,
        dimensions=dimensions,
        scale=scale_of(config.encoder.int8_range),
        documents_by_source={
            name: sum(each["documents"] for key, each in counts.items() if key.rpartition("/")[0] == name)
            for name in names
        },
        clipped_fraction=round(sum(each["clipped"] for each in counts.values()) / max(1, documents * dimensions), 8),
        min_cosine=min(each["min_cosine"] for each in counts.values()),
        mean_cosine=round(sum(each["sum_cosine"] for each in counts.values()) / max(1, documents), 6),
        seconds=time.monotonic() - started,
    )
