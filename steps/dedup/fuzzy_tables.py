"""What dedup/fuzzy writes: removed documents beside their shards, and all members of clusters with their fates."""

import pyarrow as pa

from marin_exec import Out
from steps.dedup.fuzzy_stages import Clusters, Verdicts
from steps.dedup.nodes import Nodes, Signed
from steps.documents import write_table

_EVIDENCE = [
    ("kept_source", pa.string()),
    ("kept_id", pa.string()),
    ("containment", pa.float64()),
    ("jaccard", pa.float64()),
]
_REMOVAL_SCHEMA = pa.schema([("id", pa.string()), *_EVIDENCE])
_CLUSTER_SCHEMA = pa.schema(
    [
        ("cluster_id", pa.string()),  # the least id in the cluster
        ("id", pa.string()),
        ("source", pa.string()),
        ("num_words", pa.int64()),
        ("removed", pa.bool_()),
        *_EVIDENCE,
    ]
)


def write_tables(out: Out, signed: Signed, nodes: Nodes, found: Clusters, verdicts: Verdicts) -> None:
    """Writes the removals beside this run's shards (empty tables where there are none), and `clusters.parquet`."""
    names = {each.priority: each.source.name for each in signed.shards}

    def evidence(node: int) -> tuple[str | None, str | None, float | None, float | None]:
        if not verdicts.removed(node):
            return None, None, None, None
        each = verdicts.comparisons[node]
        return names[int(nodes.priorities[each.kept])], nodes.id(each.kept), each.containment, each.jaccard

    own = {number: each for number, each in enumerate(signed.shards) if not each.judged}
    rows_by_shard: dict[int, list[tuple]] = {number: [] for number in own}
    for node in sorted(verdicts.comparisons):  # node order is id order
        if verdicts.removed(node):
            rows_by_shard[int(nodes.shard_numbers[node])].append((nodes.id(node), *evidence(node)))
    for number, rows in rows_by_shard.items():
        write_table(out.file(f"{own[number].source.name}/{own[number].shard}"), table_of(rows, _REMOVAL_SCHEMA))

    rows = []
    for members in found.clusters:
        cluster_id = nodes.id(members.min())
        for node in members.tolist():
            source, removed = names[int(nodes.priorities[node])], verdicts.removed(node)
            rows.append((cluster_id, nodes.id(node), source, int(nodes.num_words[node]), removed, *evidence(node)))
    write_table(out.file("clusters.parquet"), table_of(rows, _CLUSTER_SCHEMA))


def table_of(rows: list[tuple], schema: pa.Schema) -> pa.Table:
    """Returns rows of values as a table."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)
