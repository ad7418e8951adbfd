import numpy as np
import pytest

from marin_exec import ConfigError, StepFailed
from steps.embed.encoders import HttpEncoder, encode
from tests.steps.embed.model_server import Answer, model_server


def vector_of(text):
    return [float(len(text)), 1.0, float(text.count("a"))]


def unit(rows):
    array = np.array(rows, dtype=np.float64)
    return array / np.linalg.norm(array, axis=1, keepdims=True)


def encoder(url, **changes):
    values = {"url": url, "model": "m", "dimensions": 3, "batch_size": 2, "backoff_seconds": 0.001, "max_attempts": 3}
    return HttpEncoder(**{**values, **changes})


def openai_answer(path, body, number):
    rows = [{"index": place, "embedding": vector_of(text)} for place, text in enumerate(body["input"])]
    return Answer({"data": rows[::-1]})  # the order of entries is not promised


TEXTS = ["a", "bb", "aaa", "dddd", "eeeee"]


def test_openai_answers_out_of_order_go_to_their_texts():
    with model_server(openai_answer) as server:
        vectors = encode(encoder(f"{server.url}/v1"), TEXTS)
    np.testing.assert_allclose(vectors, unit([vector_of(text) for text in TEXTS]), atol=1e-6)
    assert [path for path, _, _ in server.requests] == ["/v1/embeddings"] * 3
    assert sorted(len(body["input"]) for _, body, _ in server.requests) == [1, 2, 2]
    assert server.requests[0][1]["model"] == "m"


def test_tei_server_gets_its_own_form_and_the_prompt():
    with model_server(lambda path, body, number: Answer([vector_of(text) for text in body["inputs"]])) as server:
        vectors = encode(encoder(server.url, api="tei", prompt="q: "), TEXTS)
    np.testing.assert_allclose(vectors, unit([vector_of(f"q: {text}") for text in TEXTS]), atol=1e-6)
    assert {path for path, _, _ in server.requests} == {"/embed"}
    assert server.requests[0][1]["truncate"] is True


def test_batch_size_does_not_change_the_vectors():
    with model_server(openai_answer) as server:
        one, five = (encode(encoder(server.url, batch_size=size), TEXTS) for size in (1, 5))
    np.testing.assert_array_equal(one, five)


def test_rate_limit_is_waited_for():
    def busy_first(path, body, number):
        return Answer({}, 429, {"Retry-After": "0"}) if number == 0 else openai_answer(path, body, number)

    with model_server(busy_first) as server:
        encode(encoder(server.url), TEXTS[:1])
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}, r"\(1, 2\) where \(1, 3\)"),
        ({"data": []}, "where"),
        ({"error": "model is loading"}, "model is loading"),
        ({"data": [{"index": 0, "embedding": [0.0, 0.0, 0.0]}]}, "zero or not finite"),
        (b'{"data": [{"index": 0, "embedding": [NaN, 1.0, 0.0]}]}', "zero or not finite"),
    ],
)
def test_answers_that_hold_no_usable_vectors_are_refused(value, message):
    with model_server(lambda path, body, number: Answer(value)) as server, pytest.raises(StepFailed, match=message):
        encode(encoder(server.url), ["text"])


def test_key_is_sent_and_a_missing_one_is_an_error(monkeypatch):
    monkeypatch.setenv("EMBED_KEY", "secret")
    with model_server(openai_answer) as server:
        encode(encoder(server.url, api_key_env="EMBED_KEY"), ["x"])
        assert server.requests[0][2]["Authorization"] == "Bearer secret"
        monkeypatch.delenv("EMBED_KEY")
        with pytest.raises(ConfigError, match="EMBED_KEY"):
            encode(encoder(server.url, api_key_env="EMBED_KEY"), ["x"])


def test_unknown_api_is_refused():
    with pytest.raises(ConfigError, match="one of 'openai', 'tei'"):
        encode(encoder("http://127.0.0.1:1", api="cohere"), ["x"])
