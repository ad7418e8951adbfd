"""Scores one checkpoint on multiple-choice items from a local file, by log-likelihood, dropless. Loads no jax until it runs.

The rule is that of lm-evaluation-harness's `multiple_choice` tasks: each choice is scored as the continuation of the context;
the answer is the choice of the largest log-likelihood (`accuracy`, the harness's acc), or of the largest per character
(`accuracy_norm`, its acc_norm).
"""

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from marin_exec import InputPath, Out, StepFailed, kind
from steps.files import read_bytes, write_bytes, write_json


@dataclass(frozen=True, kw_only=True)
class MultipleChoiceConfig:
    """A checkpoint, its tokenizer, and items."""

    checkpoint: InputPath
    """A checkpoint: `train_step / "checkpoints/step-400"`, or a milestone of a run that is still going."""
    tokenizer: InputPath
    """Output of tokenize/train_bpe or tokenize/adopt: the one that the run's tokens were made with."""
    items: InputPath
    """JSON lines, an item each: `context` (str), `choices` (two or more, with the space that they begin with), `answer`
    (number of the right one, from 0). What the harness renders: few-shot examples are part of the context."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One question."""

    context: str
    choices: list[str]
    answer: int


@dataclass(frozen=True)
class MultipleChoiceResult:
    """How many answers were right."""

    step: int
    """Updates that are in the checkpoint."""
    num_items: int
    accuracy: float
    """By log-likelihood."""
    accuracy_norm: float
    """By log-likelihood over the choice's characters."""
    standard_error: float
    """Of the accuracy: sample deviation of right and wrong over the root of the number of items."""
    chance: float
    """Accuracy of guessing: mean of 1 / number of choices."""
    answer_loss: float
    """Mean negative log-likelihood of the right choices, nats an item."""


@kind("evaluate/multiple_choice", version=1)
def evaluate_multiple_choice(config: MultipleChoiceConfig, out: Out) -> MultipleChoiceResult:
    """Writes `items.jsonl`, each item's log-likelihoods and answers in the order of the file, and `summary.json`.

    Raises:
        StepFailed: an item is not one, or a choice is longer than the model's sequence; the message names its line.
    """
    from steps.evaluate.choice_scoring import score_choices

    items = read_items(config.items)
    step, log_likelihoods = score_choices(config.checkpoint, config.tokenizer, items)
    rows: list[dict[str, Any]] = []
    for item, found in zip(items, log_likelihoods, strict=True):
        per_character = [value / len(choice) for value, choice in zip(found, item.choices, strict=True)]
        rows.append(
            {
                "log_likelihoods": found,
                "answer": item.answer,
                "chosen": found.index(max(found)),
                "chosen_norm": per_character.index(max(per_character)),
            }
        )
    write_bytes(out.file("items.jsonl"), "".join(json.dumps(row) + "\n" for row in rows).encode())
    right = sum(row["chosen"] == row["answer"] for row in rows)
    accuracy = right / len(rows)
    deviation = math.sqrt(accuracy * (1 - accuracy) * len(rows) / (len(rows) - 1)) if len(rows) > 1 else 0.0
    result = MultipleChoiceResult(
        step=step,
        num_items=len(rows),
        accuracy=accuracy,
        accuracy_norm=sum(row["chosen_norm"] == row["answer"] for row in rows) / len(rows),
        standard_error=deviation / math.sqrt(len(rows)),
        chance=sum(1 / len(item.choices) for item in items) / len(items),
        answer_loss=-sum(row["log_likelihoods"][row["answer"]] for row in rows) / len(rows),
    )
    write_json(out.file("summary.json"), asdict(result))
    return result


def read_items(path: str) -> list[Item]:
    """Returns the items of a file.

    Raises:
        StepFailed: there is none, or a line is not an item.
    """
    items = []
    for number, line in enumerate(read_bytes(path).decode().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            item = Item(context=row["context"], choices=list(row["choices"]), answer=row["answer"])
        except (ValueError, KeyError, TypeError) as error:
            raise StepFailed(
                f"{path}: line {number} is no item ({type(error).__name__}: {error}); a JSON object with context, choices "
                f"and answer is needed"
            ) from error
        if len(item.choices) < 2 or not all(item.choices) or item.answer not in range(len(item.choices)):
            raise StepFailed(
                f"{path}: line {number} has {len(item.choices)} choices and answer {item.answer!r}; two or more choices with "
                f"text are needed, and the number of one of them from 0"
            )
        items.append(item)
    if not items:
        raise StepFailed(f"{path}: there is no item in it")
    return items
