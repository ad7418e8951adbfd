"""Vectors from an embedding server: batches, a bounded number of them in flight, each put where its texts stand."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np

from marin_exec.errors import StepFailed
from steps.embed.encoders import HttpEncoder
from steps.embed.endpoint import Patience, Turnstile, api_headers, post_json, request_json


def embed_texts(encoder: HttpEncoder, texts: list[str]) -> np.ndarray:
    """Returns one vector a text, float32[n, dimensions], as the server gives them.

    Raises:
        ConfigError: the key's variable is not set.
        StepFailed: the server refused, did not answer, or answered with another number or length of vectors.
    """
    patience = Patience(
        max_attempts=encoder.max_attempts,
        backoff_seconds=encoder.backoff_seconds,
        timeout_seconds=encoder.timeout_seconds,
    )
    turnstile = Turnstile(encoder.max_requests_per_second)
    vectors = np.zeros((len(texts), encoder.dimensions), dtype=np.float32)
    starts = range(0, len(texts), encoder.batch_size)
    with (
        httpx.Client(headers=api_headers(encoder.api_key_env)) as client,
        ThreadPoolExecutor(encoder.max_in_flight) as threads,
    ):
        _check_revision(encoder, client, patience)

        def embed_batch(start: int) -> None:
            batch = [encoder.prompt + text for text in texts[start : start + encoder.batch_size]]
            vectors[start : start + len(batch)] = _embed_batch(encoder, client, batch, patience, turnstile)

        tasks = [threads.submit(embed_batch, start) for start in starts]
        try:
            for task in tasks:
                task.result()
        finally:
            for task in tasks:  # after a failure those that wait for their turn are not asked any more
                task.cancel()
    return vectors


def _check_revision(encoder: HttpEncoder, client: httpx.Client, patience: Patience) -> None:
    """Raises StepFailed where a text-embeddings-inference server says that it serves another commit of the model."""
    if encoder.api != "tei" or not encoder.revision:
        return
    url = f"{encoder.url.rstrip('/')}/info"
    served = request_json(client, "GET", url, patience).get("model_sha")
    if served is not None and served != encoder.revision:
        raise StepFailed(
            f"GET {url}: the server serves revision {served} where {encoder.revision} was asked for; start it with that "
            f"one, or state the one it serves"
        )


def _embed_batch(
    encoder: HttpEncoder, client: httpx.Client, batch: list[str], patience: Patience, turnstile: Turnstile
) -> np.ndarray:
    base = encoder.url.rstrip("/")
    if encoder.api == "tei":
        url = f"{base}/embed"
        rows = post_json(
            client, url, {"inputs": batch, "truncate": True, "normalize": True}, patience, turnstile=turnstile
        )
    else:
        url = f"{base}/embeddings"
        answer = post_json(client, url, {"model": encoder.model, "input": batch}, patience, turnstile=turnstile)
        rows = _openai_rows(answer, url)
    try:
        vectors = np.asarray(rows, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise StepFailed(f"POST {url}: the answer's vectors are ragged or not numbers ({error})") from error
    if vectors.shape != (len(batch), encoder.dimensions):
        raise StepFailed(
            f"POST {url}: vectors of shape {vectors.shape} where ({len(batch)}, {encoder.dimensions}) was expected: set "
            f"`dimensions` to the model's"
        )
    return vectors


def _openai_rows(answer: Any, url: str) -> list[Any]:
    try:
        # The order of the answer's entries is not promised; `index` says which text each belongs to.
        return [each["embedding"] for each in sorted(answer["data"], key=lambda each: each["index"])]
    except (KeyError, TypeError) as error:
        raise StepFailed(
            f"POST {url}: the answer has no data[].embedding and data[].index, but {str(answer)[:200]}"
        ) from error
