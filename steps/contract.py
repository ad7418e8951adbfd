"""The documents contract, checked by every step when it takes documents in.

`document_shards` looks at the footers of a data set: every shard whole, its columns there, ids rising from shard to
shard, so no document is in two. `read_documents` reads one shard and looks at its rows: ids sorted and unique, no
nulls, and where texts are read, none blank and each id that of its text. A source that went round normalize, a shard
cut short, or one put in another's place is then an error that names it, and not a join that goes wrong.

Cost: 1 to 5 ms a shard for the footers. With texts 0.3 s for a GB of long ones, 0.4 s for a million short ones on one core,
which is no more than reading them costs.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from marin_exec import StepFailed, open_file
from steps.documents import DOCUMENT_SCHEMA, document_ids, read_table, reading_parquet, shard_names

_ADVICE = "Run documents/normalize on the source, and give its output"
_FOOTERS_AT_ONCE = 16  # requests to an object store wait for each other otherwise


def document_shards(path: str) -> list[str]:
    """Returns the file names of a documents data set's shards in order, after a look at their footers.

    Raises:
        StepFailed: there is no shard; one is not a whole Parquet file, or lacks a column, has it in another type or with
            nulls; or the ids of one do not come after those of the shard before.
    """
    shards = shard_names(path)
    where = [f"{path.rstrip('/')}/{shard}" for shard in shards]
    with ThreadPoolExecutor(min(_FOOTERS_AT_ONCE, len(shards))) as pool:
        ranges = [(name, *ids) for name, ids in zip(where, pool.map(_id_range, where), strict=True) if ids]
    for (before, _, last), (after, first, _) in pairwise(ranges):
        if not last < first:
            raise StepFailed(
                f"{after}: begins with id {first}, and {before} ends with {last}; ids must rise from shard to shard, each "
                f"in one shard only. {_ADVICE}"
            )
    return shards


def read_documents(path: str, shard: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Returns one shard of a documents data set, checked.

    Args:
        path: directory of the data set.
        shard: file name from `document_shards`.
        columns: columns to read, in this order; None reads all.

    Raises:
        StepFailed: the shard is missing, is no whole Parquet file, or breaks the contract in what is read of it.
    """
    wanted = list(DOCUMENT_SCHEMA.names if columns is None else columns)
    table = read_table(path, shard, wanted if "id" in wanted else ["id", *wanted])
    _check(table, f"{path.rstrip('/')}/{shard}")
    return table.select(wanted)


def read_all_documents(path: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Returns all shards of a documents data set, checked and concatenated in shard order.

    Args:
        path: directory of the data set.
        columns: columns to read, in this order; None reads all.

    Raises:
        StepFailed: the data set breaks the contract, its footers or what is read of it.
    """
    return pa.concat_tables([read_documents(path, shard, columns) for shard in document_shards(path)]).combine_chunks()


def check_same_shards(shards: list[str], path: str, table: str, name: str) -> None:
    """Checks that a judgement has the shards of the documents that it is of, and no others.

    Args:
        shards: of the documents.
        path: of the documents.
        table: of the judgement on them.
        name: what the judgement is called in the error.

    Raises:
        StepFailed: it lacks one, or has one that the documents have not.
    """
    found = shard_names(table)
    if found != shards:
        differ = sorted(set(found) ^ set(shards))
        raise StepFailed(
            f"{table}: the {name} table must have the same shards as the documents in {path}; they differ in "
            f"{differ[:5]} ({len(found)} and {len(shards)}). Run the step that made it on these documents"
        )


def check_documents(table: pa.Table, where: str) -> None:
    """Checks one table (a shard, or a whole data set) against the documents contract.

    Args:
        table: columns id, text, source_id, metadata (all str).
        where: named in errors, e.g. "documents/code part-00000.parquet".

    Raises:
        StepFailed: a column is missing or not str, ids are not sorted and unique or not those of the texts, or a text
            is blank.
    """
    _check_types(table.schema, where)
    _check(table, where)


def _id_range(where: str) -> tuple[str, str] | None:
    """Returns the first and last id of a shard, from its footer; None if it has no rows."""
    with reading_parquet(where), open_file(where, "rb") as file:
        parquet = pq.ParquetFile(file)
        metadata, schema = parquet.metadata, parquet.schema_arrow
        _check_types(schema, where)
        columns = {metadata.schema.column(index).path: index for index in range(metadata.num_columns)}
        lows, highs = [], []
        for group in range(metadata.num_row_groups):
            statistics = metadata.row_group(group).column(columns["id"]).statistics
            if metadata.row_group(group).num_rows == 0:
                continue
            if statistics is None or not statistics.has_min_max:
                ids = [each or "" for each in parquet.read_row_group(group, ["id"])["id"].to_pylist()]
                lows.append(min(ids))
                highs.append(max(ids))
            else:
                lows.append(statistics.min)
                highs.append(statistics.max)
    return (min(lows), max(highs)) if lows else None


def _check_types(schema: pa.Schema, where: str) -> None:
    types = dict(zip(schema.names, schema.types, strict=True))
    for field in DOCUMENT_SCHEMA:
        if (count := schema.names.count(field.name)) > 1:
            raise StepFailed(f"{where}: {count} columns are called {field.name!r}. {_ADVICE}")
        found = types.get(field.name)
        if found != field.type:
            problem = f"is missing; it has {sorted(types)}" if found is None else f"has type {found}"
            raise StepFailed(f"{where}: column {field.name!r} {problem}; {field.type} is needed. {_ADVICE}")


def _check(table: pa.Table, where: str) -> None:
    """Checks the rows of those columns that are there; `id` is."""
    for name in table.column_names:
        if table.schema.field(name).type != pa.string():
            raise StepFailed(f"{where}: column {name!r} has type {table.schema.field(name).type}; string is needed")
        if table[name].null_count:
            row = pc.index(table[name].is_null(), True).as_py()
            raise StepFailed(
                f"{where}: column {name!r} holds {table[name].null_count} nulls, the first in row {row}. {_ADVICE}"
            )
    ids = table["id"].combine_chunks()
    _check_order(ids, where)
    if "text" in table.column_names:
        _check_texts(ids, table["text"], where)


def _check_order(ids: pa.Array, where: str) -> None:
    if len(ids) and ids[0].as_py() == "":
        raise StepFailed(f"{where}: the id in row 0 is empty. {_ADVICE}")
    rising = pc.call_function("less", [ids[:-1], ids[1:]])
    if (place := pc.index(rising, False).as_py()) >= 0:
        raise StepFailed(
            f"{where}: id {ids[place + 1]} in row {place + 1} is not above {ids[place]}: not sorted and unique by id. "
            f"{_ADVICE}"
        )


def _check_texts(ids: pa.Array, texts: pa.ChunkedArray, where: str) -> None:
    start = 0
    for chunk in texts.chunks:
        wanted = document_ids(chunk)
        found = ids[start : start + len(chunk)]
        if (place := pc.index(pc.call_function("equal", [wanted, found]), False).as_py()) >= 0:
            raise StepFailed(
                f"{where}: id {found[place]} in row {start + place} is not the id of its text ({wanted[place]}). {_ADVICE}"
            )
        try:
            chunk.validate(full=True)  # that it is UTF-8; reading Parquet does not look
        except pa.ArrowInvalid as error:
            raise StepFailed(f"{where}: after row {start}: a text is not UTF-8 ({error}). {_ADVICE}") from error
        blank = pc.call_function("utf8_is_space", [chunk])  # of an empty text it says no
        if (place := max(pc.index(blank, True).as_py(), pc.index(chunk, "").as_py())) >= 0:
            raise StepFailed(
                f"{where}: document {found[place]} in row {start + place} has blank text; documents/normalize drops these"
            )
        start += len(chunk)
