import httpx
import pytest

from marin_exec import ConfigError, StepFailed
from steps.embed.endpoint import MAX_WAIT_SECONDS, Patience, api_headers, post_json, retry_after_seconds
from tests.steps.embed.model_server import Answer, model_server

PATIENCE = Patience(max_attempts=4, backoff_seconds=0.5, timeout_seconds=5.0)


def ask(answers, patience=PATIENCE):
    waits = []
    with model_server(lambda path, body, number: answers[number]) as server, httpx.Client() as client:
        try:
            return post_json(client, f"{server.url}/x", {"a": 1}, patience, waits.append), waits, len(server.requests)
        except StepFailed as error:
            return error, waits, len(server.requests)


def test_post_first_answer_good_is_returned_without_waiting():
    assert ask([Answer({"ok": True})]) == ({"ok": True}, [], 1)


def test_post_server_errors_wait_twice_as_long_each_time():
    value, waits, asked = ask([Answer({}, 500), Answer({}, 502), Answer({}, 503), Answer([1])])
    assert (value, waits, asked) == ([1], [0.5, 1.0, 2.0], 4)


def test_post_rate_limit_waits_what_the_server_asks():
    _, waits, _ = ask([Answer({}, 429, {"Retry-After": "7"}), Answer([1])])
    assert waits == [7.0]


def test_post_rate_limit_of_an_hour_waits_at_most_two_minutes():
    _, waits, _ = ask([Answer({}, 429, {"Retry-After": "3600"}), Answer([1])])
    assert waits == [MAX_WAIT_SECONDS]


def test_post_rate_limit_of_zero_still_waits_so_that_tries_are_not_spent_at_once():
    _, waits, _ = ask([Answer({}, 429, {"Retry-After": "0"}), Answer([1])])
    assert waits == [0.5]


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_post_refusal_fails_at_once_and_says_with_what(status):
    error, waits, asked = ask([Answer({"error": "no such model"}, status)])
    assert isinstance(error, StepFailed)
    assert str(status) in str(error) and "no such model" in str(error)
    assert (waits, asked) == ([], 1)


def test_post_answer_that_is_not_json_is_asked_again():
    value, _, asked = ask([Answer(b"<html>bad gateway"), Answer([1])])
    assert (value, asked) == ([1], 2)


def test_post_never_answered_stops_after_the_tries_allowed():
    error, waits, asked = ask([Answer({}, 500)] * 9)
    assert isinstance(error, StepFailed) and "after 4 tries" in str(error)
    assert (len(waits), asked) == (3, 4)


def test_post_closed_port_is_tried_again_and_reported():
    waits = []
    with httpx.Client() as client, pytest.raises(StepFailed, match="ConnectError"):
        post_json(client, "http://127.0.0.1:1/x", {}, PATIENCE, waits.append)
    assert len(waits) == 3


def test_retry_after_date_is_measured_from_now():
    assert retry_after_seconds("Thu, 01 Jan 1970 00:01:00 GMT", now=20.0) == 40.0
    assert retry_after_seconds("Thu, 01 Jan 1970 00:01:00 GMT", now=99.0) == 0.0
    assert retry_after_seconds("soon", now=0.0) is None


def test_api_headers_unset_variable_is_named(monkeypatch):
    monkeypatch.delenv("SOME_KEY", raising=False)
    with pytest.raises(ConfigError, match="SOME_KEY"):
        api_headers("SOME_KEY")
    monkeypatch.setenv("SOME_KEY", "k")
    assert api_headers("SOME_KEY") == {"Authorization": "Bearer k"}
    assert api_headers("") == {}
