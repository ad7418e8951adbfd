"""How limits change where a document's language is known: those made for English misjudge other languages.

Set by the spread of the scores in the GNOME help, which says the same in 42 languages. A rule only takes limits away or
widens them, so it can keep a document that a preset would have removed, and never the other way round.
"""

from collections.abc import Container
from dataclasses import dataclass, replace

from marin_exec import ConfigError
from steps.heuristics.presets import Limit, Preset
from steps.heuristics.scores import SCORE_NAMES


@dataclass(frozen=True, kw_only=True)
class LanguageRule:
    """How limits change for documents in some languages, whatever the preset."""

    languages: tuple[str, ...]
    """ISO 639-1 codes, or "und" for undetermined ones."""
    without: tuple[str, ...] = ()
    """Scores whose limits are not applied."""
    at_least_as_wide: tuple[Limit, ...] = ()
    """Bounds to which the preset's limits on the same scores are widened, where they are narrower. None is added."""

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.without) - set(SCORE_NAMES)):
            raise ConfigError(f"LanguageRule.without: {unknown} are no scores; the scores are {', '.join(SCORE_NAMES)}")


def preset_in(preset: Preset, language: str, rules: tuple[LanguageRule, ...], stop_words: Container[str]) -> Preset:
    """Returns the preset as it judges documents in a language.

    Args:
        preset: for the kind of text.
        language: ISO 639-1 code or "und".
        rules: those that name the language are applied in order.
        stop_words: languages that have stop words; in others no limit on their number is applied.
    """
    limits = preset.limits
    if language not in stop_words:
        limits = tuple(limit for limit in limits if limit.score != "gopher_stop_words")
    for rule in rules:
        if language in rule.languages:
            wide = {limit.score: limit for limit in rule.at_least_as_wide}
            limits = tuple(
                _widened(limit, wide[limit.score]) if limit.score in wide else limit
                for limit in limits
                if limit.score not in rule.without
            )
    return replace(preset, limits=limits)


def _widened(limit: Limit, wide: Limit) -> Limit:
    minimum, maximum = limit.minimum, limit.maximum
    if minimum is not None and wide.minimum is not None:
        minimum = min(minimum, wide.minimum)
    if maximum is not None and wide.maximum is not None:
        maximum = max(maximum, wide.maximum)
    return Limit(score=limit.score, minimum=minimum, maximum=maximum)


_ONE_CHARACTER_WORDS = ("zh", "ja", "th", "lo", "km", "my")
_NO_SENTENCE_MARKS = ("th", "lo", "km", "my")

LANGUAGE_RULES = (
    # A word is one character there: its length says nothing, five of them are two or three words, and lines are half as long.
    LanguageRule(
        languages=_ONE_CHARACTER_WORDS,
        without=(
            "gopher_mean_word_length",
            *(f"gopher_duplicate_{n}gram" for n in range(5, 10)),
            "fineweb_short_lines",
        ),
        at_least_as_wide=(Limit(score="gopher_duplicate_10gram", maximum=0.2),),
    ),
    LanguageRule(languages=_NO_SENTENCE_MARKS, without=("c4_sentences", "fineweb_punctuated_lines")),
    # Two or three syllables a word, and as dense in a line.
    LanguageRule(
        languages=("ko",),
        at_least_as_wide=(
            Limit(score="gopher_mean_word_length", minimum=2),
            Limit(score="fineweb_short_lines", maximum=0.8),
        ),
    ),
    # One syllable a word: numbers and names of keys weigh more among them.
    LanguageRule(languages=("vi",), at_least_as_wide=(Limit(score="gopher_alphabetic_words", minimum=0.7),)),
)
"""All figures are ours."""
