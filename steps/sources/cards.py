"""Source cards: what a source is, in which languages, under which licence, and what is wrong with it, in words.

A card describes; it decides nothing about a source's text. Pages read it, above all `show`: text of a source with personal data is
processed, and never printed.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from marin_exec import ConfigError
from steps.config_checks import check_choice

KINDS = (
    "code",
    "dictionary",
    "essay",
    "fiction",
    "help",
    "mail",
    "manual",
    "quotations",
    "reference",
    "samples",
    "speeches",
)


@dataclass(frozen=True, kw_only=True)
class SourceCard:
    """One source of documents."""

    name: str
    """As in `NamedInput.name`."""
    kind: str
    """What sort of text it is: one of `KINDS`."""
    languages: tuple[str, ...]
    """ISO 639-1 codes of natural languages; of code, that of its comments."""
    origin: str
    """Where it comes from, e.g. "debian package fortunes"."""
    licence: str
    """In words or as an SPDX expression, as its package states it."""
    limits: str
    """What somebody who trains on it should know, a sentence or two."""
    show: bool = True
    """False: it holds personal data, and no text of it may stand on a page or in a sample that people are shown."""

    def __post_init__(self) -> None:
        check_choice(self, "kind", KINDS)
        for field in ("name", "origin", "licence", "limits"):
            if not getattr(self, field):
                raise ConfigError(f"SourceCard.{field} of {self.name!r} is empty; it must say something")
        if not self.languages:
            raise ConfigError(
                f'SourceCard.languages of {self.name!r} is empty; at least one code such as "en" is needed'
            )


def hidden_sources(cards: Iterable[SourceCard]) -> frozenset[str]:
    """Returns the names of sources whose text must never be shown."""
    return frozenset(card.name for card in cards if not card.show)
