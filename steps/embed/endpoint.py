"""JSON over HTTP to a model server, with a bounded number of tries.

Busy (429, 503) and broken (other 5xx, time-outs, closed connections) are tried again, waiting twice as long each time,
or as long as the server's `Retry-After` says. Every other refusal (a wrong key, a wrong model) fails at once: asking
again would not change the answer. Requests that go out side by side share a `Turnstile`, so that when one of them is
told to wait, none of the others hurries on.
"""

import email.utils
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from marin_exec.errors import ConfigError, StepFailed

MAX_WAIT_SECONDS = 120.0
_TRY_AGAIN = {408, 409, 425, 429}


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a request is tried."""

    max_attempts: int
    """Tries of one request in all."""
    backoff_seconds: float
    """Wait before the second try, doubled for each further one."""
    timeout_seconds: float
    """For one try."""


class Turnstile:
    """Lets requests of several threads through one by one: not before a wait that any was told, nor too many a second.

    Args:
        max_per_second: requests let through in a second; None does not count them.
        sleep: called to wait.
        clock: seconds, of any origin.
    """

    def __init__(
        self,
        max_per_second: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gap = 1 / max_per_second if max_per_second else 0.0
        self._sleep, self._clock = sleep, clock
        self._lock = threading.Lock()
        self._opens = float("-inf")

    def enter(self) -> None:
        """Returns when the next request may go out."""
        while True:
            with self._lock:
                now = self._clock()
                if now >= self._opens:
                    self._opens = now + self._gap
                    return
                wait = self._opens - now
            self._sleep(wait)

    def close_for(self, seconds: float) -> None:
        """Lets no request through for that long."""
        with self._lock:
            self._opens = max(self._opens, self._clock() + seconds)


def api_headers(api_key_env: str) -> dict[str, str]:
    """Returns the headers that authorise a request; none if `api_key_env` is empty.

    Raises:
        ConfigError: the variable is not set.
    """
    if not api_key_env:
        return {}
    key = os.environ.get(api_key_env)
    if not key:
        raise ConfigError(
            f"api_key_env {api_key_env!r}: that variable is not set; set it to the endpoint's key, or name none"
        )
    return {"Authorization": f"Bearer {key}"}


def retry_after_seconds(value: str | None, now: float) -> float | None:
    """Returns the wait that a `Retry-After` header asks for (seconds, or an HTTP date), or None if there is none.

    Args:
        value: the header.
        now: the time to measure a date from, in seconds since the epoch.
    """
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass  # not a number of seconds: the other form is a date
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now)
    except ValueError:
        return None


def post_json(
    client: httpx.Client,
    url: str,
    payload: Any,
    patience: Patience,
    sleep: Callable[[float], None] = time.sleep,
    turnstile: Turnstile | None = None,
) -> Any:
    """Posts a JSON value and returns the JSON answer; see `request_json`."""
    return request_json(client, "POST", url, patience, payload=payload, sleep=sleep, turnstile=turnstile)


def request_json(
    client: httpx.Client,
    method: str,
    url: str,
    patience: Patience,
    *,
    payload: Any = None,
    sleep: Callable[[float], None] = time.sleep,
    turnstile: Turnstile | None = None,
) -> Any:
    """Sends a request and returns the JSON answer.

    Args:
        client: its headers are sent along.
        method: "GET" or "POST".
        url: where to.
        payload: any JSON value; None sends no body.
        patience: number of tries and waits.
        sleep: called to wait before this request's next try.
        turnstile: shared with the requests that go out beside this one.

    Raises:
        StepFailed: refused, or still no answer at the last try; names the URL and the last answer.
    """
    last = ""
    for attempt in range(patience.max_attempts):
        if turnstile:
            turnstile.enter()
        wait = min(MAX_WAIT_SECONDS, patience.backoff_seconds * 2**attempt)
        try:
            answer = client.request(method, url, json=payload, timeout=patience.timeout_seconds)
            if answer.is_success:
                return answer.json()
            last = f"{answer.status_code} {answer.text[:300]}"
            if answer.status_code == 413:
                raise StepFailed(
                    f"{method} {url}: refused with {last}; lower the encoder's batch_size or max_characters"
                )
            if answer.status_code < 500 and answer.status_code not in _TRY_AGAIN:
                raise StepFailed(f"{method} {url}: refused with {last}; check the URL, the model's name and the key")
            asked = retry_after_seconds(answer.headers.get("Retry-After"), time.time())
            if asked is not None:
                wait = min(MAX_WAIT_SECONDS, max(asked, patience.backoff_seconds))
                if turnstile:
                    turnstile.close_for(wait)
        except httpx.TransportError as error:
            last = f"{type(error).__name__}: {error}"
        except ValueError as error:
            last = f"an answer that is not JSON ({error})"
        if attempt + 1 < patience.max_attempts:
            sleep(wait)
    raise StepFailed(
        f"{method} {url}: no answer after {patience.max_attempts} tries, the last: {last}; see that the server runs, "
        f"then run again"
    )
