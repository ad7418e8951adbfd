"""Passages to be read side by side: a document's paragraph and a benchmark's item, with what they share marked.

Texts are shown as they stand, except those that only fold as a whole (see steps/decontaminate/folding.py), which are shown folded.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from steps.decontaminate.features import Features, extract_features, runs_of
from steps.decontaminate.index import FeatureIndex

_LEAD = 200  # characters shown before the first mark where the beginning is cut off
_FAR = 400  # where the first mark is so far in, the beginning is cut off


@dataclass(frozen=True)
class Passage:
    text: str
    marks: list[list[int]]
    """[first, after] of the characters that are shared, ascending."""
    cut: bool
    """Whether only a part is shown."""


def side_by_side(
    index: FeatureIndex, text: str, paragraph: int, record: int, characters: int
) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Returns the document's passage, the record's, and the folded text from the first shared feature to the last.

    Args:
        index: of all benchmarks.
        text: the document's.
        paragraph: as numbered in the match table.
        record: number of the record in the index.
        characters: passages are cut to so many.
    """
    features = extract_features([text], index.ngram_words, index.shortest_words)
    number = int(features.paragraphs[0]) + paragraph
    own = np.flatnonzero(features.paragraphs == number)
    members = np.flatnonzero(features.words.paragraphs == number)
    # A text of short paragraphs alone counts as one, whose features reach beyond the first.
    last_word = max(int(members[-1]), int((features.firsts + features.lengths)[own].max()) - 1)
    shared = [_Shared(features, own[index.find(features.hashes[own]) >= 0])]
    if index.run_lengths:
        runs = runs_of(features, index.run_lengths, index.run_bitmap)
        inside = np.flatnonzero(runs.paragraphs == number)
        found = index.find(runs.hashes[inside])
        shared.append(_Shared(runs, inside[(found >= 0) & index.is_run[found]]))
    spans = np.concatenate([each.spans() for each in shared])
    document = _passage(features, int(members[0]), last_word, spans, characters)

    hashes = np.concatenate([each.features.hashes[each.chosen] for each in shared])
    item = extract_features([index.records[record].text], index.ngram_words, index.shortest_words, of_records=True)
    in_item = _Shared(item, np.flatnonzero(np.isin(item.hashes, hashes)))
    last = len(item.words.hashes) - 1
    excerpt = features.words.excerpt(int(spans[:, 0].min()), int(spans[:, 1].max()) - 1)
    return asdict(document), asdict(_passage(item, 0, last, in_item.spans(), characters)), excerpt


@dataclass(frozen=True)
class _Shared:
    features: Features
    chosen: np.ndarray

    def spans(self) -> np.ndarray:
        """Returns int64[C, 2]: first word and the one after the last, of each chosen feature."""
        firsts = self.features.firsts[self.chosen]
        return np.stack([firsts, firsts + self.features.lengths[self.chosen]], axis=1)


def _passage(features: Features, first: int, last: int, spans: np.ndarray, characters: int) -> Passage:
    """Returns the text from word `first` to word `last` with spans of words marked."""
    words = features.words
    covered = np.zeros(last - first + 3, dtype=np.int8)
    for begin, after in spans:
        covered[begin - first + 1 : after - first + 1] = 1
    edges = np.flatnonzero(np.diff(covered))
    begins, ends = words.starts[first + edges[0::2]], words.ends[first + edges[1::2] - 1]
    origin = int(words.starts[first])

    def place(byte: int) -> int:
        return len(words.data[origin:byte].tobytes().decode("utf-8", "surrogatepass"))

    text = words.data[origin : words.ends[last]].tobytes().decode("utf-8", "surrogatepass")
    marks = [[place(int(begin)), place(int(end))] for begin, end in zip(begins, ends, strict=True)]
    skip = marks[0][0] - _LEAD if marks and marks[0][0] > _FAR else 0
    shown = text[skip : skip + characters]
    inside = [[begin - skip, min(end - skip, characters)] for begin, end in marks if begin - skip < characters]
    return Passage(shown, inside, len(shown) < len(text))
