"""Scores of a shard of documents as a table, and the languages that they are scored and judged in."""

import pyarrow as pa

from steps.documents import join_dense, read_table
from steps.heuristics.scores import SCORE_NAMES, score_texts


def languages_of_shard(ids: pa.Table, languages: str | None, source: str, shard: str) -> list[str] | None:
    """Returns the language of each document of a shard, or None if there is no table of languages.

    Args:
        ids: the documents' `id` column, as a table.
        languages: output of documents/language.
        source: name of the source in it.
        shard: file name.

    Raises:
        StepFailed: the table lacks the source or the shard, or was made from other documents.
    """
    if languages is None:
        return None
    where = f"{languages}/{source}"
    return join_dense(ids, read_table(where, shard, ["id", "language"]), f"{where}/{shard}")["language"].to_pylist()


def score_table(
    documents: pa.Table,
    languages: list[str] | None,
    stop_words: dict[str, tuple[str, ...]],
    default_stop_words: tuple[str, ...],
) -> pa.Table:
    """Returns `id`, `characters` (int64) and every score (float64) of a shard's documents.

    Args:
        documents: columns id, text.
        languages: of each document, or None.
        stop_words: by language; a document in another one has none.
        default_stop_words: of all documents if there are no languages.
    """
    texts = documents["text"].to_pylist()
    words = (
        [stop_words.get(each, ()) for each in languages] if languages is not None else [default_stop_words] * len(texts)
    )
    scores = score_texts(texts, words)
    columns = {name: pa.array(scores[:, column]) for column, name in enumerate(SCORE_NAMES)}
    lengths = pa.array([len(text) for text in texts], pa.int64())
    return pa.table({"id": documents["id"], "characters": lengths, **columns})
