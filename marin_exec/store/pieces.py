"""Shards and milestones: parts of an output that are committed on their own, before the step is done.

A piece counts once its commit object exists. The first to make it wins, and stays: a zombie of an earlier attempt, or a
task that ran twice, changes nothing. Attempts of one chain share their pieces.
"""

from dataclasses import dataclass
from typing import Any, Literal

from marin_exec.errors import InternalError
from marin_exec.records import FORMAT, Document, FileEntry
from marin_exec.store import layout
from marin_exec.store.conditional import AlreadyExists
from marin_exec.store.store import Store

PieceKind = Literal["shard", "milestone"]


@dataclass(frozen=True, kw_only=True)
class Piece(Document):
    """One committed part of an output."""

    format: int = FORMAT
    name: str
    attempt: int
    """The attempt that made it."""
    attempt_path: str
    """That attempt's directory, relative to the store's prefix."""
    files: tuple[FileEntry, ...]
    """Their paths are relative to the attempt's directory."""
    source_digest: str = ""
    """The code that made it."""
    result: Any = None
    """What the function returned, or what was published with it, as plain JSON values."""


def commit_piece(store: Store, digest: str, chain: int, kind: PieceKind, name: str, piece: Piece) -> Piece:
    """Makes a piece count, unless one of its name does already.

    Returns:
        The piece that stands: this one, or the first.
    """
    if piece.name != name:
        raise InternalError(f"piece {name!r} of step {digest[:16]}: committed under the name {piece.name!r}")
    path = layout.piece(digest, chain, kind, name)
    try:
        store.files.create(path, piece.to_bytes())
        return piece
    except AlreadyExists:
        found = store.files.read(path)
        if found is None:
            raise InternalError(
                f"{store.url(path)}: a piece was removed while the step ran; pieces are never removed"
            ) from None
        return Piece.from_bytes(found.data, store.url(path))


def piece_named(store: Store, digest: str, chain: int, kind: PieceKind, name: str) -> Piece | None:
    """Returns one committed piece of a chain, or None."""
    path = layout.piece(digest, chain, kind, name)
    found = store.files.read(path)
    return Piece.from_bytes(found.data, store.url(path)) if found else None


def pieces(store: Store, digest: str, chain: int, kind: PieceKind) -> dict[str, Piece]:
    """Returns the committed pieces of a chain by name, sorted by name."""
    directory = layout.pieces_directory(digest, chain, kind)
    paths = [f"{directory}/{name}" for name in store.files.names(directory) if name.endswith(".json")]

    def read(path: str) -> Piece | None:
        found = store.files.read(path)
        return Piece.from_bytes(found.data, store.url(path)) if found else None

    found = store.look_up_all(read, paths)
    return {piece.name: piece for piece in sorted(filter(None, found), key=lambda piece: piece.name)}
