"""Reading excerpts by asking a chat model: the endpoint, one document's asks, and what counts as an answer."""

import json
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import httpx

from marin_exec import ShardOut, StepFailed, runtime
from steps.config_checks import check_number
from steps.embed.endpoint import Patience, api_headers, post_json
from steps.quality.excerpts import Excerpt
from steps.quality.labels import Label, parse_judgement


@dataclass(frozen=True, kw_only=True)
class ChatModel:
    """A chat completion endpoint in OpenAI's form (vLLM, llama.cpp, TGI, OpenAI and others serve it)."""

    model: str
    """Model name as the server knows it."""
    url: Annotated[str, runtime]
    """What comes before `/chat/completions`, e.g. "http://localhost:8000/v1"."""
    temperature: float = 0.0
    """0 asks for the likeliest answer."""
    max_tokens: int = 400
    """Of one answer, thoughts included where the model writes them."""
    api_key_env: Annotated[str, runtime] = ""
    """Environment variable that holds the key; empty sends none."""
    max_attempts: Annotated[int, runtime] = 8
    """Tries of one request before the step fails."""
    backoff_seconds: Annotated[float, runtime] = 1.0
    """Wait before the second try; doubled for each further one, up to two minutes. `Retry-After` is honoured."""
    timeout_seconds: Annotated[float, runtime] = 120.0
    """For one request."""

    def __post_init__(self) -> None:
        check_number(self, "temperature", "backoff_seconds", low=0)
        check_number(self, "max_tokens", "max_attempts", low=1)
        check_number(self, "timeout_seconds", above=0)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What one document's reading came to."""

    id: str
    label: Label | None
    """None if no answer was well-formed."""
    malformed: int
    """Malformed answers before it."""
    problem: str
    """What was wrong with the last malformed answer; empty if none was."""


@dataclass(frozen=True, kw_only=True)
class ReadShard:
    """Excerpts that one task reads."""

    excerpts: tuple[Excerpt, ...]
    chat: ChatModel
    rubric: str
    max_asks: int


def parse_answer(text: str) -> tuple[int, str, str]:
    """Returns (score, content type, reason) from a model's answer: its last JSON object, whatever stands around it.

    Raises:
        ValueError: there is none, or it breaks the rubric's form; the message says how.
    """
    decoder = json.JSONDecoder()
    found: Any = None
    place = text.find("{")
    while place >= 0:
        try:
            found, end = decoder.raw_decode(text, place)
            place = text.find("{", end)
        except json.JSONDecodeError:
            place = text.find("{", place + 1)
    if found is None:
        raise ValueError(f"no JSON object in {text[:80]!r}")
    return parse_judgement(found)


def read_excerpt(client: httpx.Client, item: ReadShard, excerpt: Excerpt) -> Reading:
    """Asks for one excerpt's label, again with the problem named after a malformed answer.

    Raises:
        StepFailed: the server refused, did not answer, or answered in another form than OpenAI's.
    """
    url = f"{item.chat.url.rstrip('/')}/chat/completions"
    patience = Patience(
        max_attempts=item.chat.max_attempts,
        backoff_seconds=item.chat.backoff_seconds,
        timeout_seconds=item.chat.timeout_seconds,
    )
    messages = [{"role": "system", "content": item.rubric}, {"role": "user", "content": excerpt.excerpt}]
    problem = ""
    for asked in range(item.max_asks):
        payload = {
            "model": item.chat.model,
            "messages": messages,
            "temperature": item.chat.temperature,
            "max_tokens": item.chat.max_tokens,
        }
        text = _answer_text(post_json(client, url, payload, patience), url)
        try:
            score, content_type, reason = parse_answer(text)
        except ValueError as error:
            problem = str(error)
            # Only the last malformed answer goes along, so that the request does not grow with every ask.
            again = f"That answer could not be used: {problem}. Answer with the one JSON object of the rubric and nothing else."
            messages = [*messages[:2], {"role": "assistant", "content": text}, {"role": "user", "content": again}]
            continue
        label = Label(id=excerpt.id, score=score, content_type=content_type, reason=reason, reader=item.chat.model)
        return Reading(id=excerpt.id, label=label, malformed=asked, problem=problem)
    return Reading(id=excerpt.id, label=None, malformed=item.max_asks, problem=problem)


def _answer_text(answer: Any, url: str) -> str:
    try:
        content = answer["choices"][0]["message"]["content"] or ""
        if isinstance(content, list):  # some servers answer in parts
            content = "".join(part.get("text", "") for part in content)
        return str(content)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise StepFailed(
            f"POST {url}: the answer has no choices[0].message.content, but {str(answer)[:200]}"
        ) from error


def read_shard(item: ReadShard, shard: ShardOut) -> list[dict[str, Any]]:
    """Reads the excerpts of one shard; returns the readings."""
    with httpx.Client(headers=api_headers(item.chat.api_key_env)) as client:
        readings = [read_excerpt(client, item, excerpt) for excerpt in item.excerpts]
    shard.progress(f"read {len(readings)} excerpts")
    return [asdict(reading) for reading in readings]
