"""The language model that py3langid carries, as arrays, and its scores of texts.

An automaton over UTF-8 bytes finds 100,000 selected byte sequences (Lui & Baldwin 2012, "langid.py", ACL demos); a naive
Bayes table weighs log(1 + count) of each by language. The probabilities are its softmax at a temperature of
sqrt(bytes), which py3langid chose so that a score of 0.9 means the same for short and long texts. Only the package's
data file is read. What is ours is the kernel, and what is a language: the labels with an ISO 639-1 code, regional
varieties counted for the language that they are written in, and one label for text in no language.

Cost: 10 MB of text a second on one core; 2 s and 150 MB a process for the model.
"""

import functools
import io
import lzma
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import numba
import numpy as np

from marin_exec import ConfigError
from steps.distributions import installed_distribution

NO_LANGUAGE = "zxx"
"""ISO 639-2 code of text in no language: tables, encoded data."""
VARIETIES = {"ary": "ar", "arz": "ar", "nn": "no", "uzs": "uz", "wuu": "zh", "yue": "zh"}
"""Labels of the model that count for a language with a code of two letters."""
_BATCH_BYTES, _BATCH_TEXTS = 16_000_000, 4_096


@dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """C columns (labels of the model that are used), L labels, F features, S states, R distinct rows of the automaton."""

    labels: tuple[str, ...]
    """L ISO 639-1 codes in order, and `NO_LANGUAGE` last."""
    label_of_column: np.ndarray
    """int64[C] which label a column counts for."""
    next_state: np.ndarray
    """uint32[R * 256]."""
    row_of_state: np.ndarray
    """uint16[S]."""
    feature_of_state: np.ndarray
    """int32[S], -1 for none."""
    weights: np.ndarray
    """float32[F, C]."""
    prior: np.ndarray
    """float32[C]."""

    def only(self, languages: tuple[str, ...]) -> "LanguageModel":
        """Returns the model that knows these languages, and `NO_LANGUAGE`, alone.

        Raises:
            ConfigError: one is not known.
        """
        if unknown := sorted(set(languages) - set(self.labels[:-1])):
            raise ConfigError(f"languages: {unknown} are not known; the model knows {', '.join(self.labels[:-1])}")
        labels = (*sorted(set(languages)), NO_LANGUAGE)
        chosen = np.flatnonzero([self.labels[label] in labels for label in self.label_of_column])
        return LanguageModel(
            labels=labels,
            label_of_column=np.array([labels.index(self.labels[self.label_of_column[column]]) for column in chosen]),
            next_state=self.next_state,
            row_of_state=self.row_of_state,
            feature_of_state=self.feature_of_state,
            weights=np.ascontiguousarray(self.weights[:, chosen]),
            prior=self.prior[chosen],
        )


@functools.lru_cache(maxsize=2)
def load_model(pinned: str, languages: tuple[str, ...] | None = None) -> LanguageModel:
    """Returns the model of an installed py3langid.

    Args:
        pinned: distribution and version as the experiment states them, e.g. "py3langid==0.4.0".
        languages: the only languages to consider; None considers all.

    Raises:
        IdentityMismatch: it is not installed, or in another version.
        ConfigError: the distribution has no model, or one of the languages is not in it.
    """
    advice = "Install the project's lock, which has it, or state the version that is installed"
    distribution = installed_distribution(pinned, f"language model {pinned}", advice)
    files = [file for file in distribution.files or () if file.name == "model.npz.xz"]
    if not files:
        raise ConfigError(f"language model {pinned}: the distribution has no model.npz.xz; reinstall it with its files")
    with np.load(io.BytesIO(lzma.decompress(Path(str(files[0].locate())).read_bytes()))) as arrays:
        names = [VARIETIES.get(name, name) for name in arrays["classes"].tolist()]
        labels = (*sorted({name for name in names if len(name) == 2}), NO_LANGUAGE)
        chosen = [column for column, name in enumerate(names) if name in labels]
        model = LanguageModel(
            labels=labels,
            label_of_column=np.array([labels.index(names[column]) for column in chosen]),
            next_state=arrays["nextmove"],
            row_of_state=arrays["nextmove_row"],
            feature_of_state=arrays["out_feat"],
            weights=np.ascontiguousarray(arrays["ptc"][:, chosen].astype(np.float32)),
            prior=arrays["pc"][chosen],
        )
    return model if languages is None else model.only(languages)


def probabilities(model: LanguageModel, texts: list[str]) -> np.ndarray:
    """Returns float64[T, L], how likely each text is in each of `model.labels`; rows sum to 1.

    A text in which the model knows no sequence (empty, a digit) says nothing: each column gets the same.
    """
    encoded = [_encoded(text) for text in texts]
    rows, start = [np.zeros((0, len(model.labels)))], 0
    while start < len(encoded):
        size, end = 0, start
        last = min(len(encoded), start + _BATCH_TEXTS)
        while end < last and (end == start or size + len(encoded[end]) <= _BATCH_BYTES):
            size += len(encoded[end])
            end += 1
        rows.append(_batch(model, encoded[start:end]))
        start = end
    return np.concatenate(rows)


def _encoded(text: str) -> bytes:
    """As the model was trained: composed, and in small letters where there is nothing else."""
    if text.isupper():
        text = text.lower()
    return (text if text.isascii() else unicodedata.normalize("NFC", text)).encode()


def _batch(model: LanguageModel, encoded: list[bytes]) -> np.ndarray:
    lengths = np.array([len(each) for each in encoded], dtype=np.int64)
    edges = np.concatenate([[0], np.cumsum(lengths)])
    scores = np.empty((len(encoded), model.prior.size), dtype=np.float32)
    _score(
        np.frombuffer(b"".join(encoded), dtype=np.uint8),
        edges,
        model.next_state,
        model.row_of_state,
        model.feature_of_state,
        model.weights,
        model.prior,
        scores,
    )
    scaled = scores.astype(np.float64) / np.sqrt(np.maximum(lengths, 1))[:, None]
    columns = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    labels = np.zeros((len(encoded), len(model.labels)))
    for column, label in enumerate(model.label_of_column):
        labels[:, label] += columns[:, column]
    return labels / labels.sum(axis=1, keepdims=True)


@numba.njit(cache=True)
def _score(data, edges, next_state, row_of_state, feature_of_state, weights, prior, scores):
    counts = np.zeros(weights.shape[0], dtype=np.int32)
    met = np.empty(weights.shape[0], dtype=np.int32)  # features of this text, in order of appearance
    for text in range(edges.size - 1):
        num_met, state = 0, np.int64(0)
        for place in range(edges[text], edges[text + 1]):
            state = np.int64(next_state[(np.int64(row_of_state[state]) << 8) + data[place]])
            feature = feature_of_state[state]
            if feature >= 0:
                if counts[feature] == 0:
                    met[num_met] = feature
                    num_met += 1
                counts[feature] += 1
        for column in range(prior.size):
            scores[text, column] = prior[column] if num_met else 0.0
        for number in range(num_met):
            feature = met[number]
            weight = np.float32(np.log1p(np.float64(counts[feature])))
            counts[feature] = 0
            for column in range(prior.size):
                scores[text, column] += weight * weights[feature, column]
