"""Kinds: what step functions are known by, whatever they are called and wherever they stand."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from marin_exec.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9][A-Za-z0-9._+-]*)*")


def check_name(what: str, name: str) -> None:
    """Raises ConfigError if a name of a `what` ("kind", "step") is not valid."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{what} {name!r}: not a valid name; use letters, digits, '.', '_', '+', '-', in parts joined by '/'"
        )


@dataclass(frozen=True)
class Kind:
    """What a step function is known by. Its name and version are identity; its module and source are not."""

    name: str
    version: int | None
    """None: the kind is identified by the digest of its source, so a first experiment never serves stale results."""
    fn: Callable[..., Any]
    content_digest: Callable[[str], str] | None = None
    """Given the output directory, a digest of what it means, for formats whose bytes differ between equal runs."""
    gang: bool = False
    """Whether the function may run in several processes at once; see `Resources.ranks`."""
    reads_lineage: bool = False
    """The function looks at how its inputs were made too, so that equal inputs do not make an equal output."""
    renamed_from: str = ""
    """The name of the kind when steps of it first ran; "" if it still has it."""

    @property
    def digested_name(self) -> str:
        """The name that stands in digests: the first one, so that a kind can be renamed and what it made is still found."""
        return self.renamed_from or self.name


_KINDS: dict[tuple[str, int], Kind] = {}


def _same_function(a: Callable[..., Any], b: Callable[..., Any]) -> bool:
    """One source file and qualified name is one function: `__main__` and its import, or a module loaded twice."""
    a_code, b_code = a.__code__, b.__code__
    return (a_code.co_filename, a_code.co_qualname) == (b_code.co_filename, b_code.co_qualname)


def kind(
    name: str,
    *,
    version: int | None = None,
    content_digest: Callable[[str], str] | None = None,
    gang: bool = False,
    reads_lineage: bool = False,
    renamed_from: str = "",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares a step function `fn(config, out) -> result` to be of this kind.

    Args:
        name: stable name, e.g. "dedup/fuzzy".
        version: raised when the meaning of the output changes; None identifies the kind by its source digest.
        content_digest: given the output directory, returns a digest of its meaning, for formats that are not byte-stable.
        gang: the function looks at `out.rank` and may run as several ranks (`Resources.ranks`).
        reads_lineage: the function looks at how its inputs were made (records, lineage), not only at what they hold; then
            it is never linked to an output that was made from equal inputs of other origin.
        renamed_from: the name of the kind when steps of it first ran (the first of several); digests keep using it.

    Raises:
        ConfigError: another function already has this kind name and version.
    """
    for each in (name, renamed_from or name):
        check_name("kind", each)

    def declare(fn: Callable[..., Any]) -> Callable[..., Any]:
        declared = Kind(name, version, fn, content_digest, gang, reads_lineage, renamed_from)
        if version is not None:
            earlier = _KINDS.get((declared.digested_name, version))
            if earlier is not None and not _same_function(earlier.fn, fn):
                raise ConfigError(
                    f"kind {declared.digested_name!r} version {version}: declared by both "
                    f"{earlier.fn.__module__}.{earlier.fn.__qualname__} and "
                    f"{fn.__module__}.{fn.__qualname__}; give one of them another name or version"
                )
            _KINDS[declared.digested_name, version] = declared
        fn.__marin_kind__ = declared  # type: ignore[attr-defined]
        return fn

    return declare


def kind_of(fn: Callable[..., Any]) -> Kind:
    """Returns the declared kind of a step function; an undeclared one is a kind of its own name, known by its source."""
    declared = getattr(fn, "__marin_kind__", None)
    return declared or Kind(getattr(fn, "__name__", repr(fn)), None, fn)
