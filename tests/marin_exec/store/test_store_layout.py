"""Paths in a store, put together and taken apart, with names of any kind."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from marin_exec.errors import ConfigError, InternalError, StoreError
from marin_exec.store import layout

digests = st.text("0123456789abcdef", min_size=64, max_size=64)
parts = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,30}", fullmatch=True)
names = st.lists(parts, min_size=1, max_size=4).map("/".join)
any_text = st.text(st.characters(codec=None), max_size=300)
file_parts = st.text(st.characters(codec=None, exclude_characters="/\0"), min_size=1, max_size=10)


@given(names, digests, st.integers(1, 10**6), st.text("0123456789abcdef", min_size=8, max_size=8), st.lists(file_parts))
def test_attempt_path_is_parsed_back(name: str, digest: str, attempt: int, token: str, below: list[str]) -> None:
    path = layout.attempt_directory(name, digest, attempt, token)
    location = layout.parse("/".join([path, *below]))
    assert location == layout.Location(
        name=name, digest16=digest[:16], attempt=attempt, attempt_path=path, sub_path="/".join(below)
    )
    assert layout.parse(layout.output_directory(name, digest)).attempt is None


@given(names, digests, digests)
def test_name_that_looks_like_an_output_is_allowed_at_the_end_only(name: str, looks: str, digest: str) -> None:
    disguised = f"{name}-{looks[:16]}"
    assert layout.parse(layout.output_directory(disguised, digest)).name == disguised
    with pytest.raises(ConfigError, match="Rename the step"):
        layout.output_directory(f"{disguised}/more", digest)


@given(any_text, any_text)
def test_quoted_names_are_distinct_plain_file_names(one: str, other: str) -> None:
    assume(one != other)
    assert layout.quoted(one) != layout.quoted(other)
    path = layout.piece("a" * 64, 1, "shard", one)
    assert path.startswith(layout.pieces_directory("a" * 64, 1, "shard") + "/")
    base = path.rsplit("/", 1)[1]
    assert re.fullmatch(r"[A-Za-z0-9_.~%=-]*\.json", base) and len(base) <= 255 and base not in (".", "..")


def test_long_names_with_a_common_beginning_are_told_apart() -> None:
    long = "part-" * 100
    assert layout.quoted(long + "a") != layout.quoted(long + "b")


@pytest.mark.parametrize("path", ["data/tiny", ".marin/steps/x-0123456789abcdef/y", "tiny-0123456789ABCDEF", "-" * 40])
def test_path_outside_all_outputs_is_refused(path: str) -> None:
    with pytest.raises(StoreError, match="not part of a step's output"):
        layout.parse(path)


def test_path_below_the_output_but_no_attempt_keeps_its_rest() -> None:
    location = layout.parse("a/b-0123456789abcdef/checkpoints/step-1")
    assert (location.name, location.attempt, location.sub_path) == ("a/b", None, "checkpoints/step-1")


@pytest.mark.parametrize(
    "name", ["1-2.jsonl", "12-345.jsonl", "7.record.json", "7.record.jsonl", "x.jsonl", "0-1.jsonl"]
)
def test_log_and_record_names_are_parsed_back(name: str) -> None:
    found = (layout.parse_log(name), layout.parse_record(name))
    expected = {"1-2.jsonl": ((1, 2), None), "12-345.jsonl": ((12, 345), None), "7.record.json": (None, 7)}
    assert found == expected.get(name, (None, None))


@pytest.mark.parametrize("digest", ["", "a" * 16, "A" * 64, "../" * 21 + "a"])
def test_digest_that_is_none_is_a_bug(digest: str) -> None:
    with pytest.raises(InternalError):
        layout.head(digest)
