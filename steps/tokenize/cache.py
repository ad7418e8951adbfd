"""tokenize/cache: documents by cell, or by source for evaluation sets, to a token store of Levanter caches.

Cells are worked on in groups, one shard of the step a group, each committed on its own: a step that died goes on
with the groups that are left. Begin and end tokens stand by the config's policy, and nowhere else; that is checked
on what was read back.
"""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from marin_exec import ConfigError, InputPath, Out, ShardOut, kind
from steps.config_checks import check_number
from steps.documents import write_table
from steps.tokenize.cell_writer import SourceCount, write_cell
from steps.tokenize.encoding import token_policy
from steps.tokenize.groups import group_names
from steps.tokenize.store import (
    COUNTS_FILE,
    INDEX_FILE,
    CellEntry,
    TokenIndex,
    check_cell_name,
    is_directory_name,
    read_index,
    write_index,
)
from steps.tokenize.token_bytes import TOKEN_BYTES_FILE, token_bytes, write_token_bytes
from steps.tokenize.tokenizer import load_tokenizer


@dataclass(frozen=True, kw_only=True)
class CacheConfig:
    documents: InputPath
    """Directory with one documents data set a subdirectory: `cells / "cells"`, or `heldout / "documents"`."""
    tokenizer: InputPath
    """Output of tokenize/train_bpe or tokenize/adopt."""
    expected_cells: tuple[str, ...] | None = None
    """Exactly the cells that must be there; None takes those found."""
    begin: bool = True
    """Put the begin token before each document."""
    end: bool = False
    """Put the end token after each document. The next begin token already says that the last one ended."""
    split: str = "train"
    """Levanter's name for the split: "train", or "validation" for evaluation sets."""
    cells_per_shard: int = 8
    """Cells that one task works on; a function of the data, not of the number of workers."""

    def __post_init__(self) -> None:
        check_number(self, "cells_per_shard", low=1)
        if isinstance(self.split, str) and not is_directory_name(self.split):
            raise ConfigError(
                f"CacheConfig.split: {self.split!r}; a directory's name of letters, digits, '.', '_' and '-' is needed"
            )


@dataclass(frozen=True)
class CacheResult:
    tokens: int
    documents: int
    bytes: int
    bytes_per_token: float
    vocabulary_size: int
    fingerprint: str
    """Of the whole store; a mixture is made for exactly one."""
    tokens_by_cell: dict[str, int]
    documents_by_cell: dict[str, int]
    bytes_by_cell: dict[str, int]
    tokens_by_source: dict[str, int]
    """By where documents came from (their column `source`; without it, the cell's name); by cell too in counts.parquet."""


@dataclass(frozen=True, kw_only=True)
class _Policy:
    """What a shard needs besides its cells; plain values, so that it travels to any worker."""

    documents: str
    tokenizer: str
    begin: bool
    end: bool
    split: str


def store_digest(path: str) -> str:
    """Returns the content digest of a token store: its fingerprint, made from the digests of arrays and ids."""
    return read_index(path).fingerprint


@kind("tokenize/cache", version=3, content_digest=store_digest)
def token_cache(config: CacheConfig, out: Out) -> CacheResult:
    """Writes the token store described in steps/tokenize/store.py.

    Raises:
        StepFailed: a cell is missing, has no document, or repeats one, what was read back is not what was written, or the
            tokenizer has no token that the policy asks for.
    """
    names = [check_cell_name(name) for name in group_names(config.documents, config.expected_cells)]
    tokenizer = load_tokenizer(config.tokenizer)
    policy = token_policy(tokenizer, begin=config.begin, end=config.end, where=config.tokenizer)
    lengths = token_bytes(tokenizer.tokenizer)
    plain = _Policy(
        documents=config.documents,
        tokenizer=config.tokenizer,
        begin=config.begin,
        end=config.end,
        split=config.split,
    )
    size = config.cells_per_shard
    shards = {f"cells-{i // size:04d}": names[i : i + size] for i in range(0, len(names), size)}
    done = [cell for cells in out.map_shards(partial(_tokenize_cells, plain), shards).values() for cell in cells]
    index = TokenIndex(
        begin_token=policy.begin,
        end_token=policy.end,
        vocabulary_size=len(lengths),
        tokenizer_digest=tokenizer.digest,
        split=config.split,
        cells=tuple(CellEntry(**cell["entry"]) for cell in done),
    )
    write_token_bytes(out.file(TOKEN_BYTES_FILE), lengths)
    counts = _counts(done)
    write_table(out.file(COUNTS_FILE), counts)
    write_index(out.file(INDEX_FILE), index)
    by_source = counts.group_by("source").aggregate([("tokens", "sum")]).sort_by("source")
    tokens, num_bytes = sum(each.tokens for each in index.cells), sum(each.bytes for each in index.cells)
    return CacheResult(
        tokens=tokens,
        documents=sum(each.documents for each in index.cells),
        bytes=num_bytes,
        bytes_per_token=num_bytes / tokens,
        vocabulary_size=index.vocabulary_size,
        fingerprint=index.fingerprint,
        tokens_by_cell={each.name: each.tokens for each in index.cells},
        documents_by_cell={each.name: each.documents for each in index.cells},
        bytes_by_cell={each.name: each.bytes for each in index.cells},
        tokens_by_source=dict(zip(by_source["source"].to_pylist(), by_source["tokens_sum"].to_pylist(), strict=True)),
    )


def _tokenize_cells(policy: _Policy, names: list[str], shard: ShardOut) -> list[dict[str, Any]]:
    tokenizer = load_tokenizer(policy.tokenizer)
    ends = token_policy(tokenizer, begin=policy.begin, end=policy.end, where=policy.tokenizer)
    lengths = token_bytes(tokenizer.tokenizer)
    cells = []
    for done, name in enumerate(names):
        shard.progress(f"tokenising {name}", done=done, total=len(names))
        documents = f"{policy.documents.rstrip('/')}/{name}"
        entry, sources = write_cell(documents, name, tokenizer, ends, lengths, policy.split, shard)
        cells.append({"entry": asdict(entry), "sources": {source: asdict(count) for source, count in sources.items()}})
    return cells


def _counts(cells: list[dict[str, Any]]) -> pa.Table:
    """Documents, tokens and bytes by cell and source, in this order."""
    rows = [
        {"cell": cell["entry"]["name"], "source": source, **asdict(SourceCount(**count))}
        for cell in cells
        for source, count in cell["sources"].items()
    ]
    columns = [("cell", pa.string()), ("source", pa.string())]
    columns += [(name, pa.int64()) for name in ("documents", "tokens", "bytes")]
    return pa.Table.from_pylist(rows, pa.schema(columns))
