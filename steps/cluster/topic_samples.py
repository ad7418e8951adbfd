"""Documents of every topic to be read: seeded samples, and questions of the intruder test for people or a model."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from marin_exec import Out
from steps.cluster.assigning import AssignShard
from steps.cluster.intruders import make_questions
from steps.contract import read_documents
from steps.files import write_bytes

_EXCERPT_CHARACTERS = 600
_COMPARED_CHARACTERS = 4_000


@dataclass(frozen=True, kw_only=True)
class Sample:
    topic: int
    id: str
    source: str
    source_id: str
    characters: int
    """Of the whole text."""
    text: str
    """Its first 4,000 characters."""


def read_samples(
    shards: Sequence[tuple[str, AssignShard, list[list[tuple[int, str]]]]], samples_per_topic: int
) -> list[Sample]:
    """Returns the documents of each topic with the lowest ranks, by topic, then rank.

    Args:
        shards: for each its source, what it was, and its offered samples (rank, id) by topic.
        samples_per_topic: documents of a topic, at most.
    """
    num_topics = len(shards[0][2])
    chosen: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for topic in range(num_topics):
        offered = sorted(
            (rank, identifier, place)
            for place, (_, _, samples) in enumerate(shards)
            for rank, identifier in samples[topic]
        )
        for order, (_, identifier, place) in enumerate(offered[:samples_per_topic]):
            chosen.setdefault((place, identifier), []).append((topic, order))
    found = []
    for place, (source, item, _) in enumerate(shards):
        if not any(where == place for where, _ in chosen):
            continue
        table = read_documents(item.documents, item.shard, ["id", "text", "source_id"])
        for row, identifier in enumerate(table["id"].to_pylist()):
            for topic, order in chosen.get((place, identifier), ()):
                text = table["text"][row].as_py()
                sample = Sample(
                    topic=topic,
                    id=identifier,
                    source=source,
                    source_id=table["source_id"][row].as_py(),
                    characters=len(text),
                    text=text[:_COMPARED_CHARACTERS],
                )
                found.append(((topic, order), sample))
    return [sample for _, sample in sorted(found, key=lambda pair: pair[0])]


def write_samples(out: Out, samples: Sequence[Sample], names: Sequence[str]) -> None:
    """Writes samples.json: for each topic's name its sampled documents, with the first 600 characters of each."""
    value: dict[str, list[dict[str, object]]] = {name: [] for name in names}
    for each in samples:
        value[names[each.topic]].append(
            {
                "id": each.id,
                "source": each.source,
                "source_id": each.source_id,
                "characters": each.characters,
                "text": each.text[:_EXCERPT_CHARACTERS],
            }
        )
    write_bytes(out.file("samples.json"), json.dumps(value, indent=1, ensure_ascii=False).encode())


def write_questions(
    out: Out, samples: Sequence[Sample], names: Sequence[str], topic_documents: Sequence[int], count: int, seed: int
) -> None:
    """Writes intruder_questions.jsonl, five excerpts each, and intruder_answers.jsonl, which of them is the intruder."""
    questions, answers = [], []
    asked = make_questions([each.topic for each in samples], topic_documents, count, seed)
    for number, question in enumerate(asked):
        shown = [samples[place] for place in question.documents]
        excerpts = [{"id": each.id, "text": each.text[:_EXCERPT_CHARACTERS]} for each in shown]
        questions.append({"question": number, "documents": excerpts})
        answers.append(
            {
                "question": number,
                "intruder": question.answer,
                "topic": names[question.topic],
                "intruder_topic": names[question.intruder_topic],
            }
        )
    for name, rows in (("intruder_questions", questions), ("intruder_answers", answers)):
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_bytes(out.file(f"{name}.jsonl"), lines.encode())
