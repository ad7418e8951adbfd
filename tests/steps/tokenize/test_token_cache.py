import dataclasses
import json
import shutil
from pathlib import Path

import fsspec
import numpy as np
import pytest
from tokenizers import Tokenizer

from marin_exec import StepFailed
from steps.documents import read_all
from steps.tokenize.bpe import BEGIN_TOKEN, END_TOKEN, BpeConfig, train_bpe
from steps.tokenize.cache import CacheConfig, store_digest, token_cache
from steps.tokenize.store import (
    cell_names,
    check_begin_tokens,
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


@pytest.mark.parametrize("change", ["missing", "extra", "late"])
def test_check_begin_tokens_wrong_place_is_named(cached, change):
    cell = read_cell(cached[0], "c00q0")
    tokens = cell.tokens.copy()
    if change == "missing":
        tokens[cell.offsets[3]] = 5
    elif change == "extra":
        tokens[cell.offsets[3] + 1] = 0
    else:
        tokens[cell.offsets[3]], tokens[cell.offsets[3] + 1] = tokens[cell.offsets[3] + 1], 0
    check_begin_tokens(cell, 0, "here")
    with pytest.raises(StepFailed, match=f"document {cell.document_ids[3]}"):
        check_begin_tokens(dataclasses.replace(cell, tokens=tokens), 0, "here")


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
        ({"tokenizer": "/nowhere"}, "tokenize/train_bpe is needed"),
        ({"documents": "/nowhere"}, "no subdirectory"),
    ],
)
def test_token_cache_input_that_is_not_there_is_refused(inputs, tmp_path, changes, message):
    config = dataclasses.replace(CacheConfig(documents=inputs[0], tokenizer=inputs[1]), **changes)
    with pytest.raises(StepFailed, match=message):
        token_cache(config, DirectoryOut(tmp_path))


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
