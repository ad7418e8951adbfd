"""Kernels on one text's code points: where its words, lines and paragraphs are, and what is counted in them.

A word is what stands between white space; in scripts without spaces each letter or digit is one, with the marks and
punctuation that follow it. A line lies between line feeds, without its outer white space, and is not blank. A paragraph
is a run of such lines with no blank line between.
"""

import numba
import numpy as np

from steps.heuristics.characters import (
    ALNUM,
    ALPHA,
    BASE64,
    BULLET,
    CLOSER,
    DIGIT,
    HEX,
    LINE_BREAK,
    LINE_END,
    QUOTE,
    SENTENCE_END,
    SENTENCE_MARK,
    SINGLE,
    SPACE,
)

_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)

SHORT_LINE_CHARACTERS = 30
LONGEST_TAG_CHARACTERS = 300
LONGEST_ENTITY_CHARACTERS = 10
SHORTEST_BASE64_CHARACTERS = 64
SHORTEST_HEX_ITEMS = 8
LONGEST_HEADER_NAME_CHARACTERS = 30
NUM_COUNTS = 23


@numba.njit(cache=True)
def find_words(codes, flags):
    """Returns int64[W] begins and ends of the words."""
    starts = np.empty(codes.size, dtype=np.int64)
    ends = np.empty(codes.size, dtype=np.int64)
    num_words = 0
    inside = after_single = False
    for place in range(codes.size):
        flag = flags[codes[place]]
        if flag & SPACE:
            if inside:
                ends[num_words - 1] = place
            inside = False
            continue
        single = flag & SINGLE > 0
        if not inside or single or (after_single and flag & ALNUM > 0):
            if inside:
                ends[num_words - 1] = place
            starts[num_words] = place
            num_words += 1
            after_single = single
        inside = True
    if inside:
        ends[num_words - 1] = codes.size
    return starts[:num_words].copy(), ends[:num_words].copy()


@numba.njit(cache=True)
def find_lines(codes, flags):
    """Returns int64[L] begins and ends of the lines, and int64[P] begins and ends of the paragraphs."""
    size = np.count_nonzero(codes == 10) + 1
    starts, ends = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    paragraph_starts, paragraph_ends = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    num_lines = num_paragraphs = 0
    first = last = -1  # of this line, what is no white space
    in_paragraph = False
    for place in range(codes.size + 1):
        if place == codes.size or codes[place] == 10:
            if first < 0:
                in_paragraph = in_paragraph and place == codes.size
            else:
                starts[num_lines], ends[num_lines] = first, last + 1
                num_lines += 1
                if not in_paragraph:
                    paragraph_starts[num_paragraphs] = first
                    num_paragraphs += 1
                paragraph_ends[num_paragraphs - 1] = last + 1
                in_paragraph = True
            first = last = -1
        elif not flags[codes[place]] & SPACE:
            last = place
            if first < 0:
                first = place
    return (
        starts[:num_lines].copy(),
        ends[:num_lines].copy(),
        paragraph_starts[:num_paragraphs].copy(),
        paragraph_ends[:num_paragraphs].copy(),
    )


@numba.njit(cache=True)
def count_words(codes, flags, small, starts, ends, stop_words):
    """Returns how many characters words have, how many have a letter, and how many of the stop words occur.

    Args:
        stop_words: uint64[at most 64] from `word_hash`, sorted.
    """
    characters = alphabetic = 0
    met = np.uint64(0)
    for word in range(starts.size):
        start, end = starts[word], ends[word]
        characters += end - start
        for place in range(start, end):
            if flags[codes[place]] & ALPHA:
                alphabetic += 1
                break
        if stop_words.size == 0:
            continue
        while start < end and flags[codes[start]] & QUOTE:
            start += 1
        while end > start and flags[codes[end - 1]] & QUOTE:
            end -= 1
        state = _FNV_OFFSET
        for place in range(start, end):
            state = (state ^ np.uint64(small[codes[place]])) * _FNV_PRIME
        found = np.searchsorted(stop_words, state)
        if found < stop_words.size and stop_words[found] == state:
            met |= np.uint64(1) << np.uint64(found)
    different = 0
    while met:
        met &= met - np.uint64(1)
        different += 1
    return characters, alphabetic, different


@numba.njit(cache=True)
def word_hash(codes, small):
    """The hash by which `count_words` knows a stop word."""
    state = _FNV_OFFSET
    for code in codes:
        state = (state ^ np.uint64(small[code])) * _FNV_PRIME
    return state


@numba.njit(cache=True)
def count_lines(codes, flags, small, starts, ends, header_names):
    """Returns how many lines begin with a bullet, end in an ellipsis, end with punctuation, are short, are of a mail.

    Args:
        header_names: uint64[H] from `word_hash` of names of mail headers, sorted. A line is of a mail if it quotes (">") or is
            such a header, or one whose name begins with "x-".
    """
    bullets = ellipses = punctuated = short = mail = 0
    for line in range(starts.size):
        start, end = starts[line], ends[line]
        last = flags[codes[end - 1]]
        bullets += flags[codes[start]] & BULLET > 0
        dots = end - start >= 3 and codes[end - 1] == 46 and codes[end - 2] == 46 and codes[end - 3] == 46
        ellipses += dots or codes[end - 1] == 0x2026
        punctuated += last & LINE_END > 0
        short += end - start < SHORT_LINE_CHARACTERS
        if codes[start] == 62:  # >
            mail += 1
            continue
        place, state = start, _FNV_OFFSET
        while place < end and place - start <= LONGEST_HEADER_NAME_CHARACTERS:
            code = small[codes[place]]
            if not (97 <= code <= 122 or code == 45):
                break
            state = (state ^ np.uint64(code)) * _FNV_PRIME
            place += 1
        if place > start and place < end and codes[place] == 58:  # :
            found = np.searchsorted(header_names, state)
            known = found < header_names.size and header_names[found] == state
            mail += known or (place - start > 2 and small[codes[start]] == 120 and codes[start + 1] == 45)
    return bullets, ellipses, punctuated, short, mail


@numba.njit(cache=True)
def count_characters(codes, flags, small):
    """Returns counts of: white space, letters and digits, letters, digits, "#", ellipses, "{", sentence ends, "lorem ipsum"."""
    lorem = np.array([108, 111, 114, 101, 109, 32, 105, 112, 115, 117, 109], dtype=np.uint32)
    spaces = alnum = letters = digits = hashes = ellipses = brackets = sentences = lorems = 0
    size, next_dots, next_lorem = codes.size, 0, 0
    for place in range(size):
        code = codes[place]
        flag = flags[code]
        spaces += flag & SPACE > 0
        alnum += flag & ALNUM > 0
        letters += flag & ALPHA > 0
        digits += flag & DIGIT > 0
        hashes += code == 35
        brackets += code == 123
        sentences += flag & SENTENCE_MARK > 0
        ellipses += code == 0x2026
        if flag & SENTENCE_END:
            after = place + 1
            while after < size and flags[codes[after]] & CLOSER:
                after += 1
            sentences += after == size or flags[codes[after]] & SPACE > 0
            if (
                code == 46
                and place >= next_dots
                and place + 2 < size
                and codes[place + 1] == 46
                and codes[place + 2] == 46
            ):
                ellipses += 1
                next_dots = place + 3
        if small[code] == 108 and place >= next_lorem and place + lorem.size <= size:
            step = 0
            while step < lorem.size and small[codes[place + step]] == lorem[step]:
                step += 1
            if step == lorem.size:
                lorems += 1
                next_lorem = place + step
    return spaces, alnum, letters, digits, hashes, ellipses, brackets, sentences, lorems


@numba.njit(cache=True)
def count_code_lines(codes, flags):
    """Returns the number, the characters in all, and the longest of the lines as `str.splitlines` has them, blank ones too."""
    lines = characters = longest = start = 0
    place = 0
    while place < codes.size:
        if flags[codes[place]] & LINE_BREAK:
            lines += 1
            characters += place - start
            longest = max(longest, place - start)
            if codes[place] == 13 and place + 1 < codes.size and codes[place + 1] == 10:
                place += 1
            start = place + 1
        place += 1
    if start < codes.size:
        lines += 1
        characters += codes.size - start
        longest = max(longest, codes.size - start)
    return lines, characters, longest


@numba.njit(cache=True)
def count_markup(codes, small):
    """Returns the characters in tags (<a ...>, </a>, <!...>) and entities (&amp;, &#8217;)."""
    characters = place = 0
    while place < codes.size - 2:
        opens = codes[place]
        step = 1
        if opens == 60:  # <
            code = small[codes[place + 1]]
            if 97 <= code <= 122 or code == 47 or code == 33:
                while (
                    place + step < codes.size and step < LONGEST_TAG_CHARACTERS and codes[place + step] not in (60, 62)
                ):
                    step += 1
                if place + step < codes.size and codes[place + step] == 62:
                    characters += step + 1
                    place += step
        elif opens == 38:  # &
            while place + step < codes.size and step < LONGEST_ENTITY_CHARACTERS:
                code = small[codes[place + step]]
                if not (97 <= code <= 122 or 48 <= code <= 57 or (step == 1 and code == 35)):
                    break
                step += 1
            if step > 2 and place + step < codes.size and codes[place + step] == 59:
                characters += step + 1
                place += step
        place += 1
    return characters


@numba.njit(cache=True)
def _hexadecimal_run(codes, flags, place):
    """Returns how many bytes follow each other from `place` on, and where the last one ends."""
    items, end = 0, place
    while True:
        if place + 1 < codes.size and codes[place] in (48, 92) and codes[place + 1] in (120, 88):  # 0x, \\x
            place += 2
        if place + 1 >= codes.size or not flags[codes[place]] & HEX or not flags[codes[place + 1]] & HEX:
            return items, end
        place += 2
        if place < codes.size and flags[codes[place]] & ALNUM:
            return items, end  # a longer word or number
        items += 1
        end = place
        while place < codes.size and (codes[place] == 44 or flags[codes[place]] & SPACE):
            place += 1


@numba.njit(cache=True)
def count_encoded(codes, flags):
    """Returns the characters in runs of encoded data, and those of the longest run.

    A run is base64 (64 or more of its characters, half of them letters or digits), or 8 or more bytes in hexadecimal
    (each perhaps after 0x or a backslash and x) with commas and white space between.
    """
    characters = longest = place = 0
    while place < codes.size:
        start, alnum = place, 0
        while place < codes.size and flags[codes[place]] & BASE64:
            alnum += flags[codes[place]] & ALNUM > 0
            place += 1
        run = place - start
        if run >= SHORTEST_BASE64_CHARACTERS and 2 * alnum >= run:
            characters += run
            longest = max(longest, run)
        place += run == 0
    place = 0
    while place < codes.size:
        begins = place == 0 or not flags[codes[place - 1]] & ALNUM
        if begins and (flags[codes[place]] & HEX or codes[place] == 92):
            items, end = _hexadecimal_run(codes, flags, place)
            if items >= SHORTEST_HEX_ITEMS:
                characters += end - place
                longest = max(longest, end - place)
                place = end
                continue
        place += 1
    return characters, longest


@numba.njit(cache=True)
def find_pieces(codes, flags, small, stop_words, header_names):
    """Returns what `find_words` and `find_lines` find, and float64[`NUM_COUNTS`] of what the others count, in order.

    One call a text: for the shortest ones calls are what costs.
    """
    starts, ends = find_words(codes, flags)
    line_starts, line_ends, paragraph_starts, paragraph_ends = find_lines(codes, flags)
    counts = np.empty(NUM_COUNTS)
    counts[0], counts[1], counts[2] = count_words(codes, flags, small, starts, ends, stop_words)
    counts[3], counts[4], counts[5], counts[6], counts[7] = count_lines(
        codes, flags, small, line_starts, line_ends, header_names
    )
    found = count_characters(codes, flags, small)
    for number in range(9):
        counts[8 + number] = found[number]
    counts[17], counts[18], counts[19] = count_code_lines(codes, flags)
    counts[20], counts[21] = count_encoded(codes, flags)
    counts[22] = count_markup(codes, small)
    return starts, ends, line_starts, line_ends, paragraph_starts, paragraph_ends, counts
