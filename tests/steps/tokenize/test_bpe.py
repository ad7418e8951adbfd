import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from marin_exec import ConfigError, StepFailed
from steps.tokenize.bpe import BEGIN_TOKEN, END_TOKEN, BpeConfig, train_bpe
from tests.directory_out import DirectoryOut
from tests.steps.tokenize.document_groups import real_texts, write_groups


@pytest.fixture(scope="module")
def documents(tmp_path_factory) -> str:
    texts = real_texts(300)
    return write_groups(tmp_path_factory.mktemp("documents"), {"c00q0": texts[:200], "c01q3": texts[200:]})


@pytest.fixture(scope="module")
def trained(documents, tmp_path_factory):
    path = tmp_path_factory.mktemp("bpe")
    result = train_bpe(BpeConfig(documents=documents, vocabulary_size=1024), DirectoryOut(path))
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    return path, result, tokenizer


def round_trip(tokenizer: Tokenizer, text: str) -> list[str]:
    encoding = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(encoding.ids, skip_special_tokens=False) == text
    return encoding.tokens


def test_train_bpe_result_says_what_was_trained(trained, documents):
    _, result, tokenizer = trained
    assert result.vocabulary_size == tokenizer.get_vocab_size() == 1024
    assert result.training_documents == 300
    assert tokenizer.token_to_id(BEGIN_TOKEN) == result.begin_token == 0
    assert tokenizer.token_to_id(END_TOKEN) == result.end_token == 1
    sample = "def __init__(self, name):\n    return self.name\n"
    assert len(sample) / len(round_trip(tokenizer, sample)) > 1.8  # it learnt something
    assert 2.0 < result.bytes_per_token < 5.0


@pytest.mark.parametrize(
    "text",
    [
        "🙂👩‍👩‍👧‍👦🇨🇭",
        "漢字仮名交じり文と한국어",
        "ภาษาไทย हिन्दी עברית العربية",
        "\x00\x01\x1b[31m\x7f\u200b\ufeff\u2028",
        "\r\n\r\n\t \u00a0\u3000 x",
        "don't WE'LL it's 1234567890 3.14e-10",
        f"a text that quotes {BEGIN_TOKEN} and {END_TOKEN}",
        "e\u0301 \u00e9",  # not normalised: both forms come back as they were
        "x" * 10_000,
        "=" * 1_000 + "\n" * 1_000 + "-\n" * 100,
    ],
)
def test_tokenizer_hard_texts_come_back_whole(trained, text):
    tokens = round_trip(trained[2], text)
    assert BEGIN_TOKEN not in tokens and END_TOKEN not in tokens


@given(text=st.text(st.characters(exclude_categories=("Cs",)), max_size=300))
@settings(max_examples=150)
def test_tokenizer_any_text_comes_back_whole(trained, text):
    round_trip(trained[2], text)


@pytest.mark.parametrize(
    ("run", "size"),
    [
        (" ", 5_000_000),
        ("\n", 500_000),
        ("\t ", 500_000),
        ("a", 500_000),
        ("=", 500_000),
        ("\u3000", 300_000),
        ("7", 300_000),
    ],
)
def test_tokenizer_megabytes_of_one_run_take_seconds_not_hours(trained, run, size):
    """Bug of another chain: space runs of several megabytes, left by extraction, killed its tokenizer."""
    text = "before" + run * (size // len(run)) + "after"
    start = time.process_time()
    encoding = trained[2].encode(text, add_special_tokens=False)
    spent = time.process_time() - start
    assert trained[2].decode(encoding.ids, skip_special_tokens=False) == text
    assert spent < 20


def test_train_bpe_other_grouping_gives_the_same_bytes(trained, tmp_path):
    texts = real_texts(300)
    other = write_groups(
        tmp_path / "d", {"z": texts[::-2], "b": texts[-2::-2], "k": []} | {"k": texts[:0] or ["only here"]}, 17
    )
    same = write_groups(tmp_path / "e", {"one": [*texts, "only here"]})
    for name, path in (("x", other), ("y", same)):
        train_bpe(BpeConfig(documents=path, vocabulary_size=700), DirectoryOut(tmp_path / name))
    assert (tmp_path / "x/tokenizer.json").read_bytes() == (tmp_path / "y/tokenizer.json").read_bytes()


def test_train_bpe_other_threads_and_hash_seed_give_the_same_bytes(documents, trained, tmp_path):
    code = (
        "import sys; from pathlib import Path; from steps.tokenize.bpe import *\n"
        "sys.path.insert(0, 'tests'); from directory_out import DirectoryOut\n"
        "train_bpe(BpeConfig(documents=sys.argv[1], vocabulary_size=1024), DirectoryOut(Path(sys.argv[2])))\n"
    )
    root = Path(__file__).parents[3]
    for threads in ("1", "3"):
        environment = {"RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads, "PYTHONPATH": str(root), "PATH": ""}
        out = tmp_path / threads
        subprocess.run([sys.executable, "-c", code, documents, str(out)], env=environment, cwd=root, check=True)
        assert (out / "tokenizer.json").read_bytes() == (trained[0] / "tokenizer.json").read_bytes()


def test_train_bpe_training_bytes_takes_the_first_by_id(documents, tmp_path):
    config = BpeConfig(documents=documents, vocabulary_size=400, training_bytes=20_000)
    result = train_bpe(config, DirectoryOut(tmp_path))
    assert 15_000 < result.training_bytes <= 20_000 and result.training_documents < 60


def test_train_bpe_vocabulary_without_room_is_refused(documents, tmp_path):
    with pytest.raises(ConfigError, match="at least 258"):
        train_bpe(BpeConfig(documents=documents, vocabulary_size=257), DirectoryOut(tmp_path))


def test_train_bpe_no_documents_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(StepFailed, match="no subdirectory"):
        train_bpe(BpeConfig(documents=str(tmp_path / "empty"), vocabulary_size=300), DirectoryOut(tmp_path))
