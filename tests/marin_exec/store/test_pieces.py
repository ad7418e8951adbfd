"""Shards and milestones: the first one stands, within its chain."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marin_exec.errors import InternalError, StoreError
from marin_exec.records import FileEntry
from marin_exec.store import Piece, Store, commit_piece, layout, pieces

DIGEST = "f" * 64


@pytest.fixture
def make_piece() -> Callable[..., Piece]:
    def make(name: str, attempt: int = 1) -> Piece:
        return Piece(
            name=name,
            attempt=attempt,
            attempt_path=f"a/b-0123456789abcdef/a{attempt}-00000000",
            files=(FileEntry("x/y", 3, "xxh3-128:00"),),
            source_digest="s",
            result={"documents": attempt},
        )

    return make


def test_first_piece_of_a_name_stands(store: Store, make_piece: Callable[..., Piece]) -> None:
    first, second = make_piece("part-0", 1), make_piece("part-0", 2)
    assert commit_piece(store, DIGEST, 1, "shard", "part-0", first) == first
    assert commit_piece(store, DIGEST, 1, "shard", "part-0", second) == first
    assert pieces(store, DIGEST, 1, "shard") == {"part-0": first}


def test_pieces_of_another_chain_kind_or_step_are_apart(store: Store, make_piece: Callable[..., Piece]) -> None:
    commit_piece(store, DIGEST, 1, "shard", "a", make_piece("a"))
    commit_piece(store, DIGEST, 1, "milestone", "b", make_piece("b"))
    commit_piece(store, DIGEST, 2, "shard", "c", make_piece("c"))
    assert list(pieces(store, DIGEST, 1, "shard")) == ["a"]
    assert list(pieces(store, DIGEST, 1, "milestone")) == ["b"]
    assert list(pieces(store, DIGEST, 2, "shard")) == ["c"]
    assert pieces(store, "0" * 64, 1, "shard") == {}


def test_racing_commits_of_one_piece_all_return_the_one_that_stands(
    store: Store, make_piece: Callable[..., Piece]
) -> None:
    with ThreadPoolExecutor(10) as threads:
        standing = list(
            threads.map(
                lambda attempt: commit_piece(store, DIGEST, 1, "shard", "p", make_piece("p", attempt)), range(1, 11)
            )
        )
    assert set(map(Piece.to_bytes, standing)) == {pieces(store, DIGEST, 1, "shard")["p"].to_bytes()}


@pytest.mark.parametrize(
    "names", [["", ".", "..", "a/b", "a%2Fb", "a b", "é", "\udcff", "\n", "x" * 500, "x" * 499 + "y", "CON", "a.json"]]
)
def test_pieces_of_any_name_are_found_by_it(store: Store, make_piece: Callable[..., Piece], names: list[str]) -> None:
    for name in names:
        commit_piece(store, DIGEST, 1, "shard", name, make_piece(name))
    assert list(pieces(store, DIGEST, 1, "shard")) == sorted(names)


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
def test_piece_through_bytes_is_equal(name: str, path: str) -> None:
    piece = Piece(name=name, attempt=1, attempt_path=path, files=(FileEntry(path, 0, ""),), result=[name])
    assert Piece.from_bytes(piece.to_bytes(), "x") == piece


def test_piece_under_another_name_is_a_bug(store: Store, make_piece: Callable[..., Piece]) -> None:
    with pytest.raises(InternalError):
        commit_piece(store, DIGEST, 1, "shard", "a", make_piece("b"))


def test_damaged_piece_is_named(local_store: Store, make_piece: Callable[..., Piece]) -> None:
    commit_piece(local_store, DIGEST, 1, "shard", "a", make_piece("a"))
    path = Path(local_store.url(layout.piece(DIGEST, 1, "shard", "a")))
    path.write_bytes(b"{")
    with pytest.raises(StoreError, match=rf"{path}: damaged Piece"):
        pieces(local_store, DIGEST, 1, "shard")
