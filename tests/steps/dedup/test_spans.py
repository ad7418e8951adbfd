"""Repeated paragraphs and lines: which places are named, and what is left without them."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_exec import ConfigError, StepFailed
from steps.dedup.exact import ExactConfig, exact_duplicates
from steps.dedup.spans import SpansConfig, SpansResult, repeated_spans
from steps.dedup.without_spans import WithoutSpansConfig, WithoutSpansResult, documents_without_spans
from steps.documents import document_id, read_all, read_table, shard_name, shard_names, write_table
from steps.normalize.normalize import NormalizeConfig, normalize
from steps.sources.raw import read_raw
from tests.directory_out import DirectoryOut
from tests.steps.dedup.dedup_corpus import write_documents

NOTICE = (
    "This notice stands at the foot of every page, and says nothing that is about the page that it stands on at all."
)
OTHER = (
    "Another passage, long enough to be compared, which two of the documents share with each other and with no third."
)


def remove(
    folder, *sources, min_left=1, **config
) -> tuple[SpansResult, dict[str, list[str]], dict[str, WithoutSpansResult]]:
    """Returns what was found, and the texts left and the counters, by source."""
    exact, spans = DirectoryOut(folder / "exact"), DirectoryOut(folder / "spans")
    exact_duplicates(ExactConfig(sources=sources), exact)
    found = repeated_spans(SpansConfig(sources=sources, exact=exact.path, **config), spans)
    texts, counts = {}, {}
    for source in sources:
        name = source.name
        out = DirectoryOut(folder / f"left-{name}")
        one = {"exact": f"{exact.path}/{name}", "spans": f"{spans.path}/{name}", "min_characters": min_left}
        counts[name] = documents_without_spans(WithoutSpansConfig(documents=source.path, **one), out)
        texts[name] = [document.text for document in read_raw(out.path)]
    return found, texts, counts


def test_spans_stay_where_they_come_first(tmp_path):
    sources = [
        write_documents(tmp_path / "a", [f"Page one.\n\n{NOTICE}", f"Nobody has this.\n\n{OTHER}\n\nNor this."]),
        write_documents(tmp_path / "b", [f"{NOTICE}\n\nPage two.", f"Page three.\n\n{OTHER}\n \n\n{NOTICE}\n"], 2),
    ]
    found, texts, counts = remove(tmp_path, *sources)
    assert sorted(texts["a"]) == sorted(read_all(sources[0].path, ["text"])["text"].to_pylist())
    assert sorted(texts["b"]) == ["Page three.", "Page two."]
    assert found.spans == 5 and found.repeated == 3 and found.repeated_by_source == {"a": 0, "b": 3}
    assert counts["b"].changed == 2 and counts["b"].near_empty == 0
    lost = found.repeated_characters_by_source["b"]
    assert found.characters_by_source["b"] - lost == len("Page three.\n\n") + len("Page two.")


def test_spans_inside_one_document_are_named_from_the_second_on(tmp_path):
    text = f"{NOTICE}\n\nmiddle\n\n  {NOTICE.replace(' ', '  ')}\n\n    indented end\n\n{NOTICE}"
    found, texts, _ = remove(tmp_path, write_documents(tmp_path / "a", [text]))
    assert found.spans == 3 and found.repeated == 2
    assert texts["a"] == [f"{NOTICE}\n\nmiddle\n\n    indented end"]


def test_spans_of_lines_go_with_their_line_ends(tmp_path):
    pages = [f"first {i}\n{NOTICE}\n  last {i}\n{OTHER}" for i in range(3)]
    found, texts, _ = remove(tmp_path, write_documents(tmp_path / "a", pages), unit="line")
    [whole] = set(texts["a"]) & set(pages)  # the one of the least id
    assert document_id(whole) == min(map(document_id, pages))
    cut = {f"first {i}\n  last {i}" for i in range(3) if f"first {i}\n" not in whole}
    assert set(texts["a"]) - {whole} == cut and found.repeated == 4


def test_spans_shorter_than_the_limit_stay(tmp_path):
    source = write_documents(tmp_path / "a", [f"Contents\n\n{i} and more\n\nContents" for i in range(3)])
    assert remove(tmp_path / "x", source, min_characters=9)[0].spans == 3
    assert remove(tmp_path / "y", source, min_characters=8)[0].repeated == 5


def test_spans_of_which_next_to_nothing_is_left_are_dropped_and_counted(tmp_path):
    sources = [
        write_documents(tmp_path / "a", [f"{NOTICE}\n\n{OTHER}\n\nthe page that has it all", "short"]),
        write_documents(
            tmp_path / "b", [f"{NOTICE}\n\n\n\n", f"{OTHER}\n\nx", f"{NOTICE}\n\n{'of its own ' * 9}", "tiny"]
        ),
    ]
    _, texts, counts = remove(tmp_path, *sources, min_left=20)
    assert sorted(texts["b"]) == [("of its own " * 9).rstrip(), "tiny"]  # what lost nothing stays, however short
    assert counts["b"].near_empty == 2 and counts["b"].documents == 2 and counts["b"].changed == 1
    assert len(texts["a"]) == 2


def test_spans_of_exact_duplicates_are_neither_compared_nor_written(tmp_path):
    text = f"{NOTICE}\n\nand its page"
    sources = [write_documents(tmp_path / "a", [text]), write_documents(tmp_path / "b", [text, f"{NOTICE}\n\nother"])]
    found, texts, counts = remove(tmp_path, *sources)
    assert found.spans == 2 and texts == {"a": [text], "b": ["other"]}
    assert counts["b"].documents_in == 2 and counts["b"].exact_duplicates == 1


def test_spans_left_are_documents_again_after_normalize(tmp_path):
    sources = [write_documents(tmp_path / "a", [f"{NOTICE}\n\nthe page {i}" for i in range(40)], 3)]
    remove(tmp_path, *sources)
    result = normalize(NormalizeConfig(source=str(tmp_path / "left-a")), DirectoryOut(tmp_path / "again"))
    assert result.documents == 40 and result.exact_duplicates == 0
    again = read_all(str(tmp_path / "again"))
    assert sum(NOTICE in text for text in again["text"].to_pylist()) == 1
    assert all(json.loads(each) == {} for each in again["metadata"].to_pylist())


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.sampled_from(["aa", "bb", " aa", "cc dd", "cc  dd", "", "e"]), max_size=7), max_size=6),
    st.integers(1, 3),
)
def test_spans_left_hold_each_span_once_and_a_second_pass_finds_none(tmp_path_factory, pages, num_shards):
    folder = tmp_path_factory.mktemp("spans")
    texts = sorted({text for page in pages if (text := "\n".join(page)).strip()} | {"zz"}, key=document_id)
    source = write_documents(folder / "s", texts, num_shards)
    _, left, _ = remove(folder / "one", source, unit="line", min_characters=2)
    seen: set[str] = set()
    expected = []
    for text in texts:  # in order of ids
        lines = []
        for line in text.split("\n"):
            span = " ".join(line.split())
            if len(span) < 2 or span not in seen:
                lines.append(line)
            seen |= {span} if len(span) >= 2 else set()
        cut = "\n".join(lines)
        if cut == text or cut.strip():
            expected.append(text if cut == text else cut.rstrip())
    assert left["s"] == expected
    again = write_documents(folder / "again" / "s", left["s"])
    assert remove(folder / "two", again, unit="line", min_characters=2)[0].repeated == 0


def test_spans_do_not_depend_on_shards_and_give_the_same_bytes_again(tmp_path):
    pages = [f"{NOTICE}\n\n{OTHER if i % 3 else 'own'}\n\npage {i}" for i in range(30)]
    rows = {}
    for name, num_shards in (("one", 1), ("four", 4), ("again", 4)):
        source = write_documents(tmp_path / name / "s", pages, num_shards)
        remove(tmp_path / name, source)
        rows[name] = read_all(str(tmp_path / name / "spans" / "s")).to_pylist()
    assert rows["one"] == rows["four"] and len(rows["one"]) == 29
    for shard in shard_names(str(tmp_path / "four" / "spans" / "s")):
        one, other = (tmp_path / name / "spans" / "s" / shard for name in ("four", "again"))
        assert one.read_bytes() == other.read_bytes()


def test_spans_made_from_other_documents_are_refused(tmp_path):
    source = write_documents(tmp_path / "a", [f"{NOTICE}\n\n{i}" for i in range(2)])
    remove(tmp_path, source)
    table = read_table(str(tmp_path / "spans" / "a"), shard_name(0))
    damages = {"not among the documents": {"id": ["0" * 32]}, "ends beyond its text": {"ends": [[9_999]]}}
    for message, columns in damages.items():
        changed = table.to_pydict() | columns
        (tmp_path / "bad").mkdir(exist_ok=True)
        write_table(str(tmp_path / "bad" / shard_name(0)), pa.table(changed, schema=table.schema))
        config = WithoutSpansConfig(
            documents=source.path, exact=str(tmp_path / "exact" / "a"), spans=str(tmp_path / "bad")
        )
        with pytest.raises(StepFailed, match=message):
            documents_without_spans(config, DirectoryOut(tmp_path / "out"))


def test_spans_exact_duplicates_of_other_documents_are_refused(tmp_path):
    """Their ids are nowhere in these documents: left alone, copies that exact deduplication removes would be compared."""
    source, other = write_documents(tmp_path / "a", ["text"]), write_documents(tmp_path / "b", ["copy", "other"])
    copies = write_documents(tmp_path / "copies", ["copy"])
    sources = (replace(copies, name="copies"), replace(other, name=source.name))
    exact_duplicates(ExactConfig(sources=sources), DirectoryOut(tmp_path / "exact"))
    with pytest.raises(StepFailed, match="not among the documents of that shard"):
        repeated_spans(SpansConfig(sources=(source,), exact=str(tmp_path / "exact")), DirectoryOut(tmp_path / "out"))


def test_spans_config_names_what_is_allowed(tmp_path):
    source = write_documents(tmp_path / "a", ["text"])
    with pytest.raises(ConfigError, match=r"SpansConfig\.unit: 'word'; one of 'paragraph', 'line'"):
        SpansConfig(sources=(source,), exact="exact", unit="word")
    with pytest.raises(ConfigError, match=r"SpansConfig\.min_characters: 0; a value at least 1"):
        SpansConfig(sources=(source,), exact="exact", min_characters=0)
