"""Where everything is in a store, relative to its prefix. No other module puts such a path together or takes one apart.

<name>-<digest16>/a<N>-<random>/...                            what attempt N wrote
.marin/steps/<digest>/head.json                                Head
.marin/steps/<digest>/attempts/<N>-<K>.jsonl                   segment K of attempt N's log
.marin/steps/<digest>/attempts/<N>.record.json                 Record
.marin/steps/<digest>/pieces/<chain>/shard/<quoted>.json       Piece, and the same for milestone/
.marin/content/<content key>/<digest>.json                     ContentEntry
.marin/links/<digest>/<digest of the link>.json                ContentEntry
.marin/roots/<id>.json                                         Root
.marin/limits/<quoted>/<k>/head.json                           Head of slot k of a named limit
.marin/runs/<run_id>.jsonl                                     the event log of a run
.marin/scratch/<random>/                                       a store in which a step is made again, for a moment
"""

import hashlib
import re
from dataclasses import dataclass
from urllib.parse import quote

from marin_exec.errors import ConfigError, InternalError, StoreError

CONTROL = ".marin"
STEPS = f"{CONTROL}/steps"
ROOTS = f"{CONTROL}/roots"
LIMITS = f"{CONTROL}/limits"
CONTENT = f"{CONTROL}/content"
LINKS = f"{CONTROL}/links"
RUNS = f"{CONTROL}/runs"
SCRATCH = f"{CONTROL}/scratch"
REPLACEABLE = frozenset({"head.json"})
"""Base names of the objects that are ever replaced; all others are written once."""
HINTS = f"{CONTENT}/"
"""What is below says where to look, by its name alone: it need not outlive a power cut, whole or at all."""
TEMPORARY = ".marin-temporary-"
"""How the names of unfinished files begin; they count for nothing."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_OUTPUT = re.compile(r"(.+)-([0-9a-f]{16})")
_ATTEMPT = re.compile(r"a([1-9][0-9]*)-[0-9a-f]{8}")
_LOG = re.compile(r"([1-9][0-9]*)-([1-9][0-9]*)\.jsonl")
_RECORD = re.compile(r"([1-9][0-9]*)\.record\.json")
_LONGEST_QUOTED = 200  # with ".json" and the numbers of a replaceable object this stays below the usual 255 bytes


def is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


def begins_digest(text: str, fewest: int = 6) -> bool:
    """Returns whether a text can be the first digits of a digest, at least so many of them."""
    return fewest <= len(text) <= 64 and all(each in "0123456789abcdef" for each in text)


def step_directory(digest: str) -> str:
    if not is_digest(digest):
        raise InternalError(f"digest {digest!r}: 64 hexadecimal digits are needed")
    return f"{STEPS}/{digest}"


def head(digest: str) -> str:
    return f"{step_directory(digest)}/head.json"


def attempts_directory(digest: str) -> str:
    return f"{step_directory(digest)}/attempts"


def record(digest: str, attempt: int) -> str:
    return f"{attempts_directory(digest)}/{attempt}.record.json"


def log(digest: str, attempt: int, segment: int) -> str:
    return f"{attempts_directory(digest)}/{attempt}-{segment}.jsonl"


def parse_log(name: str) -> tuple[int, int] | None:
    """Returns the attempt and the segment of a log's base name, or None for any other name."""
    match = _LOG.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def parse_record(name: str) -> int | None:
    """Returns the attempt of a record's base name, or None for any other name."""
    match = _RECORD.fullmatch(name)
    return int(match[1]) if match else None


def chains_directory(digest: str) -> str:
    return f"{step_directory(digest)}/pieces"


def pieces_directory(digest: str, chain: int, kind: str) -> str:
    return f"{chains_directory(digest)}/{chain}/{kind}"


def piece(digest: str, chain: int, kind: str, name: str) -> str:
    return f"{pieces_directory(digest, chain, kind)}/{quoted(name)}.json"


def quoted(name: str) -> str:
    """Returns a file name for any string: distinct names give distinct ones. The string itself is kept in the file."""
    safe = quote(name, safe="", errors="surrogatepass")
    if len(safe) <= _LONGEST_QUOTED:
        return safe
    # "=" is never left unquoted, so no short name looks like this.
    return f"{safe[:120]}={hashlib.sha256(safe.encode('ascii')).hexdigest()}"


def limit_slot(name: str, index: int) -> str:
    return f"{LIMITS}/{quoted(name)}/{index}/head.json"


def content_directory(content_key: str) -> str:
    if not is_digest(content_key):
        raise InternalError(f"content key {content_key!r}: 64 hexadecimal digits are needed")
    return f"{CONTENT}/{content_key}"


def content(content_key: str, digest: str) -> str:
    """Returns where it is noted that a step was made from this content."""
    step_directory(digest)
    return f"{content_directory(content_key)}/{digest}.json"


def probe(token: str) -> str:
    """Returns a replaceable object of nobody, by which a store is tried out."""
    return f"{CONTROL}/{TEMPORARY}probe-{token}/head.json"


def links_directory(digest: str) -> str:
    step_directory(digest)
    return f"{LINKS}/{digest}"


def link(target: str, digest: str) -> str:
    """Returns where it is noted that a step is linked to another one's output."""
    step_directory(digest)
    return f"{links_directory(target)}/{digest}.json"


def root(root_id: str) -> str:
    return f"{ROOTS}/{root_id}.json"


def run_log(run_id: str, segment: int = 1) -> str:
    return f"{RUNS}/{run_id}.jsonl" if segment == 1 else f"{RUNS}/{run_id}.{segment}.jsonl"


def output_directory(name: str, digest: str) -> str:
    """Returns the directory of all attempts of a step.

    Raises:
        ConfigError: part of the name could be taken for the output directory of another step.
    """
    *parents, _ = name.split("/")
    for part in parents:
        if _OUTPUT.fullmatch(part):
            raise ConfigError(
                f"step {name}: the part {part!r} looks like an output directory of the store; "
                "only the last part of a name may end in '-' and 16 hexadecimal digits. Rename the step"
            )
    step_directory(digest)
    return f"{name}-{digest[:16]}"


def attempt_directory(name: str, digest: str, attempt: int, token: str) -> str:
    made = f"a{attempt}-{token}"
    if not _ATTEMPT.fullmatch(made):
        raise InternalError(f"attempt directory {made!r}: a number from 1 and 8 hexadecimal digits are needed")
    return f"{output_directory(name, digest)}/{made}"


def parse_attempt_name(base: str) -> int | None:
    """Returns the number of an attempt's directory, given its base name; None for any other name."""
    match = _ATTEMPT.fullmatch(base)
    return int(match[1]) if match else None


def parse_output_name(base: str) -> tuple[str, str] | None:
    """Returns the last part of a step's name and 16 digits of its digest; None for any other directory."""
    match = _OUTPUT.fullmatch(base)
    return (match[1], match[2]) if match else None


@dataclass(frozen=True, kw_only=True)
class Location:
    """What a path in a store is part of."""

    name: str
    digest16: str
    attempt: int | None
    """None for the directory of all attempts."""
    attempt_path: str | None
    """The attempt's directory, relative to the prefix."""
    sub_path: str
    """Relative to the attempt's directory; "" for the directory itself."""


def parse(relative: str) -> Location:
    """Returns which step and attempt a path, relative to the prefix, is part of.

    Raises:
        StoreError: it is not part of any output.
    """
    parts = relative.split("/")
    for index, part in enumerate(parts):
        match = _OUTPUT.fullmatch(part)
        if match is None or parts[0] == CONTROL:
            continue
        name, rest = "/".join([*parts[:index], match[1]]), parts[index + 1 :]
        attempt = _ATTEMPT.fullmatch(rest[0]) if rest else None
        if attempt is None:
            return Location(name=name, digest16=match[2], attempt=None, attempt_path=None, sub_path="/".join(rest))
        return Location(
            name=name,
            digest16=match[2],
            attempt=int(attempt[1]),
            attempt_path="/".join(parts[: index + 2]),
            sub_path="/".join(rest[1:]),
        )
    raise StoreError(
        f"{relative}: not part of a step's output; a path with a directory <name>-<16 digits of the digest> is needed, "
        "as `marin-exec ls` shows them"
    )
