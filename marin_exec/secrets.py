"""Keeps secrets out of what is stored and shown.

Text that a person may put anything into (messages, tracebacks, printed lines, command lines) goes through `redact` before
it leaves its process: what is stored is read by everybody who can read the store. What must not be altered, because a
digest stands for it (a config, a result), is refused instead: `secret_in` says what is wrong with it.

Known are the shapes that issuers document, URLs with credentials, `--api-key X` and `token=X`, and the values of this
process's environment variables whose names say that they are secret. A password that looks like a word and is in no
variable cannot be known.
"""

import functools
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

REDACTED = "[redacted]"
SHORTEST_VALUE = 8
"""Characters of an environment variable's value that is looked for in texts; shorter ones stand in any text by chance."""
LONGEST_TOKEN = 4_096
"""Characters to read before the start of a text that is cut, so that a secret at the cut is still known as one."""


class _Pattern:
    """A regular expression that is compiled when it is first used: every command imports these, and few need them."""

    def __init__(self, text: str, flags: re.RegexFlag = re.NOFLAG):
        self._text, self._flags = text, flags

    @functools.cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self._text, self._flags)


_SHAPES = (
    ("a Hugging Face token", r"\bhf_[A-Za-z0-9]{16,}"),
    ("a GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    ("a GitLab token", r"\bglpat-[A-Za-z0-9_-]{16,}"),
    ("an API key", r"\bsk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}"),
    ("an AWS access key", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    ("a Google API key", r"\bAIza[0-9A-Za-z_-]{30,}"),
    ("a Google access token", r"\bya29\.[0-9A-Za-z_-]{16,}"),
    ("a Slack token", r"\bxox[abeoprs]-[0-9A-Za-z-]{10,}"),
    ("a PyPI token", r"\bpypi-[A-Za-z0-9_-]{20,}"),
    ("a W&B key", r"\bwandb_v1_[A-Za-z0-9_]{20,}"),
    ("a JSON web token", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"),
    ("a private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
)
_MARKS = (
    "hf_",
    "gh",
    "glpat",
    "sk-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29",
    "xox",
    "pypi-",
    "wandb_v1_",
    "eyJ",
    "PRIVATE KEY",
)
_WORDS = ("key", "token", "secret", "passw", "passphrase", "credential", "auth", "bearer", "login")
_SHAPE = _Pattern("|".join(f"({pattern})" for _, pattern in _SHAPES))

# A name alone is no secret, except where it is all that is given over the web: https://TOKEN@host.
_URL_CREDENTIALS = _Pattern(
    r"\b(?:([a-z][a-z0-9+.-]*://)[^\s/@:\"']*:[^\s/@\"']+|(https?://)(?!\[redacted\]@)[^\s/@:\"'?#]+)(?=@)", re.I
)
_SIGNED_QUERY = _Pattern(
    r"([?&](?:X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)|Signature|sig|AWSAccessKeyId|"
    r"(?:access_?|auth_?|id_?|refresh_?)?token|api_?key|key|password|secret|client_secret)=)(?!\[redacted\])[^&\s\"'#]+",
    re.I,
)
_SECRET_NAME = (
    r"(?:[\w.-]*(?:api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|"
    r"secret|password|passwd|passphrase|credentials?))"
)
_VALUE = r"(?!\[redacted\])(?:\"[^\"\n]+\"|'[^'\n]+'|[^\s\"',;&)}\]]+)"
_ASSIGNED = _Pattern(rf"(?<![\w.-])(-*{_SECRET_NAME}[\"']?\s*[=:]\s*){_VALUE}", re.I)
_OPTION = _Pattern(rf"(?<!\S)(--?(?:{_SECRET_NAME}|(?:[\w.-]*[._-])?token)[= ]\s*){_VALUE}", re.I)
# "token" is every second word of this field, so it takes `token=`, and a value that is no number and no "<pad>".
_TOKEN = _Pattern(
    rf"(?<![\w.])((?:[\w.-]*[_.-])?token[\"']?=|[\w-]*[_-]token[\"']?:\s*)(?![\d.,]+\b|[\"']?<){_VALUE}", re.I
)
_HEADER = _Pattern(
    r"(\bauthorization[\"']?\s*[:=]\s*[\"']?(?!(?:\w+\s+)?\[redacted\])(?:\w+\s+)?|\bbearer\s+(?=\S*\d))[^\s\"',)]{6,}",
    re.I,
)
_KEY_OF_40_DIGITS = _Pattern(r"(\b(?:login|key|password)\b[\"']?\s*[=:(]?\s*[\"']?)[0-9a-f]{40}\b", re.I)

_SECRET_VARIABLE = _Pattern(
    r"(?:^|[_-])(?:api|access|secret|private|auth)?(?:keys?|token|secrets?|passw(?:or)?d|passphrase|pass|credentials?|pat)(?:$|[_-])",
    re.I,
)


_SECRET_KEY = _Pattern(rf"{_SECRET_NAME}|(?:[\w.-]*[_.-])?token", re.I)


def redact(text: str) -> str:
    """Returns a text with every secret that is known as one replaced by "[redacted]"; doing it twice changes nothing."""
    return _redact(text, _values_of_environment())


def redact_tree(value: Any) -> Any:
    """Returns plain JSON values with every text in them redacted, and whole what stands under a key like "password"."""
    return _redact_tree(value, _values_of_environment())


def _redact(text: str, values: re.Pattern[str] | None) -> str:
    if values is not None:
        text = values.sub(REDACTED, text)
    if any(mark in text for mark in _MARKS):
        text = _SHAPE.compiled.sub(REDACTED, text)
    if "://" in text:
        text = _URL_CREDENTIALS.compiled.sub(lambda found: (found[1] or found[2]) + REDACTED, text)
        text = _SIGNED_QUERY.compiled.sub(rf"\1{REDACTED}", text)
    lower = text.lower()
    if any(word in lower for word in _WORDS):
        for pattern in (_HEADER, _KEY_OF_40_DIGITS, _OPTION, _ASSIGNED, _TOKEN):
            text = pattern.compiled.sub(rf"\1{REDACTED}", text)
    return text


def _redact_tree(value: Any, values: re.Pattern[str] | None) -> Any:
    if isinstance(value, str):
        return _redact(value, values)
    if isinstance(value, Mapping):
        return {key: _redact_entry(key, each, values) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redact_tree(each, values) for each in value]
    return value


def _redact_entry(key: Any, value: Any, values: re.Pattern[str] | None) -> Any:
    if isinstance(value, str) and value and isinstance(key, str) and _SECRET_KEY.compiled.fullmatch(key):
        return REDACTED
    return _redact_tree(value, values)


def secret_in(text: str, variables: Sequence[tuple[str, str]] | None = None) -> str | None:
    """Returns what kind of secret a text holds that may not be altered, e.g. "a GitHub token"; None if it holds none.

    Stricter than `redact`, because its answer stops work: only documented shapes, URLs with credentials, and values of
    secret variables that are no plain word.

    Args:
        text: as it is, or as JSON.
        variables: what `secret_variables` returned, for who asks about many texts at a time.
    """
    if any(mark in text for mark in _MARKS):
        found = _SHAPE.compiled.search(text)
        if found is not None:
            assert found.lastindex is not None
            return _SHAPES[found.lastindex - 1][0]
    if "://" in text and (_URL_CREDENTIALS.compiled.search(text) or _SIGNED_QUERY.compiled.search(text)):
        return "a URL with credentials"
    for name, value in secret_variables() if variables is None else variables:
        if not value.isalpha() and (value in text or json.dumps(value)[1:-1] in text):
            return f"the value of the environment variable {name}"
    return None


def secret_variables() -> list[tuple[str, str]]:
    """Returns name and value of this process's environment variables that are secret by their names."""
    # Asked for with every line that is written: the bytes are held by os.environ as they are, names need decoding each time.
    found = [(name, os.environ[name]) for name in _secret_names(tuple(os.environb)) if name in os.environ]
    # A path to a key file is no secret, and errors have to name it.
    return [
        (name, value)
        for name, value in found
        if len(value) >= SHORTEST_VALUE and not (value[0] == "/" and os.path.exists(value))
    ]


@functools.lru_cache(maxsize=64)
def _secret_names(variables: tuple[bytes, ...]) -> list[str]:
    return [name for name in map(os.fsdecode, variables) if _SECRET_VARIABLE.compiled.search(name)]


def _values_of_environment() -> re.Pattern[str] | None:
    return _pattern_of(tuple(value for _, value in secret_variables()))


@functools.lru_cache(maxsize=8)
def _pattern_of(values: tuple[str, ...]) -> re.Pattern[str] | None:
    """Returns a pattern that finds values as they are, as in a URL, and as Python shows them in a traceback."""
    forms = {form for value in values for form in (value, value.strip(), quote(value, safe=""), repr(value)[1:-1])}
    longest_first = sorted((form for form in forms if form), key=lambda form: (-len(form), form))
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
