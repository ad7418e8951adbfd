"""Multiple-choice items against NumPy and against the harness's rules, and exported weights against the checkpoint's."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from marin_exec import StepFailed
from steps.evaluate.choice_scoring import choice_row
from steps.evaluate.multiple_choice import MultipleChoiceConfig, evaluate_multiple_choice
from steps.model.config import ModelConfig
from steps.model.mesh import device_mesh
from steps.model.parameters import initial_parameters
from steps.tokenize.tokenizer import BEGIN_TOKEN, END_TOKEN, load_tokenizer
from steps.train.checkpoints import save_state
from steps.train.export import ExportConfig, export_checkpoint, load_export
from steps.train.history import History
from steps.train.step import TrainState
from tests.directory_out import DirectoryOut
from tests.steps.model import numpy_model

MODEL = ModelConfig(
    width=16,
    num_layers=2,
    num_heads=2,
    vocabulary_size=300,
    sequence_length=8,
    num_experts=4,
    expert_width=8,
    shared_width=8,
)
BETAS = np.random.default_rng(9).normal(size=(2, 4)).astype(np.float32) * 0.3
ITEMS = [
    {"context": "red or", "choices": [" blue", " green"], "answer": 1},
    {"context": "a very long context", "choices": [" no", " yes!", " b"], "answer": 0},
    {"context": "", "choices": ["x", "yz"], "answer": 0},
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> str:
    """A byte for a token: a text has as many tokens as bytes."""
    folder = tmp_path_factory.mktemp("tokenizer")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    made.pre_tokenizer, made.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        decoders.ByteLevel(),
    )
    made.add_special_tokens([BEGIN_TOKEN, END_TOKEN])
    made.save(str(folder / "tokenizer.json"))
    return str(folder)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("run")
    path = str(folder / "checkpoints/step-7")
    with jax.set_mesh(device_mesh()):
        state = TrainState(jax.tree.map(jax.numpy.asarray, initial_parameters(MODEL, 1)), (), jax.numpy.asarray(BETAS))
        with History(DirectoryOut(folder), {}, ()) as history:
            save_state(path, state, 7, MODEL, history)
    return path


def log_likelihood(tokens: list[int], counted: int) -> float:
    """Of the last `counted` tokens, in float64."""
    row = np.array([tokens])
    padded = np.zeros((1, 8), np.int64)
    padded[:, : len(tokens) - 1] = row[:, :-1]
    segments = np.where(np.arange(8)[None] < len(tokens) - 1, 0, -1)
    parameters = initial_parameters(MODEL, 1)
    hidden, _ = numpy_model.hidden_states(parameters, BETAS, padded, segments, MODEL, None)
    logits = hidden[0, : len(tokens) - 1] @ np.asarray(parameters["lm_head"], np.float64)
    each = logits[np.arange(len(tokens) - 1), tokens[1:]] - np.log(np.exp(logits).sum(-1))
    return float(each[-counted:].sum())


def test_multiple_choice_log_likelihoods_equal_numpy(checkpoint, tokenizer, tmp_path):
    items = tmp_path / "items.jsonl"
    items.write_text("".join(json.dumps(item) + "\n" for item in ITEMS))
    out = DirectoryOut(tmp_path / "out")
    result = evaluate_multiple_choice(
        MultipleChoiceConfig(checkpoint=checkpoint, tokenizer=tokenizer, items=str(items)), out
    )
    rows = [json.loads(line) for line in (tmp_path / "out/items.jsonl").read_text().splitlines()]
    loaded = load_tokenizer(tokenizer)
    for item, row in zip(ITEMS, rows, strict=True):
        for choice, found in zip(item["choices"], row["log_likelihoods"], strict=True):
            tokens = [loaded.begin, *loaded.tokenizer.encode(item["context"] + choice).ids][-9:]
            assert found == pytest.approx(log_likelihood(tokens, len(choice)), abs=1e-4)
        best = int(np.argmax(row["log_likelihoods"]))
        per_character = [v / len(c) for v, c in zip(row["log_likelihoods"], item["choices"], strict=True)]
        assert (row["chosen"], row["chosen_norm"]) == (best, int(np.argmax(per_character)))
    right = [row["chosen"] == item["answer"] for row, item in zip(rows, ITEMS, strict=True)]
    assert result.step == 7 and result.num_items == 3 and result.accuracy == pytest.approx(np.mean(right))
    assert result.chance == pytest.approx((1 / 2 + 1 / 3 + 1 / 2) / 3)
    assert result.standard_error == pytest.approx(np.std(right, ddof=1) / np.sqrt(3))
    assert result.answer_loss == pytest.approx(
        -np.mean([r["log_likelihoods"][i["answer"]] for r, i in zip(rows, ITEMS, strict=True)])
    )


def test_choice_row_cuts_the_context_at_its_front_and_counts_the_choice(tokenizer):
    loaded = load_tokenizer(tokenizer)
    row = choice_row(loaded, "0123456789", "ab", 8, "here")
    assert loaded.tokenizer.decode(row.tokens.tolist()) == "3456789ab" and row.mask.tolist() == [False] * 6 + [True] * 2
    short = choice_row(loaded, "0", "ab", 8, "here")
    assert short.tokens[0] == loaded.begin and short.segment_ids.tolist() == [0] * 4 + [-1] * 5
    assert short.mask.tolist() == [False, True, True] + [False] * 5
    with pytest.raises(StepFailed, match="here: 9 tokens after the context; 1 to 8 are needed"):
        choice_row(loaded, "0", "abcdefghi", 8, "here")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is no item"),
        ('{"context": "a", "choices": ["b", "c"]}', "line 2 is no item .KeyError: 'answer'"),
        ('{"context": "a", "choices": ["b"], "answer": 0}', "line 2 has 1 choices"),
        ('{"context": "a", "choices": ["b", "c"], "answer": 2}', "answer 2; two or more"),
    ],
)
def test_multiple_choice_line_that_is_no_item_is_named(tokenizer, tmp_path, line, message):
    (tmp_path / "items.jsonl").write_text(json.dumps(ITEMS[0]) + "\n" + line + "\n")
    config = MultipleChoiceConfig(checkpoint="unread", tokenizer=tokenizer, items=str(tmp_path / "items.jsonl"))
    with pytest.raises(StepFailed, match=message):
        evaluate_multiple_choice(config, DirectoryOut(tmp_path / "out"))


def test_export_and_load_gives_the_checkpoints_model(checkpoint, tokenizer, tmp_path):
    from safetensors.numpy import load_file

    result = export_checkpoint(ExportConfig(checkpoint=checkpoint, tokenizer=tokenizer), DirectoryOut(tmp_path))
    model, parameters, qb_betas = load_export(str(tmp_path))
    assert model == MODEL and result.step == 7
    expected = initial_parameters(MODEL, 1)
    assert jax.tree.structure(parameters) == jax.tree.structure(expected)
    for found, wanted in zip(jax.tree.leaves(parameters), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert result.parameters == sum(leaf.size for leaf in jax.tree.leaves(expected))
    np.testing.assert_allclose(
        qb_betas - qb_betas.mean(1, keepdims=True), BETAS - BETAS.mean(1, keepdims=True), atol=1e-6
    )
    names = load_file(tmp_path / "model.safetensors")
    assert names["router_bias"].shape == (2, 4) and result.bytes == (tmp_path / "model.safetensors").stat().st_size
    assert (tmp_path / "tokenizer.json").read_bytes() == Path(tokenizer, "tokenizer.json").read_bytes()


def test_export_twice_gives_the_same_bytes(checkpoint, tmp_path):
    for name in ("a", "b"):
        export_checkpoint(ExportConfig(checkpoint=checkpoint), DirectoryOut(tmp_path / name))
    files = ("model.safetensors", "config.json")
    assert all((tmp_path / "a" / each).read_bytes() == (tmp_path / "b" / each).read_bytes() for each in files)


def test_export_of_other_arrays_is_refused(checkpoint, tmp_path):
    export_checkpoint(ExportConfig(checkpoint=checkpoint), DirectoryOut(tmp_path))
    described = json.loads((tmp_path / "config.json").read_text())
    described["model"]["expert_width"] = 4
    (tmp_path / "config.json").write_text(json.dumps(described))
    with pytest.raises(StepFailed, match="layers/expert_down, layers/expert_gate, layers/expert_up are not the arrays"):
        load_export(str(tmp_path))
