"""The documents contract: what is refused on entry, by the two functions and by the steps that call them."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from marin_exec import StepFailed
from steps.contract import check_documents, document_shards, read_all_documents, read_documents
from steps.decontaminate.benchmarks import DocumentsBenchmark
from steps.decontaminate.ngrams import DecontaminateConfig, find_contaminated
from steps.dedup.exact import ExactConfig, exact_duplicates
from steps.dedup.fuzzy import FuzzyConfig, fuzzy_duplicates
from steps.documents import DOCUMENT_SCHEMA, NamedInput, document_id, shard_name, write_table
from steps.heuristics.judge import HeuristicsConfig, judge_documents
from steps.normalize.normalize import NormalizeConfig, normalize
from steps.sources.raw import RawDocument, raw_name, write_raw
from steps.tokenize.bpe import BpeConfig, train_bpe
from tests.directory_out import DirectoryOut


def documents(*texts: str) -> pa.Table:
    rows = sorted((document_id(text), text, f"place-{number}", "{}") for number, text in enumerate(texts))
    columns = zip(*rows, strict=True) if rows else [()] * 4
    return pa.table([pa.array(column, pa.string()) for column in columns], schema=DOCUMENT_SCHEMA)


def nullable(table: pa.Table, column: str, value: object) -> pa.Table:
    """The table with one column replaced, and without the schema's promise that nothing is null."""
    return pa.table({name: pa.array([value]) if name == column else table[name] for name in table.column_names})


def write_shards(folder, *shards: pa.Table) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for index, shard in enumerate(shards):
        write_table(str(folder / shard_name(index)), shard)
    return str(folder)


def test_check_documents_good_table_passes():
    check_documents(documents("a", "b", "c"), "here")
    check_documents(documents(), "here")


BROKEN_ROWS = [
    (lambda: documents("a", "b").take([1, 0]), "in row 1 is not above .*: not sorted and unique"),
    (lambda: documents("a").take([0, 0]), "in row 1 is not above .*: not sorted and unique"),
    (lambda: documents(" \n\u3000"), "in row 0 has blank text"),
    (lambda: documents(""), "in row 0 has blank text"),
    (lambda: nullable(documents("a"), "text", "b"), "in row 0 is not the id of its text"),
    (lambda: nullable(documents("a"), "id", ""), "the id in row 0 is empty"),
]
BROKEN_COLUMNS = [
    (
        lambda: documents("a").drop_columns(["source_id"]),
        r"'source_id' is missing; it has \['id', 'metadata', 'text'\]",
    ),
    (lambda: documents("a").drop_columns(["id"]), "'id' is missing"),
    (lambda: documents("a").append_column("text", pa.array(["b"])), "2 columns are called 'text'"),
    (lambda: documents("a").set_column(1, "text", pa.array([3])), "'text' has type int64; string is needed"),
    (lambda: documents("a").cast(pa.schema([(n, pa.large_string()) for n in DOCUMENT_SCHEMA.names])), "large_string"),
]
INVALID_UTF8 = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")]
)
BROKEN_ROWS.append(
    (
        lambda: pa.table(
            [[xxhash.xxh3_128_hexdigest(b"\xff\xfe")], INVALID_UTF8, ["f"], ["{}"]], schema=DOCUMENT_SCHEMA
        ),
        "a text is not UTF-8",
    )
)
NULLS = [
    (lambda name=name: nullable(documents("a"), name, pa.scalar(None, pa.string())), rf"'{name}' holds 1 nulls")
    for name in DOCUMENT_SCHEMA.names
]


@pytest.mark.parametrize(("broken", "message"), [*BROKEN_ROWS, *BROKEN_COLUMNS, *NULLS])
def test_check_documents_source_that_bypassed_normalize_is_refused(broken, message):
    with pytest.raises(StepFailed, match=rf"documents/code: .*{message}.*normalize"):
        check_documents(broken(), "documents/code")


@pytest.mark.parametrize(("broken", "message"), [*BROKEN_ROWS, *NULLS])
def test_read_documents_broken_shard_is_named(tmp_path, broken, message):
    path = write_shards(tmp_path, broken())
    with pytest.raises(StepFailed, match=rf"{path}/part-00000\.parquet: .*{message}"):
        read_documents(path, shard_name(0))


@pytest.mark.parametrize(("broken", "message"), BROKEN_COLUMNS)
def test_document_shards_wrong_columns_are_found_without_reading_rows(tmp_path, broken, message):
    path = write_shards(tmp_path, documents("x"), broken())
    with pytest.raises(StepFailed, match=rf"{path}/part-00001\.parquet: .*{message}.*Run documents/normalize"):
        document_shards(path)


@pytest.mark.parametrize("kept_bytes", [0, 10, -1])
def test_document_shards_shard_cut_short_is_found_by_its_footer(tmp_path, kept_bytes):
    path = write_shards(tmp_path, documents("a").slice(0, 1), documents("b"))
    file = tmp_path / shard_name(1)
    file.write_bytes(file.read_bytes()[:kept_bytes])
    with pytest.raises(StepFailed, match=r"part-00001\.parquet: not a complete Parquet file"):
        document_shards(path)


def test_document_shards_in_another_order_or_overlapping_are_refused(tmp_path):
    table = documents(*"abcdefgh")
    assert document_shards(write_shards(tmp_path / "good", table[:3], table[3:3], table[3:])) == [
        shard_name(index) for index in range(3)
    ]
    with pytest.raises(StepFailed, match=r"part-00001\.parquet: begins with id .*part-00000\.parquet ends with"):
        document_shards(write_shards(tmp_path / "order", table[4:], table[:4]))
    with pytest.raises(StepFailed, match="ids must rise from shard to shard"):
        document_shards(write_shards(tmp_path / "twice", table[:4], table[3:]))


def test_document_shards_without_statistics_are_checked_all_the_same(tmp_path):
    table = documents(*"abcdefgh")
    for index, shard in enumerate([table[4:], table[:4]]):
        pq.write_table(shard, tmp_path / shard_name(index), write_statistics=False)
    with pytest.raises(StepFailed, match="ids must rise from shard to shard"):
        document_shards(str(tmp_path))


@given(
    texts=st.lists(st.text(min_size=1, max_size=9).filter(str.strip), unique=True, max_size=30), cut=st.integers(0, 30)
)
def test_read_documents_any_good_texts_come_back(tmp_path_factory, texts, cut):
    table = documents(*texts)
    path = write_shards(tmp_path_factory.mktemp("any"), table[:cut], table[cut:])
    assert read_all_documents(path).equals(table)
    assert read_all_documents(path, ["text"])["text"].to_pylist() == table["text"].to_pylist()
    check_documents(pa.concat_tables([table[:cut], table[cut:]]), "in pieces")


def test_normalize_writes_what_the_contract_asks(tmp_path):
    (tmp_path / "raw").mkdir()
    write_raw(str(tmp_path / "raw" / raw_name(0)), [RawDocument(f"{n}", f"text {n % 40}", "{}") for n in range(99)])
    config = NormalizeConfig(source=str(tmp_path / "raw"), documents_per_shard=7)
    normalize(config, DirectoryOut(tmp_path / "out"))
    assert read_all_documents(f"{tmp_path}/out").num_rows == 40


def fuzzy(source: NamedInput, folder) -> None:
    for index in range(2):
        write_table(
            DirectoryOut(folder).file(f"exact/web/{shard_name(index)}"), pa.table({"id": pa.array([], pa.string())})
        )
    fuzzy_duplicates(FuzzyConfig(sources=(source,), exact=f"{folder}/exact"), DirectoryOut(folder / "out"))


def contaminated(source: NamedInput, folder) -> None:
    benchmark = write_shards(folder / "benchmark", documents("a question of the benchmark, long enough to have words"))
    sets = (DocumentsBenchmark(name="own", path=benchmark),)
    find_contaminated(DecontaminateConfig(sources=(source,), documents_benchmarks=sets), DirectoryOut(folder / "out"))


STEPS: dict[str, Callable] = {
    "dedup/exact": lambda source, folder: exact_duplicates(
        ExactConfig(sources=(source,)), DirectoryOut(folder / "out")
    ),
    "dedup/fuzzy": fuzzy,
    "quality/heuristics": lambda source, folder: judge_documents(
        HeuristicsConfig(sources=(source,), preset_by_source={}), DirectoryOut(folder / "out")
    ),
    "decontaminate/ngrams": contaminated,
    "tokenize/train_bpe": lambda source, folder: train_bpe(
        BpeConfig(documents=source.path.rpartition("/")[0], vocabulary_size=300), DirectoryOut(folder / "out")
    ),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "break_it", [lambda t: t[::-1], lambda t: t.drop_columns(["metadata"])], ids=["order", "column"]
)
def test_steps_refuse_a_source_that_bypassed_normalize(tmp_path, step, break_it):
    table = documents(*(f"some words of document {number}" for number in range(8)))
    path = write_shards(tmp_path / "sources" / "web", table[:4], break_it(table[4:]))
    with pytest.raises(StepFailed, match=r"sources/web/part-00001\.parquet: .*Run documents/normalize"):
        STEPS[step](NamedInput(name="web", path=path), tmp_path)
