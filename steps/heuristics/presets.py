"""Thresholds on the heuristic scores, as presets for kinds of text.

A preset is a list of limits; a score without a limit is saved and decides nothing. `PROSE` has the published figures
(sources in `scores`). `CODE` leaves out every rule about prose: code has no stop words, its lines do not end in full
stops, and "}" alone on a line is not spam. `REFERENCE` is for text between the two, such as API documentation,
docstrings and READMEs, with code samples in it and short by nature. `STARCODER` is what StarCoder and StarCoder 2 ask of
source files. Figures of our own are marked; they were set by reading what they remove from this environment's own
documentation and code. How they change by language: `language_rules`.
"""

from dataclasses import dataclass

import numpy as np

from marin_exec import ConfigError
from steps.heuristics.scores import SCORE_NAMES
from steps.heuristics.stop_words import STOP_WORDS

ENGLISH_STOP_WORDS = STOP_WORDS["en"]  # Gopher


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What one score has to keep to. At least one of the bounds is set; both are themselves allowed."""

    score: str
    """Name of a score, one of `SCORE_NAMES`."""
    minimum: float | None = None
    """The document is removed below this."""
    maximum: float | None = None
    """The document is removed above this."""

    def __post_init__(self) -> None:
        if self.score not in SCORE_NAMES:
            raise ConfigError(f"Limit: score {self.score!r} is not known; the scores are {', '.join(SCORE_NAMES)}")
        if self.minimum is None and self.maximum is None:
            raise ConfigError(f"Limit on {self.score}: neither minimum nor maximum is given; set one, or leave it out")

    def broken_by(self, values: np.ndarray) -> np.ndarray:
        """Returns bool[N], whether each of N scores is outside the bounds (a NaN is)."""
        inside = np.ones(values.shape, dtype=bool)
        if self.minimum is not None:
            inside &= values >= self.minimum
        if self.maximum is not None:
            inside &= values <= self.maximum
        return ~inside

    def reason(self, value: float) -> str | None:
        """Returns why a document with this score is removed, e.g. "gopher_duplicate_lines: 0.41 > 0.3", or None."""
        if self.minimum is not None and not value >= self.minimum:
            return f"{self.score}: {_number(value, self.minimum)} < {self.minimum:g}"
        if self.maximum is not None and not value <= self.maximum:
            return f"{self.score}: {_number(value, self.maximum)} > {self.maximum:g}"
        return None


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Named limits for one kind of text."""

    name: str
    """What `HeuristicsConfig.preset_by_source` calls it."""
    limits: tuple[Limit, ...]
    """All are checked, so that every reason is known and not only the first."""
    stop_words: tuple[str, ...] = ENGLISH_STOP_WORDS
    """Lower case; `gopher_stop_words` counts how many different ones occur where no languages are given."""


def _number(value: float, limit: float) -> str:
    """As few digits as show that the value is on the wrong side of its limit."""
    texts = (f"{value:.{digits}g}" for digits in range(2, 18))  # 17 digits tell any two floats apart
    return next(text for text in texts if float(text) != limit)


_REPETITION = (
    Limit(score="gopher_duplicate_lines", maximum=0.30),
    Limit(score="gopher_duplicate_line_characters", maximum=0.20),
    Limit(score="gopher_duplicate_paragraphs", maximum=0.30),
    Limit(score="gopher_duplicate_paragraph_characters", maximum=0.20),
    Limit(score="gopher_top_2gram", maximum=0.20),
    Limit(score="gopher_top_3gram", maximum=0.18),
    Limit(score="gopher_top_4gram", maximum=0.16),
    Limit(score="gopher_duplicate_5gram", maximum=0.15),
    Limit(score="gopher_duplicate_6gram", maximum=0.14),
    Limit(score="gopher_duplicate_7gram", maximum=0.13),
    Limit(score="gopher_duplicate_8gram", maximum=0.12),
    Limit(score="gopher_duplicate_9gram", maximum=0.11),
    Limit(score="gopher_duplicate_10gram", maximum=0.10),
)

PROSE = Preset(
    name="prose",
    limits=(
        Limit(score="gopher_words", minimum=50, maximum=100_000),
        Limit(score="gopher_mean_word_length", minimum=3, maximum=10),
        Limit(score="gopher_symbols_per_word", maximum=0.1),
        Limit(score="gopher_bullet_lines", maximum=0.9),
        Limit(score="gopher_ellipsis_lines", maximum=0.3),
        Limit(score="gopher_alphabetic_words", minimum=0.8),
        Limit(score="gopher_stop_words", minimum=2),
        *_REPETITION,
        Limit(score="c4_sentences", minimum=3),
        Limit(score="c4_lorem_ipsum", maximum=0),
        Limit(score="c4_curly_brackets", maximum=0),
        Limit(score="fineweb_punctuated_lines", minimum=0.12),
        Limit(score="fineweb_short_lines", maximum=0.67),
    ),
)

CODE = Preset(
    name="code",
    limits=(
        Limit(score="gopher_words", minimum=10, maximum=100_000),  # the floor is ours: empty __init__ files and stubs
        Limit(score="code_mean_line_characters", maximum=100),
        Limit(score="code_longest_line_characters", maximum=1000),
        Limit(score="code_alphanumeric", minimum=0.25),
        # Ours: real code repeats idioms, so only text that is mostly repeats goes (one file pasted over and over).
        Limit(score="gopher_duplicate_paragraph_characters", maximum=0.5),
        Limit(score="gopher_duplicate_10gram", maximum=0.4),
    ),
    stop_words=(),
)

REFERENCE = Preset(
    name="reference",
    limits=(
        Limit(score="gopher_words", minimum=8, maximum=100_000),  # the floor is ours: one full sentence
        Limit(score="gopher_mean_word_length", minimum=3, maximum=15),  # upper end ours: dotted names, links
        Limit(score="gopher_symbols_per_word", maximum=0.1),
        Limit(score="gopher_ellipsis_lines", maximum=0.3),
        Limit(score="gopher_alphabetic_words", minimum=0.6),  # ours: arrays and prompts of code samples are words too
        Limit(score="gopher_duplicate_lines", maximum=0.30),
        Limit(score="gopher_duplicate_paragraphs", maximum=0.30),
        Limit(score="gopher_duplicate_10gram", maximum=0.3),  # ours: parameter tables repeat their wording
        Limit(score="c4_lorem_ipsum", maximum=0),
        Limit(score="code_alphanumeric", minimum=0.25),
    ),
)

STARCODER = Preset(
    name="starcoder",
    limits=(
        Limit(score="code_mean_line_characters", maximum=100),
        Limit(score="code_longest_line_characters", maximum=1000),
        Limit(score="code_alphanumeric", minimum=0.25),
        Limit(score="code_alphabetic", minimum=0.25),
        Limit(score="code_autogenerated", maximum=0),
        Limit(score="encoded_characters", maximum=0.5),
        Limit(score="encoded_longest_characters", maximum=1024),
        Limit(score="repeated_50gram", maximum=0.4),  # ours: the same file pasted into one document
    ),
    stop_words=(),
)

PRESETS = (PROSE, CODE, REFERENCE, STARCODER)
