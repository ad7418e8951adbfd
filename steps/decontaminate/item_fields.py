"""From a benchmark's raw items to records: which fields are the passage, the question, the choices and the answer.

They are told apart in attributions: "<benchmark>/question" is the question alone, "/item" question and choices as one text,
"/passage" what a question is about, "/answer" the answer in words. An answer of few words ("True", "42") is in any text, so
that only n-grams of answers and passages count.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from marin_exec import ConfigError, StepFailed
from steps.decontaminate.records import Record

_LABELS = ("label", "labels")  # of choices as Hugging Face data sets hold them, beside their texts


@dataclass(frozen=True, kw_only=True)
class ItemFields:
    """Names of fields in an item. A name may be a path, "choices.text"."""

    question: tuple[str, ...]
    """What is asked; several are joined by a new line."""
    choices: tuple[str, ...] = ()
    """Its choices: a list, a mapping, or one field for each."""
    answer: tuple[str, ...] = ()
    """The answer in words."""
    passage: tuple[str, ...] = ()
    """The text that the question is about. Often a public one: leave it out where meeting it says nothing."""

    def __post_init__(self) -> None:
        if self.question == ():
            raise ConfigError("ItemFields.question is empty; name at least one field")

    def names(self) -> tuple[str, ...]:
        """Returns all fields."""
        return (*self.question, *self.choices, *self.answer, *self.passage)


def item_records(benchmark: str, name: str, item: Mapping[str, Any], fields: ItemFields) -> list[Record]:
    """Returns an item's records, one for each part that it has.

    The item as a whole (or the question, where there are no choices) is required to yield a feature.

    Raises:
        StepFailed: the item lacks a field.
    """

    def texts(paths: tuple[str, ...]) -> list[str]:
        return [text for path in paths for text in _texts(_value(item, path, f"benchmark {benchmark}: item {name}"))]

    def record(part: str, text: str, *, required: bool = False, short: bool = False) -> Record:
        return Record(
            benchmark=f"{benchmark}/{part}", name=name, text=text, short=short, keeps_frequent=True, required=required
        )

    question, choices = "\n".join(texts(fields.question)), texts(fields.choices)
    # "Which of these is true?" is asked everywhere: a short question alone says something only where it is the item.
    records = [record("question", question, required=not choices, short=not choices)]
    if choices:
        lines = (f"{chr(ord('A') + number)}. {choice}" for number, choice in enumerate(choices))
        records.append(record("item", "\n".join([question, *lines]), required=True, short=True))
    for part, paths in (("answer", fields.answer), ("passage", fields.passage)):
        if paths:
            records.append(record(part, "\n".join(texts(paths))))
    return records


def _value(item: Mapping[str, Any], path: str, where: str) -> Any:
    value: Any = item
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            found = sorted(value) if isinstance(value, Mapping) else f"a {type(value).__name__}"
            raise StepFailed(f"{where} has no field {path!r} (found {found}); correct the names of the fields")
        value = value[key]
    return value


def _texts(value: Any) -> list[str]:
    """Returns the texts in a value, in their order: those of lists and mappings too, labels left out."""
    if isinstance(value, Mapping):
        return [text for key, each in value.items() if key not in _LABELS for text in _texts(each)]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    return [] if value is None else [str(value)]
