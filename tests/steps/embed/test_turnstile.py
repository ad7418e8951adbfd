"""Requests that go out side by side: how many, how soon, and what one of them is told holds for all."""

import threading

import httpx
import numpy as np
import pytest

from marin_exec import ConfigError, StepFailed
from steps.embed.encoders import HttpEncoder, encode
from steps.embed.endpoint import Patience, Turnstile, post_json
from tests.steps.embed.model_server import Answer, model_server
from tests.steps.embed.test_remote import encoder, openai_answer, unit, vector_of


class Clock:
    def __init__(self):
        self.now = 100.0
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


def test_turnstile_lets_so_many_through_a_second():
    clock = Clock()
    turnstile = Turnstile(4.0, clock.sleep, lambda: clock.now)
    passed = []
    for _ in range(9):
        turnstile.enter()
        passed.append(clock.now)
    np.testing.assert_allclose(np.diff(passed), 0.25)


def test_turnstile_that_is_closed_lets_nobody_through_before_the_longest_wait_ends():
    clock = Clock()
    turnstile = Turnstile(None, clock.sleep, lambda: clock.now)
    turnstile.enter()
    assert clock.slept == []
    turnstile.close_for(7.0)
    turnstile.close_for(2.0)
    turnstile.enter()
    assert clock.now == 107.0


def test_wait_that_one_request_is_told_closes_the_turnstile_for_all():
    clock = Clock()
    turnstile = Turnstile(None, clock.sleep, lambda: clock.now)
    patience = Patience(max_attempts=1, backoff_seconds=0.1, timeout_seconds=5.0)
    answers = [Answer({}, 429, {"Retry-After": "9"}), Answer([1])]
    with model_server(lambda path, body, number: answers[number]) as server, httpx.Client() as client:
        with pytest.raises(StepFailed, match="after 1 tries"):
            post_json(client, server.url, {}, patience, clock.sleep, turnstile)
        assert post_json(client, server.url, {}, patience, clock.sleep, turnstile) == [1]
    assert clock.now == 109.0


@pytest.mark.parametrize("max_in_flight", [1, 3])
def test_no_more_requests_are_open_than_allowed_and_vectors_stand_with_their_texts(max_in_flight):
    texts = [f"{'a' * (number % 5)} {number}" for number in range(24)]
    open_now, most, lock = 0, 0, threading.Lock()
    full = threading.Event()

    def answer(path, body, number):
        nonlocal open_now, most
        with lock:
            open_now += 1
            most = max(most, open_now)
            if most == max_in_flight:
                full.set()
        full.wait(5)  # so that all that may be open at once are
        with lock:
            open_now -= 1
        return openai_answer(path, body, number)

    with model_server(answer) as server:
        vectors = encode(encoder(server.url, max_in_flight=max_in_flight), texts)
    assert most == max_in_flight
    np.testing.assert_allclose(vectors, unit([vector_of(text) for text in texts]), atol=1e-6)


def test_after_a_refusal_what_waits_is_not_asked():
    def answer(path, body, number):
        return Answer({"error": "no such key"}, 401)

    with model_server(answer) as server, pytest.raises(StepFailed, match="no such key"):
        encode(encoder(server.url, max_in_flight=2, batch_size=1), ["x"] * 200)
    assert len(server.requests) < 50


def test_payload_too_large_says_what_to_lower():
    with model_server(lambda path, body, number: Answer({}, 413)) as server:
        with pytest.raises(StepFailed, match="batch_size"):
            encode(encoder(server.url), ["x"])


def tei(revision):
    def answer(path, body, number):
        if path == "/info":
            return Answer({"model_id": "m", "model_sha": revision})
        return Answer([vector_of(text) for text in body["inputs"]])

    return answer


def test_server_of_another_revision_is_refused_before_anything_is_embedded():
    with model_server(tei("beef")) as server:
        with pytest.raises(StepFailed, match="serves revision beef where c0ffee"):
            encode(encoder(server.url, api="tei", revision="c0ffee"), ["x"])
        assert [path for path, _, _ in server.requests] == ["/info"]
        assert encode(encoder(server.url, api="tei", revision="beef"), ["x"]).shape == (1, 3)


@pytest.mark.parametrize("changes", [{"max_in_flight": 0}, {"max_requests_per_second": 0.0}])
def test_bounds_out_of_range_are_refused(changes):
    with pytest.raises(ConfigError, match=next(iter(changes))):
        HttpEncoder(url="http://x", model="m", dimensions=3, **changes)
