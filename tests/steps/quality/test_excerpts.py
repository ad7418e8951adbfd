import json
import re

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from marin_exec import ConfigError
from steps.quality.excerpts import EXCERPT_CHARACTERS, draw_ids, equal_shares, excerpt_of, main, sample_excerpts
from tests.steps.embed.test_embed_documents import write_documents


@given(st.integers(1, 30_000), st.integers(0, 9))
def test_excerpt_is_short_announced_and_cut_where_it_says(length, salt):
    text = "".join(chr(97 + (place * 7 + place // 26 + salt) % 26) for place in range(length))
    excerpt = excerpt_of(text)
    assert len(excerpt) <= EXCERPT_CHARACTERS
    if length <= EXCERPT_CHARACTERS:
        assert excerpt == text
        return
    windows = re.findall(r"\[characters (\d+)-(\d+) of ([\d,]+)\]\n([a-z]+)", excerpt)
    assert len(windows) == 2
    for start, end, whole, shown in windows:
        assert int(whole.replace(",", "")) == length
        assert shown == text[int(start) : int(end)] and shown


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 200), min_size=1, max_size=6), st.data())
def test_shares_are_equal_except_where_a_source_is_too_small(sizes, data):
    count = data.draw(st.integers(0, sum(sizes.values())))
    shares = equal_shares(sizes, count)
    assert sum(shares.values()) == count
    full = max(shares.values())
    for name, share in shares.items():
        assert 0 <= share <= sizes[name]
        assert share == sizes[name] or share >= full - 1


def test_shares_of_more_than_there_is_are_refused():
    with pytest.raises(ConfigError, match="hold 5 documents"):
        equal_shares({"a": 2, "b": 3}, 6)


def test_draw_does_not_depend_on_order_and_names_no_document_twice():
    ids = [f"{number:032x}" for number in range(60)]
    sources = {"b": ids[20:], "a": ids[:30]}
    drawn = draw_ids(sources, 40, seed=0)
    assert drawn == draw_ids({"a": ids[:30][::-1], "b": ids[20:][::-1]}, 40, seed=0)
    assert len({each for _, each in drawn}) == 40
    assert [name for name, _ in drawn].count("a") == 20
    assert drawn != draw_ids(sources, 40, seed=1)


def test_draw_is_a_prefix_rule_so_that_more_labels_keep_the_first():
    ids = {"a": [f"{number:032x}" for number in range(50)]}
    assert set(draw_ids(ids, 10, seed=3)) < set(draw_ids(ids, 20, seed=3))


def test_sample_shows_the_documents_own_text_whatever_its_shards(tmp_path):
    texts = [f"text number {number}" for number in range(20)]
    few, many = (write_documents(tmp_path / str(size), texts, size) for size in (3, 20))
    sample = sample_excerpts({"s": few}, 8, 0)
    assert sample == sample_excerpts({"s": many}, 8, 0)
    assert {each.excerpt for each in sample} < set(texts)


def test_command_writes_one_line_an_excerpt(tmp_path):
    path = write_documents(tmp_path / "d", [f"text {number}" for number in range(9)], 4)
    out = tmp_path / "e.jsonl"
    result = CliRunner().invoke(main, ["--documents", f"s={path}", "--count", "5", "--out", str(out)])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 5 and all(set(row) == {"id", "source", "excerpt"} for row in rows)


def test_command_without_a_name_says_what_is_needed(tmp_path):
    result = CliRunner().invoke(main, ["--documents", str(tmp_path), "--out", "x"])
    assert result.exit_code == 2 and "NAME=DIR" in result.output
