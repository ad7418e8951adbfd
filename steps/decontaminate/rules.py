"""The rules by which matches become judgements, as configs state them."""

from dataclasses import dataclass

from steps.config_checks import check_number


@dataclass(frozen=True, kw_only=True)
class Boilerplate:
    """When a benchmark's feature is too common in the documents to say anything."""

    documents: int = 20
    """In at least so many documents ..."""
    sources: int = 3
    """... of at least so many sources: dropped everywhere."""
    source_documents: int = 10
    """In at least so many documents of one source ..."""
    source_fraction: float = 0.002
    """... that are at least this share of it: dropped in that source, for features of documents benchmarks only."""

    def __post_init__(self) -> None:
        check_number(self, "documents", "sources", "source_documents", low=1)
        check_number(self, "source_fraction", low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """What makes a paragraph or an item, and with it the document, contaminated."""

    overlap: float = 0.5
    """Share of a paragraph's features that a benchmark has, from which on it is contaminated."""
    min_hits: int = 2
    """So many different features must match, where the paragraph (or the item) has several."""
    item_coverage: float | None = 0.6
    """Share of an item's features from which on a document is contaminated that holds them, wherever they stand in it: finds
    items inside long paragraphs. None: off."""
    absolute_hits: int | None = None
    """From so many different features on, a paragraph is contaminated whatever their share; finds items inside long
    paragraphs, at the price of more boilerplate (off by default)."""

    def __post_init__(self) -> None:
        check_number(self, "overlap", "item_coverage", above=0, high=1)
        check_number(self, "min_hits", "absolute_hits", low=1)
