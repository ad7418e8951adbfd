"""Passages as pages may show them: personal data masked, and cut into the pieces that are marked and those that are not."""

from typing import Any

from steps.report.masking import mask_personal


def masked_passage(passage: dict[str, Any]) -> dict[str, Any]:
    """Returns a passage of a sample, masked; masking keeps the length, so the marks stay right."""
    return passage | {"text": mask_personal(passage["text"])}


def pieces(passage: dict[str, Any]) -> list[tuple[str, bool]]:
    """Returns the passage's text in pieces, each with whether it is shared."""
    text, cut, place = passage["text"], [], 0
    for first, after in passage["marks"]:
        cut += [(text[place:first], False), (text[first:after], True)]
        place = after
    return [(piece, marked) for piece, marked in [*cut, (text[place:], False)] if piece]
