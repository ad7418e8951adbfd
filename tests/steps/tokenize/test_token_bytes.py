"""Bytes of targets against the text itself, written out byte by byte."""

import shutil

import numpy as np
import pytest
from tokenizers import Tokenizer

from marin_exec import StepFailed
from steps.documents import read_all
from steps.mix.evaluation_sets import evaluation_batches
from steps.tokenize.bpe import BpeConfig, train_bpe
from steps.tokenize.cache import CacheConfig, token_cache
from steps.tokenize.store import read_cell
from steps.tokenize.token_bytes import read_token_bytes, write_token_bytes
from tests.directory_out import DirectoryOut
from tests.steps.tokenize.document_groups import real_texts, write_groups

FOREIGN = ["Grüße, Ærøskøbing — naïve café", "日本語のテキスト 東京", "\x00\x7f controls\r\n\ttabs", "𝔘𝔫𝔦 🙂🙂 ok", "x"]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> tuple[str, str]:
    root = tmp_path_factory.mktemp("inputs")
    texts = real_texts(20)
    documents = write_groups(root / "sets", {"manual": texts[:12], "foreign": [*FOREIGN, *texts[12:]]})
    train_bpe(BpeConfig(documents=documents, vocabulary_size=400), DirectoryOut(root / "bpe"))
    return documents, str(root / "bpe")


@pytest.fixture(scope="module", params=[(True, False), (True, True), (False, True)], ids=["begin", "both", "end"])
def store(inputs, tmp_path_factory, request):
    begin, end = request.param
    path = tmp_path_factory.mktemp("store")
    token_cache(CacheConfig(documents=inputs[0], tokenizer=inputs[1], begin=begin, end=end), DirectoryOut(path))
    return str(path)


def bytes_by_token(tokenizer: str) -> dict[int, bytes]:
    """Bytes of each token, from the alphabet's rule: printable Latin-1 stands for itself, the rest follows from 256 on."""
    itself = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in itself]
    byte_of = {chr(byte): byte for byte in itself} | {chr(256 + i): byte for i, byte in enumerate(rest)}
    vocabulary = Tokenizer.from_file(f"{tokenizer}/tokenizer.json").get_vocab()
    return {n: b"" if name.startswith("<|") else bytes(byte_of[c] for c in name) for name, n in vocabulary.items()}


@pytest.mark.parametrize("num_sequences", [1, 2, 7, None])
def test_target_bytes_of_any_front_of_a_set_are_those_of_its_text(inputs, store, num_sequences):
    written = bytes_by_token(inputs[1])
    for name, each in evaluation_batches(store, 24).items():
        mask = each.loss_mask[:num_sequences]
        targets = each.tokens[:num_sequences, 1:][mask]
        scored = b"".join(written[int(token)] for token in targets)
        text = "".join(read_all(f"{inputs[0]}/{name}", ["text"])["text"].to_pylist()).encode()
        missing = len(written[int(each.tokens[0, 0])])  # without begin tokens the first token is nobody's target
        assert text[missing:].startswith(scored)
        assert int(each.target_bytes[:num_sequences][mask].sum()) == len(scored)
        if num_sequences is None:
            assert each.num_bytes == len(scored) == len(text) - missing


def test_target_bytes_of_special_tokens_are_none(store):
    lengths = read_token_bytes(store)
    assert lengths[:2].tolist() == [0, 0] and (lengths[2:] > 0).all() and lengths.dtype == np.int32


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("gone", r"token_bytes\.npy: not there; run tokenize/cache again"),
        ("cut", r"token_bytes\.npy: not an array"),
        ("short", "bytes of tokens 0 to 29 are known"),
        ("other", r"stand for \d+ bytes, its text has \d+"),
    ],
)
def test_target_bytes_that_do_not_fit_the_documents_are_refused(store, tmp_path, damage, message):
    shutil.copytree(store, tmp_path, dirs_exist_ok=True)
    file, lengths = tmp_path / "token_bytes.npy", read_token_bytes(store)
    if damage == "gone":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:100])
    elif damage == "short":
        write_token_bytes(str(file), lengths[:30])
    else:
        lengths[read_cell(store, "manual").tokens[1]] += 1
        write_token_bytes(str(file), lengths)
    with pytest.raises(StepFailed, match=message):
        evaluation_batches(str(tmp_path), 24)


def test_token_cache_tokenizer_that_loses_bytes_is_refused(inputs, tmp_path):
    from tokenizers import normalizers

    tokenizer = Tokenizer.from_file(f"{inputs[1]}/tokenizer.json")
    tokenizer.normalizer = normalizers.NFKC()
    (tmp_path / "bpe").mkdir()
    tokenizer.save(str(tmp_path / "bpe/tokenizer.json"))
    config = CacheConfig(documents=inputs[0], tokenizer=str(tmp_path / "bpe"))
    with pytest.raises(StepFailed, match=r"cell foreign: .* must be byte-level and leave texts"):
        token_cache(config, DirectoryOut(tmp_path / "store"))
