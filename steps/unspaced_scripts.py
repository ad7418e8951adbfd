"""Scripts that are written without spaces between words, where a word splitter takes each character for a word."""

UNSPACED_RANGES = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # iteration mark, closing mark, ideographic zero
    (0x3041, 0x312F),  # Hiragana, Katakana, Bopomofo
    (0x31A0, 0x31FF),  # Bopomofo and Katakana extensions
    (0x3400, 0x9FFF),  # Han
    (0xF900, 0xFAFF),  # Han compatibility forms that NFKC leaves alone
)
"""First and last code points. Marks, digits and punctuation lie between; what of them is a word is the splitter's."""
