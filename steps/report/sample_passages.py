"""A document to be read, as values and as a block: its source and licence, its id, and what may be shown of its text."""

from typing import Any

from steps.report.blocks import Passage, Sample, window
from steps.report.shown import Shower


def sample_values(row: dict[str, Any], shower: Shower, *, total: int | None = None) -> dict[str, Any]:
    """Returns {"id", "source", "source_id", "licence", "passage"}.

    Args:
        row: id, source, source_id ("" if not known) and text.
        shower: decides what is shown.
        total: characters of the whole text, where the row's is its beginning; None: it is whole.
    """
    card = shower.cards.get(row["source"])
    return {
        "id": row["id"],
        "source": row["source"],
        "source_id": shower.name(row["source"], row["source_id"]),
        "licence": card.licence if card else "unknown",
        "passage": shower.passage(row["source"], row["text"], total=total),
    }


def sample_block(values: dict[str, Any], why: str, tags: list[str], part: str = "") -> Sample:
    """Returns what `sample_values` gave as a block; `part` says which part of the text it is, where its numbers do not."""
    passage = values["passage"]
    name = f": {values['source_id']}" if values["source_id"] else ""
    where = f"{values['source']}{name} · {values['id']} · licence {values['licence']}"
    segments = [(passage["text"], False)] if passage["text"] else []
    return Sample(why, tags, [Passage("", where, segments, passage["withheld"], part or window(passage))])
