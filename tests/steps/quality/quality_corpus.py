"""A corpus whose quality is known: the texts of two sources say how good they are, and embeddings say nothing."""

from pathlib import Path

import numpy as np

from steps.documents import NamedInput, document_id, read_table, shard_names, write_table
from steps.embed.vectors import embedding_table, quantize, scale_of
from steps.quality.labels import Label, write_labels
from tests.steps.embed.test_embed_documents import write_documents

WORDS = {1: "todo fixme", 2: "misc stuff", 3: "returns value", 4: "because example", 5: "derivation explained"}
TYPES = {"code": "code", "docs": "prose"}
_FILLER = [f"filler{number}" for number in range(40)]


def text_of(source: str, score: int, number: int) -> str:
    """A text that shows its score by two words, among filler of a random length that shows nothing."""
    rng = np.random.default_rng([score, number, len(source), ord(source[0])])
    filler = rng.choice(_FILLER, size=rng.integers(5, 60)).tolist()
    return " ".join([source, WORDS[score], *filler, f"n{number}"])


def texts_by_source(per_score: int) -> dict[str, dict[str, int]]:
    return {
        source: {text_of(source, score, number): score for score in WORDS for number in range(per_score)}
        for source in TYPES
    }


def write_embeddings(directory: Path, documents: str, dimensions: int = 8, int8_range: float = 1.0) -> None:
    directory.mkdir(parents=True)
    for shard in shard_names(documents):
        ids = read_table(documents, shard, columns=["id"])["id"].to_pylist()
        vectors = np.stack([np.random.default_rng(int(each, 16)).normal(size=dimensions) for each in ids])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        table = embedding_table(ids, quantize(vectors, int8_range), scale_of(int8_range))
        write_table(str(directory / shard), table)


def write_corpus(path: Path, per_score: int = 12) -> tuple[NamedInput, ...]:
    """Writes documents/, embeddings/ and labels/labels.jsonl; returns the documents."""
    sources, labels = [], []
    for source, texts in texts_by_source(per_score).items():
        documents = write_documents(path / "documents" / source, list(texts), 25)
        write_embeddings(path / "embeddings" / source, documents)
        sources.append(NamedInput(name=source, path=documents))
        labels += [
            Label(id=document_id(text), score=score, content_type=TYPES[source], reason="known", reader="truth")
            for text, score in texts.items()
        ]
    (path / "labels").mkdir()
    write_labels(str(path / "labels/labels.jsonl"), labels)
    return tuple(sources)
