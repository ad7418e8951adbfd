"""How much of a text repeats earlier parts of it: kernels on words, lines and paragraphs given as ranges of code points.

Equal pieces get equal numbers, exactly: a hash only says where to look. An (n+1)-gram is a pair of an n-gram's number and a
word's, and longer ones pairs of shorter ones. An n-gram whose beginning occurs once occurs once, and is not looked up, so
what costs is the repeated text alone.
"""

import numba
import numpy as np

from steps.splitmix import FIRST_MULTIPLIER, SECOND_MULTIPLIER

_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
NUM_NGRAM_SCORES = 10
"""Of `ngram_scores`: the most frequent 2-, 3- and 4-gram, then repeated 5- to 10-grams, then repeated 50-grams."""
NUM_SCORES = 4 + NUM_NGRAM_SCORES
"""Of `repetition_scores`."""


@numba.njit(cache=True)
def _mix(value):
    value = (value ^ (value >> np.uint64(30))) * FIRST_MULTIPLIER
    value = (value ^ (value >> np.uint64(27))) * SECOND_MULTIPLIER
    return value ^ (value >> np.uint64(31))


@numba.njit(cache=True)
def _empty_table(entries):
    size = 16
    while size < 2 * entries:
        size *= 2
    return np.full(size, -1, dtype=np.int32)


@numba.njit(cache=True)
def _number_pieces(codes, starts, ends):
    """Numbers of the pieces codes[start:end], by first occurrence; equal pieces have equal numbers."""
    numbers = np.empty(starts.size, dtype=np.int32)
    firsts = np.empty(starts.size, dtype=np.int32)
    table = _empty_table(starts.size)
    mask = table.size - 1
    num_distinct = 0
    for piece in range(starts.size):
        start, length = starts[piece], ends[piece] - starts[piece]
        state = _FNV_OFFSET
        for place in range(start, start + length):
            state = (state ^ np.uint64(codes[place])) * _FNV_PRIME
        slot = np.int64(_mix(state)) & mask
        while True:
            found = table[slot]
            if found < 0:
                table[slot] = num_distinct
                firsts[num_distinct] = piece
                numbers[piece] = num_distinct
                num_distinct += 1
                break
            other = starts[firsts[found]]
            equal = ends[firsts[found]] - other == length
            step = 0
            while equal and step < length:
                equal = codes[other + step] == codes[start + step]
                step += 1
            if equal:
                numbers[piece] = found
                break
            slot = (slot + 1) & mask
    return numbers, num_distinct


@numba.njit(cache=True)
def duplicate_pieces(codes, starts, ends):
    """Returns the share of pieces that repeat an earlier one, and the share of all their characters that is in those."""
    numbers, _ = _number_pieces(codes, starts, ends)
    repeats = characters = repeated_characters = highest = 0
    for piece in range(starts.size):
        length = ends[piece] - starts[piece]
        characters += length
        if numbers[piece] < highest:
            repeats += 1
            repeated_characters += length
        else:
            highest += 1
    if characters == 0:
        return 0.0, 0.0
    return repeats / starts.size, repeated_characters / characters


@numba.njit(cache=True)
def _longer_grams(heads, head_counts, tails, offset, num_grams):
    """Numbers of the grams (heads[i], tails[i + offset]), how often each occurs, and how many there are."""
    grams = np.empty(num_grams, dtype=np.int32)
    counts = np.zeros(num_grams, dtype=np.int32)
    firsts = np.empty(num_grams, dtype=np.int32)
    candidates = 0
    for place in range(num_grams):
        candidates += head_counts[heads[place]] > 1
    table = _empty_table(candidates)
    mask = table.size - 1
    num_distinct = 0
    for place in range(num_grams):
        head, tail = heads[place], tails[place + offset]
        gram = -1
        slot = np.int64(-1)
        if head_counts[head] > 1:
            slot = np.int64(_mix((np.uint64(head) << np.uint64(32)) ^ np.uint64(tail))) & mask
            while table[slot] >= 0:
                first = firsts[table[slot]]
                if heads[first] == head and tails[first + offset] == tail:
                    gram = table[slot]
                    break
                slot = (slot + 1) & mask
        if gram < 0:
            gram = num_distinct
            num_distinct += 1
            firsts[gram] = place
            if slot >= 0:
                table[slot] = gram
        grams[place] = gram
        counts[gram] += 1
    return grams, counts, num_distinct


@numba.njit(cache=True)
def _top_coverage(grams, counts, length, sums):
    """Characters of words in the most frequent gram; of equally frequent ones, in the one that covers most."""
    most = counts.max()
    covered = np.zeros(grams.size, dtype=np.int64)
    reached = np.zeros(grams.size, dtype=np.int64)
    best = 0
    for place in range(grams.size):
        gram = grams[place]
        if counts[gram] == most:
            covered[gram] += sums[place + length] - sums[max(place, reached[gram])]
            reached[gram] = place + length
            best = max(best, covered[gram])
    return best


@numba.njit(cache=True)
def _repeat_coverage(grams, length, sums):
    """Characters of words in grams that occurred before; numbers are by first occurrence."""
    covered = reached = highest = 0
    for place in range(grams.size):
        if grams[place] < highest:
            covered += sums[place + length] - sums[max(place, reached)]
            reached = place + length
        else:
            highest += 1
    return covered


@numba.njit(cache=True)
def ngram_scores(codes, starts, ends):
    """Returns float64[`NUM_NGRAM_SCORES`], shares of the characters in words. A word counts once, however many n-grams cover it."""
    scores = np.zeros(NUM_NGRAM_SCORES)
    sums = np.zeros(starts.size + 1, dtype=np.int64)
    for word in range(starts.size):
        sums[word + 1] = sums[word] + ends[word] - starts[word]
    words, num_distinct = _number_pieces(codes, starts, ends)
    if num_distinct == starts.size:
        return scores
    counts = np.zeros(starts.size, dtype=np.int32)
    for word in words:
        counts[word] += 1
    grams, total = words, sums[-1]
    for length in range(2, 11):
        num_grams = starts.size - length + 1
        if num_grams < 2:
            return scores
        grams, counts, num_distinct = _longer_grams(grams, counts, words, length - 1, num_grams)
        if num_distinct == num_grams:
            return scores  # all different: so are all longer ones
        if length <= 4:
            scores[length - 2] = _top_coverage(grams, counts, length, sums) / total
        else:
            scores[length - 2] = _repeat_coverage(grams, length, sums) / total
    tens = grams
    for length, add in ((20, 10), (40, 20), (50, 10)):
        num_grams = starts.size - length + 1
        if num_grams < 2:
            return scores
        tails = tens if length == 50 else grams
        grams, counts, num_distinct = _longer_grams(grams, counts, tails, length - add, num_grams)
        if num_distinct == num_grams:
            return scores
    scores[9] = _repeat_coverage(grams, 50, sums) / total
    return scores


@numba.njit(cache=True)
def repetition_scores(codes, starts, ends, line_starts, line_ends, paragraph_starts, paragraph_ends):
    """Returns float64[`NUM_SCORES`]: `duplicate_pieces` of lines and of paragraphs, then `ngram_scores` of words."""
    scores = np.empty(NUM_SCORES)
    scores[0], scores[1] = duplicate_pieces(codes, line_starts, line_ends)
    scores[2], scores[3] = duplicate_pieces(codes, paragraph_starts, paragraph_ends)
    scores[4:] = ngram_scores(codes, starts, ends)
    return scores
