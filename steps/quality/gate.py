"""Give one bucket to every document of a source in which the score does not choose.

A student can be constant on a source, or follow nothing but its content types: buckets are then drawn by the last digits
of a number, and a mixture by quality is a mixture by chance. Such a source's documents all go to one bucket, and are
marked. So do those of sources that a person names, such as languages that the student's labels had none of.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from marin_exec import ConfigError, InputPath, Out, ShardOut, kind
from steps.config_checks import check_number, check_sources
from steps.contract import document_shards, read_documents
from steps.documents import NamedInput, join_dense, read_table, write_table
from steps.quality.spread import Tally, tally_scores, within_type_spread


@dataclass(frozen=True, kw_only=True)
class GateConfig:
    documents: tuple[NamedInput, ...]
    """Documents data sets."""
    scores: InputPath
    """Output of a "quality/scores" step on them."""
    min_spread: float = 0.05
    """Sources whose scores have a smaller standard deviation within content types are not judged."""
    unjudged: tuple[str, ...] = ()
    """Sources that are not judged whatever their spread."""
    bucket: int = 2
    """Of all documents that are not judged, 0 to 4."""

    def __post_init__(self) -> None:
        check_sources(self, "documents")
        check_number(self, "min_spread", low=0)
        check_number(self, "bucket", low=0, high=4)
        names = [source.name for source in self.documents]
        strangers = [name for name in self.unjudged if name not in names]
        if strangers:
            raise ConfigError(f"GateConfig.unjudged: {strangers} are no sources; those of `documents` are {names}")


@dataclass(frozen=True, kw_only=True)
class GateResult:
    documents: int
    """Rows written."""
    judged: int
    """Documents that keep their bucket."""
    spread_within_types_by_source: dict[str, float]
    """Standard deviation of scores about the mean of their content type."""
    unjudged_sources: dict[str, str]
    """Why, by source."""
    moved_by_source: dict[str, int]
    """Documents of these sources that were in another bucket."""


@dataclass(frozen=True, kw_only=True)
class GateShard:
    """One shard of one source."""

    documents: str
    scores: str
    """The source's scores."""
    shard: str
    relative: str
    """Where the table goes in the output."""
    bucket: int | None
    """That all documents get; None lets them keep theirs."""


def tally_shard(item: GateShard, shard: ShardOut) -> dict[str, Any]:
    """Returns the tallies of one shard's scores."""
    table = read_table(item.scores, item.shard, ["score", "content_type"])
    return tally_scores(table["score"].to_numpy(), table["content_type"].to_pylist())


def gate_shard(item: GateShard, shard: ShardOut) -> int:
    """Writes one shard; returns how many documents changed their bucket."""
    documents = read_documents(item.documents, item.shard, columns=["id"])
    table = read_table(item.scores, item.shard, ["id", "score", "bucket"])
    join_dense(documents, table, f"{item.scores}/{item.shard}")  # for its check of the ids
    found = table["bucket"].to_numpy()
    given = found if item.bucket is None else np.full_like(found, item.bucket)
    judged = np.full(len(found), item.bucket is None)
    columns = {"id": table["id"], "score": table["score"], "bucket": given, "judged": judged}
    write_table(shard.file(item.relative), pa.table(columns))
    return int((found != given).sum())


@kind("quality/gate", version=1)
def gate(config: GateConfig, out: Out) -> GateResult:
    """Writes `<source>/part-NNNNN.parquet` (id, score, bucket int8, judged bool), dense: a table of scores for mix/cells.

    Raises:
        StepFailed: the scores are of other documents.
    """
    shards = {source.name: document_shards(source.path) for source in config.documents}

    def items(buckets: dict[str, int | None], prefix: str) -> dict[str, GateShard]:
        return {
            f"{prefix}/{source.name}/{shard}": GateShard(
                documents=source.path,
                scores=f"{config.scores}/{source.name}",
                shard=shard,
                relative=f"{source.name}/{shard}",
                bucket=buckets.get(source.name),
            )
            for source in config.documents
            for shard in shards[source.name]
        }

    def source_of(key: str, prefix: str) -> str:
        return key.removeprefix(f"{prefix}/").rpartition("/")[0]

    tallies = {source.name: Tally() for source in config.documents}
    for key, found in out.map_shards(tally_shard, items({}, "spread")).items():
        tallies[source_of(key, "spread")].add(found)
    spread = {name: within_type_spread(tally) for name, tally in tallies.items()}
    reasons = {
        name: "named in the config"
        if name in config.unjudged
        else f"its scores have a spread of {spread[name]} within content types, below {config.min_spread}"
        for name, tally in tallies.items()
        if name in config.unjudged or (tally.documents > 1 and spread[name] < config.min_spread)
    }
    moved = dict.fromkeys(reasons, 0)
    for key, changed in out.map_shards(gate_shard, items(dict.fromkeys(reasons, config.bucket), "gated")).items():
        if changed:
            moved[source_of(key, "gated")] += changed
    total = sum(tally.documents for tally in tallies.values())
    return GateResult(
        documents=total,
        judged=total - sum(tallies[name].documents for name in reasons),
        spread_within_types_by_source=spread,
        unjudged_sources=reasons,
        moved_by_source=moved,
    )
