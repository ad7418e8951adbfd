"""The codecs of what the store keeps: round trips, and what becomes of damage and of other versions' files."""

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_exec.errors import StoreError
from marin_exec.records import FORMAT, DependencyRecord, FileEntry, Head, Link, Record

text = st.text(st.characters(codec=None), max_size=12)  # lone surrogates too: file names may hold any byte
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
entries = st.builds(FileEntry, path=text, size_bytes=st.integers(0), checksum=text)
bound = st.builds(
    DependencyRecord,
    name=text,
    kind=text,
    digest=text,
    sub_paths=st.lists(text, max_size=2).map(tuple),
    milestone=st.none() | text,
    path=text,
    output_digest=text,
    run_id=text,
)
links = st.builds(
    Link,
    digest=text,
    attempt=st.integers(1),
    chain=st.integers(1),
    name=text,
    output_digest=text,
    how=st.sampled_from(["content", "blessed"]),
    reason=text,
    by=text,
)
records = st.builds(
    Record,
    digest=text,
    name=text,
    kind=text,
    kind_version=st.none() | st.integers(),
    identity=trees,
    attempt=st.integers(1),
    chain=st.integers(1),
    run_id=text,
    output_path=text,
    files=st.lists(entries, max_size=3).map(tuple),
    output_digest=text,
    result=trees,
    result_type=st.none() | text,
    measured=st.dictionaries(text, trees, max_size=3),
    dependencies=st.lists(bound, max_size=2).map(tuple),
    first_after=st.lists(bound, max_size=2).map(tuple),
    see=st.lists(st.tuples(text, text), max_size=2).map(tuple),
    started=text,
    finished=text,
    seconds=st.floats(0, allow_infinity=False),
    provenance=trees,
    milestones=st.lists(text, max_size=2).map(tuple),
    content_key=text,
    link=st.none() | links,
)
heads = st.builds(
    Head,
    state=st.sampled_from(["held", "done", "free"]),
    attempt=st.integers(1),
    chain=st.integers(1),
    holder=text,
    beat=st.integers(0),
    current=st.none() | st.integers(1),
    note=text,
    host=text,
    pid=st.integers(0),
)
HEAD = Head(state="held", attempt=2, chain=1, holder="token", host="here", pid=7)


@settings(max_examples=60)
@given(records | heads)
def test_document_through_bytes_is_equal(document: Record | Head) -> None:
    assert type(document).from_bytes(document.to_bytes(), "x.json") == document
    assert type(document).from_json(json.loads(json.dumps(document.to_json()))) == document


def test_document_with_unknown_keys_is_read_without_them() -> None:
    assert Head.from_json({**HEAD.to_json(), "colour": "blue"}) == HEAD


def test_document_without_a_later_field_takes_its_default() -> None:
    data = HEAD.to_json()
    del data["host"], data["current"]
    assert Head.from_json(data) == dataclasses.replace(HEAD, host="")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attempt": "2"}, "attempt: got '2'; int is needed"),
        ({"attempt": True}, "attempt: got True"),
        ({"attempt": 2.0}, "attempt: got 2.0"),
        ({"state": "doing"}, "state: got 'doing'"),
        ({"holder": None}, "holder: got None"),
        ({"format": "1"}, "format: got '1'"),
    ],
)
def test_document_with_a_wrong_value_is_refused_by_path_and_field(change: dict[str, object], message: str) -> None:
    with pytest.raises(StoreError, match=r"^s/head\.json: damaged Head: ") as caught:
        Head.from_json({**HEAD.to_json(), **change}, "s/head.json")
    assert message in str(caught.value)


def test_record_with_a_wrong_value_deep_inside_names_the_field() -> None:
    entry = {"path": "a", "size_bytes": "1", "checksum": "c"}
    record = dict.fromkeys(("digest", "name", "kind", "run_id", "output_path", "output_digest"), "x")
    data = {**record, "started": "t", "finished": "t", "seconds": 1, "kind_version": 1, "identity": 0, "attempt": 1}
    with pytest.raises(StoreError, match="files: size_bytes: got '1'"):
        Record.from_json({**data, "chain": 1, "files": [entry]})
    with pytest.raises(StoreError, match="keys are missing: \\['chain', 'files'\\]"):
        Record.from_json(data)


def test_document_of_a_newer_format_is_refused_even_if_it_looks_readable() -> None:
    with pytest.raises(StoreError, match=rf"s/head\.json: written in format {FORMAT + 1}.*[Uu]pgrade"):
        Head.from_json({**HEAD.to_json(), "format": FORMAT + 1}, "s/head.json")


@pytest.mark.parametrize("length", [0, 1, 20, -1])
def test_document_cut_short_is_refused_by_path(length: int) -> None:
    with pytest.raises(StoreError, match=r"^s/head\.json: damaged Head: not JSON"):
        Head.from_bytes(HEAD.to_bytes()[:length], "s/head.json")


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"[]", b"null", b"3"])
def test_document_that_is_something_else_is_refused_by_path(data: bytes) -> None:
    with pytest.raises(StoreError, match=r"^s/head\.json: damaged Head"):
        Head.from_bytes(data, "s/head.json")
