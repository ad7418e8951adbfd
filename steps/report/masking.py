"""Personal data on pages: e-mail addresses and telephone numbers are shown as dots, character by character.

Masked text has the length of the original, so places in it stay right. Version numbers, dates, hashes, IP addresses and tables of
numbers are left alone: a number is a telephone's by its form (a leading "+", brackets, 3-3-4 digits, a leading 0 with
a separator) or by the word before it.
"""

import re

DOT = "\N{BULLET}"

_AT = r"\s?(?:@|\[at\]|\(at\)|＠)\s?"
_POINT = r"(?:\.|\s?(?:\[dot\]|\(dot\))\s?)"
_NAME = r"(?<![\w.+%'-])[\w.+%'-]{1,64}"  # bounded, and not begun in mid-word: a page may hold a line of a megabyte
_EMAIL = re.compile(
    rf"{_NAME}{_AT}[\w-]{{1,63}}(?:{_POINT}[\w-]{{1,63}}){{1,9}}|{_NAME} at [\w-]{{1,63}}(?: dot [\w-]{{1,63}}){{1,9}}",
    re.IGNORECASE,
)
_SEPARATED = r"[ \u00a0.()/-]{0,3}"
_PHONE = re.compile(
    rf"(?<![\w.+])(?:\+|00){_SEPARATED}[1-9]\d{{0,2}}(?:{_SEPARATED}\d){{6,12}}(?![\w])"  # +49 30 1234567
    r"|(?<![\w])\(\d{2,5}\)[ \u00a0-]?\d{3,4}[ .-]?\d{3,5}(?!\w)"  # (030) 1234567, (415) 555-0132
    r"|(?<![\w.-])\d{3}[-. ]\d{3}[-. ]\d{4}(?![\w-]|\.\d)"  # 415-555-0132
    r"|(?<![\w.-])0\d{1,4}[ /-]\d{3,4}(?:(?:[ -]\d{2}){2}|[ -]?\d{2,4})(?![\w-]|[. ]\d)"  # 030/123 45 67, 020 7946 0018
    r"|(?<![\w.-])0\d(?:[ .]\d{2}){4}(?!\w)"  # 01 23 45 67 89
    r"|(?:\b(?:tel|phone|telephone|fax|mobile|cell|call|電話|电话)\b\.?:?\s{0,2})\+?\(?\d(?:[ \u00a0.()/-]{0,2}\d){5,13}",
    re.IGNORECASE,
)


def mask_personal(text: str) -> str:
    """Returns the text with the letters and digits of e-mail addresses and telephone numbers replaced by dots."""
    for pattern in (_EMAIL, _PHONE):
        text = pattern.sub(lambda found: re.sub(r"\w", DOT, found[0]), text)
    return text
