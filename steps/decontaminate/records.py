"""What a benchmark is made of, for everything that reads or writes one."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Record:
    """One text of a benchmark that training data must not contain."""

    benchmark: str
    """Name that hits are attributed to, e.g. "humaneval/prompt"."""
    name: str
    """Name of the record in it, e.g. "HumanEval/12", or a held-out document's id."""
    text: str
    short: bool
    """Whether a whole paragraph of fewer than n words counts as a feature, where the record has no longer one."""
    keeps_frequent: bool
    """Whether its features count even where they are frequent in one source of documents."""
    required: bool = False
    """Whether it must yield a feature."""
