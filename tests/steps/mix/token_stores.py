"""Small token stores and mixtures for tests, written through the real writers without a tokenizer."""

import dataclasses
from pathlib import Path

import numpy as np

from steps.documents import write_table
from steps.mix.weights import Phase, Proportional, WeightsConfig, WeightsResult, mixture_weights
from steps.tokenize.levanter_cache import write_cache
from steps.tokenize.store import (
    CellEntry,
    TokenCell,
    TokenIndex,
    cell_digest,
    cell_directory,
    documents_file,
    documents_table,
    write_index,
)
from steps.tokenize.token_bytes import TOKEN_BYTES_FILE, write_token_bytes
from tests.directory_out import DirectoryOut

BEGIN = 0


def random_cell(name: str, num_documents: int, seed: int = 0, longest: int = 60) -> TokenCell:
    """Documents of 2 .. longest tokens, the first of each BEGIN; the others have 3 bytes each. Ids name the cell."""
    random = np.random.default_rng([seed, *name.encode()])
    lengths = random.integers(2, longest + 1, size=num_documents)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    tokens = random.integers(1, 1000, size=offsets[-1]).astype(np.int32)
    tokens[offsets[:-1]] = BEGIN
    return TokenCell(tokens, offsets, [f"{name}-{i:05d}" for i in range(num_documents)], lengths * 3 - 3)


def write_store(path: Path, cells: dict[str, TokenCell]) -> str:
    entries = []
    for name, cell in sorted(cells.items()):
        rows = np.split(cell.tokens, cell.offsets[1:-1])
        write_cache(str(path / cell_directory(name, "train")), [rows], {})
        (path / "documents").mkdir(exist_ok=True)
        write_table(
            str(path / documents_file(name)),
            documents_table(cell.document_ids, np.diff(cell.offsets), cell.document_bytes),
        )
        entries.append(
            CellEntry(
                name=name,
                tokens=len(cell.tokens),
                documents=len(cell.document_ids),
                bytes=int(cell.document_bytes.sum()),
                digest=cell_digest(cell),
            )
        )
    index = TokenIndex(
        begin_token=BEGIN,
        end_token=None,
        vocabulary_size=1000,
        tokenizer_digest="0" * 32,
        split="train",
        cells=tuple(entries),
    )
    write_token_bytes(str(path / TOKEN_BYTES_FILE), np.where(np.arange(1000) == BEGIN, 0, 3))
    write_index(str(path / "index.json"), index)
    return str(path)


def make_mixture(path: Path, tokens: str, **changes) -> tuple[str, WeightsResult]:
    defaults = WeightsConfig(
        tokens=tokens,
        sequence_length=16,
        budgets_tokens=(20_000,),
        phases=(Phase(rule=Proportional()),),
        block_sequences=64,
        min_sequences=4,
        max_epochs=100.0,
    )
    result = mixture_weights(dataclasses.replace(defaults, **changes), DirectoryOut(path))
    return str(path), result
