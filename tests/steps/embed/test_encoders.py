import sys

import numpy as np
import pytest

from marin_exec import ConfigError, Step, StepFailed
from marin_exec.identity import identify
from steps.documents import NamedInput
from steps.embed.documents import EmbedConfig, embed_documents
from steps.embed.encoders import HttpEncoder, SentenceTransformers, encode, unit_vectors


def test_sentence_transformers_not_installed_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ConfigError, match=r"install it .* MiniLm, StaticTable or HttpEncoder"):
        encode(SentenceTransformers(model="a/b", revision="c"), ["x"])


def test_sentence_transformers_gets_the_pinned_revision_and_the_prompt(monkeypatch):
    calls = []

    class Module:
        class SentenceTransformer:
            def __init__(self, name, revision, device):
                calls.append((name, revision, device))

            def encode(self, texts, batch_size, show_progress_bar):
                calls.append((texts, batch_size, self.max_seq_length))
                return [[3.0, 4.0] for _ in texts]

    monkeypatch.setitem(sys.modules, "sentence_transformers", Module)
    encoder = SentenceTransformers(model="a/b", revision="c0ffee", prompt="p: ", max_tokens=9, batch_size=4)
    np.testing.assert_allclose(encode(encoder, ["x", "y"]), [[0.6, 0.8]] * 2, atol=1e-7)
    assert calls == [("a/b", "c0ffee", "cpu"), (["p: x", "p: y"], 4, 9)]


def test_something_that_is_no_encoder_is_refused():
    with pytest.raises(ConfigError, match="StaticTable, MiniLm"):
        encode("minilm", ["x"])


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_unit_vectors_bad_row_is_named(bad):
    vectors = np.ones((3, 2), dtype=np.float32)
    vectors[1] = bad
    with pytest.raises(StepFailed, match="row 1"):
        unit_vectors(vectors)


def test_where_an_endpoint_is_and_how_it_is_asked_is_not_identity_but_its_model_is():
    sources = (NamedInput(name="web", path="/documents/web"),)

    def digest(**changes):
        encoder = HttpEncoder(**{"url": "http://one", "model": "m", "dimensions": 3, **changes})
        [identity] = identify([Step("embed", embed_documents, EmbedConfig(sources=sources, encoder=encoder))]).values()
        return identity.digest

    moved = digest(
        url="http://two", batch_size=9, max_attempts=1, backoff_seconds=9.0, api_key_env="K", max_in_flight=9
    )
    assert moved == digest(max_requests_per_second=1.0) == digest()
    others = {"model": "n", "dimensions": 4, "prompt": "p", "int8_range": 0.5, "revision": "c0ffee"}
    assert len({digest(), *(digest(**{name: value}) for name, value in others.items())}) == 6
