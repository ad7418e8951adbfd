"""WordPiece for a whole batch of texts in one compiled pass: the token ids that the `tokenizers` package gives, much sooner.

BERT's normaliser and splitter treat every code point on its own, so what they do is written into tables once, by asking
them about each code point. A text where that is not so (it spells a special token such as "[SEP]", or holds marks that
normalisation may put in another order) is left to the package itself. The kernel is compiled by numba on first
use (about 3 s, cached beside this file).
"""

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from unicodedata import category, combining

import numba
import numpy as np
from tokenizers import Tokenizer

from steps.embed.minilm_files import cut_texts, load_tokenizer
from steps.splitmix import FIRST_MULTIPLIER, SECOND_MULTIPLIER

_SPACE, _WORD, _PUNCTUATION, _ODD = range(4)
_LISTED = 0x30000
"""Code points from here on (private use, tags, later ideographs) are rare enough to be left to the package."""
_LONGEST_WORD = 100
"""`max_input_chars_per_word` of BERT's WordPiece: a longer word is unknown as a whole."""
_FNV_PRIME = np.uint64(0x100000001B3)
_OPENING, _CONTINUING = np.uint64(0xCBF29CE484222325), np.uint64(0x84222325CBF29CE4)
_SEPARATOR = "\u2603"  # any character that normalisation leaves alone
_SPECIAL = re.compile(r"\[(?:PAD|UNK|CLS|SEP|MASK)\]")


class Tokens(NamedTuple):
    """The tokens of n texts, T in all."""

    ids: np.ndarray
    """int32[T]."""
    starts: np.ndarray
    """int64[n + 1]: text i has ids[starts[i] : starts[i + 1]]."""


class _Tables(NamedTuple):
    classes: np.ndarray
    """uint8 of each code point in `codes`, and `_ODD` there where a code point is not to be looked up."""
    codes: np.ndarray
    """uint32: what each code point below `_LISTED` becomes, one after the other."""
    starts: np.ndarray
    """int32[_LISTED + 1]: where in `codes` that begins."""
    slots: np.ndarray
    """int32, a power of two long: token ids by hash, -1 where there is none; the next free slot after a collision."""
    token_codes: np.ndarray
    """uint32: the characters of all tokens, without "##"."""
    token_starts: np.ndarray
    """int64[V + 1]."""
    continues: np.ndarray
    """bool[V]: the token was written with "##"."""
    longest_token: int
    unknown: int


@functools.cache
def _tables(directory: Path) -> _Tables:
    tokenizer = load_tokenizer(directory, 512)
    odd = np.array([0xD800 <= each < 0xE000 or _stays_in_another_place(chr(each)) for each in range(_LISTED)])
    normal = iter(_normalised([chr(each) for each in range(_LISTED) if not odd[each]], tokenizer))
    becomes = [chr(each) if odd[each] else next(normal) for each in range(_LISTED)]
    codes = np.frombuffer("".join(becomes).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    starts = np.cumsum([0, *map(len, becomes)], dtype=np.int32)
    classes = _classes(tokenizer)[codes]
    classes[starts[:-1][odd]] = _ODD
    vocabulary = sorted(tokenizer.get_vocab(with_added_tokens=True).items(), key=lambda pair: pair[1])
    return _Tables(
        classes=classes,
        codes=codes,
        starts=starts,
        unknown=tokenizer.token_to_id("[UNK]"),
        **_vocabulary_tables([token for token, _ in vocabulary]),
    )


def _stays_in_another_place(character: str) -> bool:
    """Whether a mark has a place in the canonical order and is no accent (Mn), which normalisation takes out."""
    return combining(character) != 0 and category(character) != "Mn"


def _normalised(characters: list[str], tokenizer: Tokenizer) -> list[str]:
    """Returns what the normaliser makes of each character; in one call for all of them, which is ten times as fast."""
    separated = [each for each in characters if each != _SEPARATOR]
    found = iter(tokenizer.normalizer.normalize_str(_SEPARATOR.join(separated)).split(_SEPARATOR))
    return [_SEPARATOR if each == _SEPARATOR else next(found) for each in characters]


def _classes(tokenizer: Tokenizer) -> np.ndarray:
    """Returns uint8[0x110000]: what each code point is to the splitter; surrogates, which no text holds, are spaces."""
    characters = [chr(each) for each in range(_LISTED) if not 0xD800 <= each < 0xE000]
    classes = np.full(0x110000, _SPACE, dtype=np.uint8)
    for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str("a".join(characters)):
        # Between two letters a word's character is never alone, and what belongs to no piece is a space.
        codes = np.frombuffer(piece.encode("utf-32-le"), dtype=np.uint32)
        classes[codes] = _PUNCTUATION if len(piece) == 1 and piece != "a" else _WORD
    return classes


def _vocabulary_tables(tokens: list[str]) -> dict:
    continues = np.array([token.startswith("##") and len(token) > 2 for token in tokens])
    spelled = [token[2:] if each else token for token, each in zip(tokens, continues, strict=True)]
    codes = [np.frombuffer(token.encode("utf-32-le"), dtype=np.uint32) for token in spelled]
    flat, starts = np.concatenate(codes), np.cumsum([0, *map(len, codes)])
    slots = np.full(1 << (8 * len(tokens)).bit_length(), -1, dtype=np.int32)
    _fill_slots(slots, flat, starts, continues)
    return {
        "slots": slots,
        "token_codes": flat,
        "token_starts": starts,
        "continues": continues,
        "longest_token": max(map(len, codes)),
    }


@numba.njit(cache=True)
def _slot(state, mask):
    state = (state ^ (state >> np.uint64(30))) * FIRST_MULTIPLIER
    state = (state ^ (state >> np.uint64(27))) * SECOND_MULTIPLIER
    return np.int64((state ^ (state >> np.uint64(31))) & mask)


@numba.njit(cache=True)
def _fill_slots(slots, token_codes, token_starts, continues):
    mask = np.uint64(slots.size - 1)
    for token in range(continues.size):
        state = _CONTINUING if continues[token] else _OPENING
        for place in range(token_starts[token], token_starts[token + 1]):
            state = (state ^ np.uint64(token_codes[place])) * _FNV_PRIME
        slot = _slot(state, mask)
        while slots[slot] >= 0:
            slot = (slot + 1) & (slots.size - 1)
        slots[slot] = token


@numba.njit(cache=True)
def _find(state, word, start, end, tables):
    """Returns the token spelled word[start:end], or -1; `state` is the hash of it."""
    slot = _slot(state, np.uint64(tables.slots.size - 1))
    while True:
        token = tables.slots[slot]
        if token < 0:
            return -1
        first = tables.token_starts[token]
        if tables.token_starts[token + 1] - first == end - start and tables.continues[token] == (start > 0):
            same = True
            for offset in range(end - start):
                if tables.token_codes[first + offset] != word[start + offset]:
                    same = False
                    break
            if same:
                return token
        slot = (slot + 1) & (tables.slots.size - 1)


@numba.njit(cache=True)
def _split_word(word, length, ids, count, states, tables):
    """Writes the tokens of word[:length] to `ids` from `count` on, longest match first; returns the new count."""
    opened, start = count, 0
    while start < length:
        state = _CONTINUING if start else _OPENING
        end = min(length, start + tables.longest_token)
        for place in range(start, end):
            state = (state ^ np.uint64(word[place])) * _FNV_PRIME
            states[place] = state
        token = -1
        while end > start:
            token = _find(states[end - 1], word, start, end, tables)
            if token >= 0:
                break
            end -= 1
        if token < 0:
            ids[opened] = tables.unknown
            return opened + 1
        ids[count] = token
        count += 1
        start = end
    return count


@numba.njit(cache=True)
def _tokenize(codes, edges, max_tokens, tables):
    """Returns int32[n, at most max_tokens] ids flat, and int64[n]: how many each text has, -1 if it was not for us."""
    room = 0
    for text in range(edges.size - 1):
        room += min(max_tokens, 3 * (edges[text + 1] - edges[text])) + _LONGEST_WORD
    ids, counts = np.empty(room, dtype=np.int32), np.zeros(edges.size - 1, dtype=np.int64)
    word, states = np.empty(_LONGEST_WORD, dtype=np.uint32), np.empty(_LONGEST_WORD, dtype=np.uint64)
    total = 0
    for text in range(edges.size - 1):
        opened, count, length = total, total, 0
        for place in range(edges[text], edges[text + 1] + 1):  # one more, to end the last word
            first, last = 0, 0
            if place < edges[text + 1]:
                if codes[place] >= _LISTED:
                    count = -1
                    break
                first, last = tables.starts[codes[place]], tables.starts[codes[place] + 1]
            else:
                first, last = -1, 0
            for at in range(first, last):
                kind = _SPACE if at < 0 else tables.classes[at]
                if kind == _WORD:
                    if length < _LONGEST_WORD:
                        word[length] = tables.codes[at]
                    length += 1
                    continue
                if kind == _ODD:
                    count = -1
                    break
                if length > _LONGEST_WORD:
                    ids[count] = tables.unknown
                    count += 1
                elif length > 0:
                    count = _split_word(word, length, ids, count, states, tables)
                length = 0
                if kind == _PUNCTUATION:
                    word[0] = tables.codes[at]
                    count = _split_word(word, 1, ids, count, states, tables)
            if count < 0 or count - opened >= max_tokens:
                break
        counts[text] = -1 if count < 0 else min(max_tokens, count - opened)
        total = opened + max(0, counts[text])
    return ids[:total].copy(), counts


def tokenize_batch(texts: Sequence[str], directory: Path, max_tokens: int) -> Tokens:
    """Returns each text's first `max_tokens` token ids, without [CLS] and [SEP], as `minilm_files.tokenize` does.

    Args:
        texts: any texts; about 30 bytes a character of working memory.
        directory: of the model's files.
        max_tokens: tokens kept of each text.
    """
    texts = cut_texts(texts, max_tokens)
    # A text with a special token in it is emptied here, and done by the package below.
    special = {row for row, text in enumerate(texts) if "[" in text and _SPECIAL.search(text)}
    joined = "".join("" if row in special else text for row, text in enumerate(texts))
    lengths = [0 if row in special else len(text) for row, text in enumerate(texts)]
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    ids, counts = _tokenize(codes, np.cumsum([0, *lengths]), max_tokens, _tables(directory))
    left = sorted(special | set(np.flatnonzero(counts < 0).tolist()))
    if not left:
        return Tokens(ids, np.concatenate([[0], np.cumsum(counts)]))
    tokenizer = load_tokenizer(directory, max_tokens)
    pieces = np.split(ids, np.cumsum(np.maximum(counts, 0))[:-1])
    for row, encoding in zip(
        left, tokenizer.encode_batch_fast([texts[row] for row in left], add_special_tokens=False), strict=True
    ):
        pieces[row] = np.array(encoding.ids, dtype=np.int32)
    return Tokens(np.concatenate(pieces), np.cumsum([0, *map(len, pieces)]))
