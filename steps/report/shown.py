"""What a page may show of a document: text of a source with personal data is withheld, other text is cut and masked."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from steps.report.masking import masked, not_inside
from steps.sources.cards import SourceCard

WITHHELD_PERSONAL = "not shown: personal data"
WITHHELD_UNKNOWN = "not shown: no card says that this source may be"
_LOOK_AROUND = 200  # characters read about a cut, so that an address that the cut goes through is seen whole


@dataclass(frozen=True)
class Shower:
    """Cuts, masks and withholds, by the cards of the sources."""

    cards: dict[str, SourceCard]
    """By name of the source."""
    characters: int
    """Texts are cut to so many."""

    @classmethod
    def of(cls, cards: Iterable[SourceCard], characters: int) -> "Shower":
        return cls({card.name: card for card in cards}, characters)

    def withheld(self, source: str) -> str:
        """Returns why text of a source is not shown, or "" if it is."""
        card = self.cards.get(source)
        return WITHHELD_UNKNOWN if card is None else "" if card.show else WITHHELD_PERSONAL

    def name(self, source: str, source_id: str) -> str:
        """Returns the name that a source gave a document; of a withheld source nothing: names hold addresses too."""
        return "" if self.withheld(source) else masked(source_id)[:300]

    def passage(
        self, source: str, text: str, *, start: int = 0, total: int | None = None, more_after: bool = False
    ) -> dict[str, Any]:
        """Returns what may be shown of a text as {"text", "withheld", "first", "after", "characters"}.

        Args:
            source: whose text it is.
            text: a whole text, or an excerpt.
            start: where in the text to begin.
            total: characters of the whole text, where `text` is its beginning; None: `text` is all there is.
            more_after: the excerpt was cut at its end by who made it.
        """
        total = len(text) if total is None else total
        if start:
            before = max(0, start - _LOOK_AROUND)
            start = before + not_inside(text[before : start + _LOOK_AROUND], start - before)
        place = {"first": start, "after": min(len(text), start + self.characters), "characters": total}
        if reason := self.withheld(source):
            return {"text": "", "withheld": reason, **place}
        end = min(len(text), place["after"] + _LOOK_AROUND)
        shown = masked(text[start:end], cut_before=start > 0, cut_after=more_after or end < total)
        return {"text": shown[: self.characters], "withheld": "", **place}
