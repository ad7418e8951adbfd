"""Raw text to documents."""

import functools
import hashlib
import re
import sys
import tempfile
import unicodedata

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marin_exec import ConfigError, StepFailed
from steps.contract import check_documents
from steps.documents import document_id, read_all, shard_names
from steps.normalize import normalize as module
from steps.normalize.cleaning import CONTROL_CHARACTERS, Cleaned, cleaner
from steps.normalize.normalize import NormalizeConfig, NormalizeResult, normalize
from steps.normalize.sorting import DocumentSorter
from steps.sources.raw import RawDocument, raw_name, write_raw
from tests.directory_out import DirectoryOut


def normalized(folder, texts, *, shards=1, order=1, **config) -> tuple[NormalizeResult, str]:
    raw = [RawDocument(f"file-{index:03d}", text, "{}") for index, text in enumerate(texts)][::order]
    (folder / "raw").mkdir(parents=True)
    for shard in range(shards):
        write_raw(str(folder / "raw" / raw_name(shard)), raw[shard::shards])
    result = normalize(
        NormalizeConfig(source=str(folder / "raw"), **config), DirectoryOut(folder / "out", "documents/x")
    )
    return result, str(folder / "out")


def tree(path) -> dict[str, str]:
    return {name: hashlib.sha256(open(f"{path}/{name}", "rb").read()).hexdigest() for name in [*shard_names(path)]}


def removed(path) -> list[dict[str, str]]:
    return pq.read_table(f"{path}/removed.parquet").to_pylist()


def test_normalize_copies_in_a_source_keeps_first_by_source_id_and_names_the_other(tmp_path):
    result, path = normalized(tmp_path, ["same", "other", "same", "same"])
    table = read_all(path)
    check_documents(table, path)
    assert dict(zip(table["text"].to_pylist(), table["source_id"].to_pylist(), strict=True)) == {
        "same": "file-000",
        "other": "file-001",
    }
    assert (result.documents_in, result.exact_duplicates, result.documents) == (4, 2, 2)
    assert removed(path) == [
        {"source_id": name, "reason": "exact_duplicate", "id": document_id("same"), "kept_source_id": "file-000"}
        for name in ("file-002", "file-003")
    ]


def test_normalize_reading_order_and_raw_shards_do_not_change_bytes(tmp_path):
    texts = [f"text {index % 17}" for index in range(60)] + [" "]
    first, path_first = normalized(tmp_path / "a", texts, documents_per_shard=5)
    second, path_second = normalized(tmp_path / "b", texts, documents_per_shard=5, shards=4, order=-1)
    assert first == second
    assert tree(path_first) == tree(path_second)
    assert removed(path_first) == removed(path_second)
    assert first.shards == len(tree(path_first)) == 4


def test_normalize_shards_are_sorted_by_id_throughout(tmp_path):
    _, path = normalized(tmp_path, [f"text {index}" for index in range(50)], documents_per_shard=7)
    table = read_all(path)
    assert table["id"].to_pylist() == sorted(document_id(f"text {index}") for index in range(50))
    assert len(shard_names(path)) == 8


def test_normalize_five_megabytes_of_spaces_are_cut_to_a_short_run(tmp_path):
    # A run that long is what stopped tokenizers elsewhere.
    result, path = normalized(tmp_path, ["a" + " " * 5_000_000 + "b", "c" + "\n" * 128 + "d"])
    assert sorted(read_all(path)["text"].to_pylist()) == ["a" + " " * 128 + "b", "c" + "\n" * 128 + "d"]
    assert result.whitespace_capped == 1
    check_documents(read_all(path), path)


def test_normalize_texts_equal_after_cutting_are_one_document(tmp_path):
    result, _ = normalized(tmp_path, ["a" + " " * 200 + "b", "a" + " " * 300 + "b"])
    assert (result.whitespace_capped, result.exact_duplicates, result.documents) == (2, 1, 1)


@pytest.mark.parametrize("blank", ["", "   ", "\n\n\n", "\t\u00a0\u3000\u2003"])
def test_normalize_blank_text_is_dropped_counted_and_named(tmp_path, blank):
    result, path = normalized(tmp_path, ["text", blank])
    assert (result.documents_in, result.blank, result.documents) == (2, 1, 1)
    assert removed(path) == [{"source_id": "file-001", "reason": "blank", "id": "", "kept_source_id": ""}]


def test_normalize_blank_text_under_error_policy_names_the_document(tmp_path):
    with pytest.raises(StepFailed, match=r"documents/x: document file-001 .* only whitespace"):
        normalized(tmp_path, ["text", "  "], blank="error")


@pytest.mark.parametrize("texts", [[], [" ", "\n"]])
def test_normalize_nothing_left_fails_with_the_counts(tmp_path, texts):
    with pytest.raises(StepFailed, match=rf"no document is left .*: {len(texts)} read, {len(texts)} of them blank"):
        normalized(tmp_path, texts)


def test_normalize_source_without_raw_shards_says_what_is_needed(tmp_path):
    (tmp_path / "raw").mkdir()
    with pytest.raises(StepFailed, match=r"no raw-\*\.parquet"):
        normalize(NormalizeConfig(source=str(tmp_path / "raw")), DirectoryOut(tmp_path / "out"))


def test_normalize_composed_form_only_where_asked(tmp_path):
    composed, decomposed = "Gr\u00f6\u00dfe", "Gro\u0308\u00dfe"
    kept, _ = normalized(tmp_path / "a", [composed, decomposed])
    joined, path = normalized(tmp_path / "b", [composed, decomposed], unicode_form="NFC")
    assert (kept.documents, kept.recomposed) == (2, 0)
    assert (joined.documents, joined.recomposed, joined.exact_duplicates) == (1, 1, 1)
    assert read_all(path)["text"].to_pylist() == [composed]


@settings(max_examples=60)
@given(
    texts=st.lists(st.text(alphabet="ab \n\u3000o\u0308", max_size=12), min_size=1, max_size=12),
    longest=st.integers(1, 4),
    form=st.sampled_from([None, "NFC"]),
)
def test_normalize_random_texts_agrees_with_a_plain_restatement(tmp_path_factory, texts, longest, form):
    def expected(text: str) -> str:
        out = []
        for character in unicodedata.normalize("NFC", text) if form else text:
            if not (character.isspace() and len(out) >= longest and all(each.isspace() for each in out[-longest:])):
                out.append(character)
        return "".join(out)

    wanted = {expected(text) for text in texts} - {text for text in map(expected, texts) if not re.search(r"\S", text)}
    folder = tmp_path_factory.mktemp("random")
    config = {"whitespace_run_characters": longest, "unicode_form": form}
    if not wanted:
        with pytest.raises(StepFailed):
            normalized(folder, texts, **config)
        return
    result, path = normalized(folder, texts, **config)
    assert sorted(read_all(path)["text"].to_pylist()) == sorted(wanted)
    assert result.documents_in == result.documents + result.blank + result.exact_duplicates
    again = normalize(
        NormalizeConfig(source=str(folder / "raw"), **config), DirectoryOut(folder / "again", "documents/x")
    )
    assert again == result


@pytest.fixture
def spilling(monkeypatch):
    """Makes normalize put documents into the temporary folder after a few bytes."""
    monkeypatch.setattr(module, "DocumentSorter", functools.partial(DocumentSorter, spill_bytes=200))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(texts=st.lists(st.text(alphabet="ab \nö", max_size=40), min_size=1, max_size=40), shards=st.integers(1, 3))
def test_normalize_through_the_temporary_folder_writes_the_same_bytes(tmp_path_factory, texts, shards):
    texts = ["kept", *texts]
    folder = tmp_path_factory.mktemp("spill")
    first, path = normalized(folder / "a", texts, documents_per_shard=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "DocumentSorter", functools.partial(DocumentSorter, spill_bytes=200))
        second, spilled = normalized(folder / "b", texts, documents_per_shard=4, shards=shards, order=-1)
    assert first == second
    assert tree(path) == tree(spilled)
    assert removed(path) == removed(spilled)


@settings(max_examples=100)
@given(text=st.text(alphabet="ab \n\u3000\x00\x85o\u0308\u0301=", max_size=40), longest=st.integers(1, 3))
def test_cleaning_a_clean_text_changes_nothing(text, longest):
    clean = cleaner(True, "drop", longest, longest)
    once = clean(text)
    assert clean(once.text) == Cleaned(once.text)


def test_normalize_second_pass_over_documents_removes_nothing(tmp_path):
    _, path = normalized(tmp_path / "a", ["one", "two", "two", " ", "three" + " " * 500 + "."])
    table = read_all(path)
    again, second = normalized(tmp_path / "b", table["text"].to_pylist())
    assert (again.documents, again.blank, again.exact_duplicates, again.whitespace_capped) == (3, 0, 0, 0)
    assert removed(second) == [] and read_all(second)["id"].equals(table["id"])


def test_normalize_leaves_nothing_in_the_temporary_folder(tmp_path, monkeypatch, spilling):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    normalized(tmp_path / "good", [f"text {number}" for number in range(300)])
    with pytest.raises(StepFailed, match="only whitespace"):
        normalized(tmp_path / "bad", [*(f"text {number}" for number in range(300)), " "], blank="error")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_normalize_control_characters_go_where_asked_and_white_space_stays(tmp_path):
    text = "a\x00b\x1b[0m\tc\r\nd\x0ce\x85f\x80g\ufffeh\u200bi"
    kept, _ = normalized(tmp_path / "a", [text])
    assert kept.controls_removed == 0
    result, path = normalized(tmp_path / "b", [text, "x\x00", "x", "\x00\x00"], control_characters="drop")
    assert sorted(read_all(path)["text"].to_pylist()) == ["ab[0m\tc\r\nd\x0ce\x85fgh\u200bi", "x"]
    assert (result.controls_removed, result.exact_duplicates, result.blank) == (3, 1, 1)


def test_normalize_controls_are_all_that_unicode_names_but_white_space():
    pattern = re.compile(CONTROL_CHARACTERS)
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        control = unicodedata.category(character) == "Cc" and not character.isspace()
        noncharacter = 0xFDD0 <= code <= 0xFDEF or code in (0xFFFE, 0xFFFF)
        assert bool(pattern.fullmatch(character)) == (control or noncharacter), hex(code)


def test_normalize_other_runs_are_cut_where_asked(tmp_path):
    texts = ["a" + "=" * 5_000_000 + "b", "=" * 30, "é" * 31]
    kept, _ = normalized(tmp_path / "a", texts)
    assert kept.repeats_capped == 0 and kept.num_bytes == kept.bytes_in
    result, path = normalized(tmp_path / "b", texts, repeated_run_characters=30)
    assert sorted(read_all(path)["text"].to_pylist()) == sorted(["a" + "=" * 30 + "b", "=" * 30, "é" * 30])
    assert result.repeats_capped == 2


def test_normalize_copies_under_error_policy_name_both(tmp_path):
    with pytest.raises(StepFailed, match=r"documents file-000 and file-002 of source .* have the same text"):
        normalized(tmp_path, ["same", "other", "same"], exact_copies="error")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]),
            "UTF8",
        ),
        (pa.array([None], pa.string()), r"nulls in \['text'\]"),
    ],
)
def test_normalize_raw_shard_with_text_that_is_none_is_named(tmp_path, texts, message):
    (tmp_path / "raw").mkdir()
    columns = {"source_id": pa.array(["f"]), "text": texts, "metadata": pa.array(["{}"])}
    pq.write_table(pa.table(columns), tmp_path / "raw" / raw_name(0))
    with pytest.raises(StepFailed, match=rf"raw-00000\.parquet: .*{message}.* [Rr]un its source again"):
        normalize(NormalizeConfig(source=str(tmp_path / "raw")), DirectoryOut(tmp_path / "out"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("whitespace_run_characters", 0),
        ("repeated_run_characters", 0),
        ("unicode_form", "NFKC"),
        ("control_characters", "remove"),
        ("blank", "keep"),
        ("exact_copies", "keep"),
        ("documents_per_shard", 0),
    ],
)
def test_normalize_config_value_out_of_range_names_the_field(field, value):
    with pytest.raises(ConfigError, match=rf"NormalizeConfig\.{field}: "):
        NormalizeConfig(source="raw", **{field: value})
