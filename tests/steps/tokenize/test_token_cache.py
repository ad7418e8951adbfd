import dataclasses
import json
import shutil
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from tokenizers import Tokenizer

from marin_exec import StepFailed
from steps.documents import read_all, read_table, write_table
from steps.tokenize.bpe import BEGIN_TOKEN, END_TOKEN, BpeConfig, train_bpe
from steps.tokenize.cache import CacheConfig, store_digest, token_cache
from steps.tokenize.encoding import TokenPolicy, check_special_tokens
from steps.tokenize.groups import group_names
from steps.tokenize.store import (
    TokenCell,
    cell_names,
    read_cell,
    read_documents,
    read_index,
)
from tests.directory_out import DirectoryOut
from tests.steps.tokenize.document_groups import real_texts, write_groups

SPACES = "indented" + " " * 5_000_000 + "far"
QUOTED = f"A text about {BEGIN_TOKEN} and {END_TOKEN} {BEGIN_TOKEN}"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> tuple[str, str]:
    root = tmp_path_factory.mktemp("inputs")
    texts = real_texts(90)
    groups = {"c00q0": texts[:50], "c00q4": texts[50:80], "c01q2": [*texts[80:], QUOTED], "c10q1": ["ein Text", SPACES]}
    documents = write_groups(root / "cells", groups, documents_per_shard=20)
    few = write_groups(root / "few", {"all": texts})
    train_bpe(BpeConfig(documents=few, vocabulary_size=512), DirectoryOut(root / "bpe"))
    return documents, str(root / "bpe")


@pytest.fixture(scope="module")
def cached(inputs, tmp_path_factory):
    path = tmp_path_factory.mktemp("store")
    result = token_cache(CacheConfig(documents=inputs[0], tokenizer=inputs[1]), DirectoryOut(path))
    return str(path), result


def test_token_cache_holds_what_the_tokenizer_gives(inputs, cached):
    tokenizer = Tokenizer.from_file(f"{inputs[1]}/tokenizer.json")
    tokenizer.encode_special_tokens = True
    for name in cell_names(cached[0]):
        cell, documents = read_cell(cached[0], name), read_all(f"{inputs[0]}/{name}")
        assert cell.document_ids == documents["id"].to_pylist()
        assert cell.tokens.dtype == np.int32 and cell.offsets.dtype == np.int64
        for i, text in enumerate(documents["text"].to_pylist()):
            row = cell.tokens[cell.offsets[i] : cell.offsets[i + 1]].tolist()
            assert row == [0, *tokenizer.encode(text, add_special_tokens=False).ids]
            assert cell.document_bytes[i] == len(text.encode())


def test_token_cache_levanter_s_own_reader_gives_the_same_tokens(cached):
    from levanter.store.cache import TreeCache

    for name in cell_names(cached[0]):
        cell = read_cell(cached[0], name)
        cache = TreeCache.load(f"{cached[0]}/cells/{name}/train", {"input_ids": np.zeros(0, dtype=np.int32)})
        assert len(cache) == len(cell.document_ids)
        rows = cache.get_batch_sync(list(range(len(cache))))
        assert np.array_equal(np.concatenate([row["input_ids"] for row in rows]), cell.tokens)
        assert np.array_equal(np.cumsum([len(row["input_ids"]) for row in rows]), cell.offsets[1:])


def test_token_cache_result_counts_are_those_of_the_cells(inputs, cached):
    path, result = cached
    cells = {name: read_cell(path, name) for name in cell_names(path)}
    assert result.tokens_by_cell == {name: len(cell.tokens) for name, cell in cells.items()}
    assert result.documents_by_cell == {"c00q0": 50, "c00q4": 30, "c01q2": 11, "c10q1": 2}
    assert result.bytes == sum(len(t.encode()) for n in cells for t in read_all(f"{inputs[0]}/{n}")["text"].to_pylist())
    assert result.tokens == sum(result.tokens_by_cell.values()) and result.vocabulary_size == 512
    assert result.fingerprint == store_digest(path) == read_index(path).fingerprint


def test_token_cache_every_document_starts_with_begin_and_only_there(cached):
    """Bug of another chain: a change of backend left out the begin tokens, and 63 TB had to be made again."""
    for name in cell_names(cached[0]):
        cell = read_cell(cached[0], name)
        assert np.flatnonzero(cell.tokens == 0).tolist() == cell.offsets[:-1].tolist()  # quoted ones are plain text


BOTH = TokenPolicy(begin=0, end=1, special=(0, 1))


@pytest.mark.parametrize(
    ("changed", "policy"),
    [
        ([0, 7, 8, 1, 7, 9, 1], BOTH),  # begin missing
        ([0, 7, 8, 1, 0, 9, 7], BOTH),  # end missing
        ([0, 7, 0, 1, 0, 9, 1], BOTH),  # begin inside
        ([0, 1, 8, 1, 0, 9, 1], BOTH),  # end inside
        ([7, 0, 8, 1, 0, 9, 1], BOTH),  # late
        ([1, 7, 8, 0, 0, 9, 1], BOTH),  # the one for the other
        ([0, 7, 8, 1, 0, 9, 1], TokenPolicy(begin=None, end=None, special=(0, 1))),  # asked for none
        ([0, 7, 8, 9, 0, 9, 1], TokenPolicy(begin=0, end=None, special=(0, 1))),
        ([5, 7, 8, 5, 5, 9, 9], TokenPolicy(begin=5, end=5, special=(5, 5))),  # one token for both, as in GPT-2
    ],
)
def test_check_special_tokens_wrong_place_is_named(changed, policy):
    cell = TokenCell(
        np.array([0, 7, 8, 1, 0, 9, 1], np.int32), np.array([0, 4, 7]), ["first", "second"], np.zeros(2, int)
    )
    check_special_tokens(cell, BOTH, "here")
    with pytest.raises(StepFailed, match=r"here: document (first|second) has token"):
        check_special_tokens(dataclasses.replace(cell, tokens=np.array(changed, np.int32)), policy, "here")


@pytest.mark.parametrize("begin", [True, False])
@pytest.mark.parametrize("end", [True, False])
def test_token_cache_each_policy_as_levanter_reads_it(inputs, tmp_path, begin, end):
    """Documents' ends on what comes back, for all four policies; a document without them is what its text gives."""
    from levanter.store.cache import TreeCache

    few = write_groups(tmp_path / "few", {"c00q0": [*real_texts(5), QUOTED]})
    token_cache(CacheConfig(documents=few, tokenizer=inputs[1], begin=begin, end=end), DirectoryOut(tmp_path / "s"))
    tokenizer = Tokenizer.from_file(f"{inputs[1]}/tokenizer.json")
    tokenizer.encode_special_tokens = True
    cache = TreeCache.load(str(tmp_path / "s/cells/c00q0/train"), {"input_ids": np.zeros(0, dtype=np.int32)})
    rows = [row["input_ids"].tolist() for row in cache.get_batch_sync(list(range(len(cache))))]
    texts = read_all(f"{few}/c00q0", ["text"])["text"].to_pylist()
    assert rows == [[0] * begin + tokenizer.encode(text, add_special_tokens=False).ids + [1] * end for text in texts]
    index = read_index(str(tmp_path / "s"))
    assert (index.begin_token, index.end_token) == (0 if begin else None, 1 if end else None)


def test_token_cache_document_of_any_length_is_one_row(inputs, tmp_path, monkeypatch):
    """Elsewhere a document above a row's limit is cut into rows; here there is no limit, over chunks of the cache or batches."""
    from levanter.store.cache import TreeCache

    monkeypatch.setattr("steps.tokenize.cell_writer._BATCH_TOKENS", 50_000)
    long = "".join(f"{i:x} " for i in range(200_000))  # more tokens than a chunk of Levanter's arrays, 262,144
    few = write_groups(tmp_path / "few", {"c00q0": [*real_texts(40), long]}, documents_per_shard=10)
    result = token_cache(CacheConfig(documents=few, tokenizer=inputs[1]), DirectoryOut(tmp_path / "s"))
    cell = read_cell(str(tmp_path / "s"), "c00q0")
    lengths = np.diff(cell.offsets)
    assert result.documents == 41 and lengths.max() > 262_144
    cache = TreeCache.load(str(tmp_path / "s/cells/c00q0/train"), {"input_ids": np.zeros(0, dtype=np.int32)})
    row = cache.get_batch_sync([int(lengths.argmax())])[0]["input_ids"]
    tokenizer = Tokenizer.from_file(f"{inputs[1]}/tokenizer.json")
    assert row.tolist() == [0, *tokenizer.encode(long, add_special_tokens=False).ids]


def test_token_cache_batches_of_any_size_give_the_same_store(inputs, cached, tmp_path, monkeypatch):
    monkeypatch.setattr("steps.tokenize.cell_writer._BATCH_TOKENS", 1_000)
    monkeypatch.setattr("steps.tokenize.encoding._ENCODE_DOCUMENTS", 7)
    assert token_cache(CacheConfig(documents=inputs[0], tokenizer=inputs[1]), DirectoryOut(tmp_path)) == cached[1]
    for name in cell_names(cached[0]):
        assert np.array_equal(read_cell(str(tmp_path), name).tokens, read_cell(cached[0], name).tokens)


def test_token_cache_what_the_cache_does_not_give_back_is_an_error(inputs, tmp_path, monkeypatch):
    """A token that changes on its way to the disk, and one document given to the next: same tokens, other offsets."""
    from steps.tokenize import cell_writer

    few = write_groups(tmp_path / "few", {"c00q0": real_texts(5)})
    write = cell_writer.write_cache

    def changed(rows):
        return [np.where(np.arange(len(row)) == 3, row + 1, row) for row in rows]

    def moved(rows):
        return [rows[0][:-1], np.concatenate([rows[0][-1:], rows[1]]), *rows[2:]]

    for number, damage in enumerate((changed, moved)):
        monkeypatch.setattr(
            cell_writer, "write_cache", lambda path, batches, meta, by=damage: write(path, map(by, batches), meta)
        )
        with pytest.raises(StepFailed, match="cell c00q0"):
            token_cache(CacheConfig(documents=few, tokenizer=inputs[1]), DirectoryOut(tmp_path / str(number)))


def test_token_cache_counts_are_by_source_and_cell(inputs, tmp_path):
    texts = real_texts(9)
    documents = write_groups(tmp_path / "cells", {"c00q0": texts[:5], "c01q1": texts[5:]})
    for name, sources in {"c00q0": ["code", "docs", "code", "docs", "docs"], "c01q1": ["code"] * 4}.items():
        table = read_all(f"{documents}/{name}")
        write_table(f"{documents}/{name}/part-00000.parquet", table.append_column("source", pa.array(sources)))
    result = token_cache(CacheConfig(documents=documents, tokenizer=inputs[1]), DirectoryOut(tmp_path / "s"))
    expected = {}
    for name in ("c00q0", "c01q1"):
        cell, sources = read_cell(str(tmp_path / "s"), name), read_all(f"{documents}/{name}")["source"].to_pylist()
        for source, tokens, num_bytes in zip(sources, np.diff(cell.offsets), cell.document_bytes, strict=True):
            row = expected.setdefault((name, source), [0, 0, 0])
            row[:] = [row[0] + 1, row[1] + tokens, row[2] + num_bytes]
    counts = read_table(str(tmp_path / "s"), "counts.parquet")
    assert counts.column_names == ["cell", "source", "documents", "tokens", "bytes"]
    assert {tuple(row.values())[:2]: list(row.values())[2:] for row in counts.to_pylist()} == expected
    code = sum(row[1] for (_, source), row in expected.items() if source == "code")
    assert result.tokens_by_source == {"code": code, "docs": result.tokens - code}


def test_token_cache_without_a_source_column_counts_the_cell_as_one(cached):
    assert cached[1].tokens_by_source == cached[1].tokens_by_cell


def test_token_cache_cell_with_an_empty_shard_alone_is_an_error(inputs, tmp_path):
    documents = write_groups(tmp_path / "cells", {"c00q0": []})
    with pytest.raises(StepFailed, match="cell c00q0: no document"):
        token_cache(CacheConfig(documents=documents, tokenizer=inputs[1]), DirectoryOut(tmp_path / "s"))


def test_token_cache_policy_is_in_the_fingerprint_and_the_tokens(inputs, cached, tmp_path):
    config = CacheConfig(documents=inputs[0], tokenizer=inputs[1], begin=False, end=True, split="validation")
    result = token_cache(config, DirectoryOut(tmp_path))
    plain, other = read_cell(cached[0], "c00q4"), read_cell(str(tmp_path), "c00q4")
    assert np.array_equal(np.delete(plain.tokens, plain.offsets[:-1]), np.delete(other.tokens, other.offsets[1:] - 1))
    assert np.all(other.tokens[other.offsets[1:] - 1] == 1)
    assert result.fingerprint != cached[1].fingerprint
    assert (tmp_path / "cells/c00q4/validation/shard_ledger.json").exists()


def test_token_cache_other_tokenizer_is_another_fingerprint(inputs, cached, tmp_path):
    """Bug of its kind: a lookup that left the tokenizer's revision out of its hash."""
    body = json.loads(Path(f"{inputs[1]}/tokenizer.json").read_text())
    body["model"]["merges"] = body["model"]["merges"][:-1]  # same vocabulary, one merge less
    (tmp_path / "bpe").mkdir()
    (tmp_path / "bpe/tokenizer.json").write_text(json.dumps(body))
    config = CacheConfig(documents=inputs[0], tokenizer=str(tmp_path / "bpe"))
    assert token_cache(config, DirectoryOut(tmp_path / "s")).fingerprint != cached[1].fingerprint


def test_token_cache_other_grouping_of_work_gives_the_same_bytes(inputs, cached, tmp_path):
    config = CacheConfig(documents=inputs[0], tokenizer=inputs[1], cells_per_shard=1)
    token_cache(config, DirectoryOut(tmp_path))
    for file in Path(cached[0]).rglob("*"):
        if file.is_file():
            assert (tmp_path / file.relative_to(cached[0])).read_bytes() == file.read_bytes(), file


class Interrupted(Exception):
    pass


class DyingOut(DirectoryOut):
    """Keeps the results of shards that ended, like the engine, and dies at the third shard of its first attempt."""

    def __init__(self, path: Path):
        super().__init__(path)
        self.done: dict = {}
        self.ran: list[str] = []
        self.die = True

    def map_shards(self, fn, items, *, cpus: float = 1):
        for name, item in items.items():
            if name in self.done:
                continue
            if self.die and len(self.done) == 2:
                raise Interrupted
            self.ran.append(name)
            self.done.update(super().map_shards(fn, {name: item}, cpus=cpus))
        return {name: self.done[name] for name in items}


def test_token_cache_killed_between_shards_goes_on_with_the_rest(inputs, cached, tmp_path):
    out = DyingOut(tmp_path)
    config = CacheConfig(documents=inputs[0], tokenizer=inputs[1], cells_per_shard=1)
    with pytest.raises(Interrupted):
        token_cache(config, out)
    with pytest.raises(StepFailed, match=r"index\.json: not there"):
        read_index(str(tmp_path))  # half a store is not a store
    out.die = False
    assert token_cache(config, out) == cached[1]
    assert out.ran == ["cells-0000", "cells-0001", "cells-0002", "cells-0003"]  # none twice


def test_token_cache_missing_cell_is_an_error(inputs, tmp_path):
    """Bug of another chain: a cache that was not there was skipped without a word."""
    fewer = tmp_path / "cells"
    shutil.copytree(inputs[0], fewer)
    shutil.rmtree(fewer / "c00q4")
    config = CacheConfig(documents=str(fewer), tokenizer=inputs[1], expected_cells=("c00q0", "c00q4", "c01q2", "c10q1"))
    with pytest.raises(StepFailed, match=r"groups \['c00q4'\] are missing"):
        token_cache(config, DirectoryOut(tmp_path / "s"))
    (fewer / "c00q4").mkdir()  # there, but without documents
    with pytest.raises(StepFailed, match=r"c00q4: no part-\*\.parquet"):
        token_cache(config, DirectoryOut(tmp_path / "s"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer": "/nowhere"}, "tokenize/train_bpe or tokenize/adopt is needed"),
        ({"documents": "/nowhere"}, "no subdirectory"),
    ],
)
def test_token_cache_input_that_is_not_there_is_refused(inputs, tmp_path, changes, message):
    config = dataclasses.replace(CacheConfig(documents=inputs[0], tokenizer=inputs[1]), **changes)
    with pytest.raises(StepFailed, match=message):
        token_cache(config, DirectoryOut(tmp_path))


@pytest.mark.parametrize("groups", [("web", "web/en"), ("web/en",)])
def test_group_names_group_inside_another_is_refused_and_not_left_out(tmp_path, groups):
    """A source "web/en" beside "web": its held-out documents would be in no evaluation, and nobody would know."""
    documents = write_groups(tmp_path, {name: [f"text of {name}"] for name in groups})
    with pytest.raises(StepFailed, match=r"'web' has the directory 'en' in it; .* such as \"web-en\""):
        group_names(documents)


@pytest.mark.parametrize("damage", ["ledger", "document", "tokens", "index", "cell"])
def test_read_cell_damaged_store_is_an_error(cached, tmp_path, damage):
    shutil.copytree(cached[0], tmp_path, dirs_exist_ok=True)
    cell = tmp_path / "cells/c00q0/train"
    if damage == "ledger":
        (cell / "shard_ledger.json").unlink()
    elif damage == "document":
        shutil.copy(tmp_path / "documents/c00q4.parquet", tmp_path / "documents/c00q0.parquet")
    elif damage == "tokens":
        shutil.rmtree(cell)
        shutil.copytree(tmp_path / "cells/c00q4/train", cell)
    elif damage == "index":
        index = tmp_path / "index.json"
        index.write_text(index.read_text().replace('"begin_token": 0', '"begin_token": 3'))
    else:
        shutil.rmtree(cell)
    with pytest.raises(StepFailed):
        read_cell(str(tmp_path), "c00q0")
    if damage != "index":
        read_cell(str(tmp_path), "c01q2")


def test_read_cell_unknown_cell_lists_those_there_are(cached):
    with pytest.raises(StepFailed, match=r"no cell 'c99q9'; it has \['c00q0', 'c00q4'"):
        read_cell(cached[0], "c99q9")


def test_read_documents_needs_no_tokens(cached, tmp_path):
    shutil.copytree(cached[0], tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "cells")
    table, cell = read_documents(str(tmp_path), "c00q0"), read_cell(cached[0], "c00q0")
    assert table["num_tokens"].to_pylist() == np.diff(cell.offsets).tolist()
    assert table["id"].to_pylist() == cell.document_ids


def test_read_cell_from_a_filesystem_that_tensorstore_does_not_know(cached):
    memory = fsspec.filesystem("memory")
    memory.put(cached[0] + "/", "/token-store-test/", recursive=True)
    try:
        there, here = read_cell("memory://token-store-test", "c10q1"), read_cell(cached[0], "c10q1")
        assert np.array_equal(there.tokens, here.tokens) and there.document_ids == here.document_ids
    finally:
        memory.rm("/token-store-test", recursive=True)
