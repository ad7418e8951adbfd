"""Text of documents as a page may show it: e-mail addresses and telephone numbers as dots, nothing in it that acts on the page.

A pattern cannot know a person. Better one number too many than an address too few: what looks like either is masked. Not
masked are versions, dates, times, IP addresses, ISBNs, hashes and plain numbers, which carry a text's sense. Text of sources
with personal data is never shown at all (`shown`); this is for the rest.
"""

import re
import unicodedata

DOT = "\N{BULLET}"

_JOINERS = re.compile("[\u00ad\u200b\u2060\ufeff]")
"""Draw nothing, and hide an address from a pattern. Not the joiners U+200C and U+200D, which Persian and Hindi spell with."""
_ACTING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\uffff]")
"""Turn the direction of what follows, or are no characters."""
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
"""Draws nothing (Unicode's Default_Ignorable_Code_Point, controls), or only on the character before: looked through."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_AT = (
    r"(?:[@\uff20]|%40|&\#0*64;|&\#[xX]0*40;|&commat;"
    r"|\s?[\[({<]\s?(?:at|AT|At|@)\s?[\])}>]\s?|\s(?:AT|at)\s(?=\S+\s(?:DOT|dot)\s))"
)
_DOT = r"(?:[.\u3002\uff0e]|&\#0*46;|&\#[xX]0*2[eE];|&period;|\s?[\[({<]\s?(?:dot|DOT|Dot|\.)\s?[\])}>]\s?|\s(?:DOT|dot)\s)"
_EMAIL = re.compile(
    rf"""(?:"[^"\n]{{1,64}}"|[\w.+\-'!\#$%&*/=?^`{{|}}~\u200c\u200d]{{1,64}}){_AT}
    (?:(?:[\w\-]{{1,63}}{_DOT}){{1,8}}[^\W\d_][\w\-]{{1,62}}|localhost\b|\[[\d.:a-fA-F]{{3,45}}\])""",
    re.VERBOSE,
)
_SEPARATOR = r"[\s.\-\u2010-\u2015\u2212\u00a0\u2009\u202f/()]"
_APART = r"(?<![\w.,:/%&=\#\-])(?<!\d[ \-/.])"
"""A number begins here, and is no part of a longer one."""
_ENDS = r"(?![\w:]|[.,\-/]\w|\ \d)"
_INTERNATIONAL = re.compile(rf"(?<![\w.])(?:\+|\uff0b|\b00(?=[1-9]))\(?\d(?:{_SEPARATOR}{{0,3}}\d){{6,13}}(?!\w)")
_AMERICAN = re.compile(
    rf"(?:{_APART}(?:1{_SEPARATOR})?\d{{3}}|(?<!\w)(?:1{_SEPARATOR}{{1,2}})?\(\d{{3}}\){_SEPARATOR}?)"
    rf"{_SEPARATOR}?\d{{3}}[.\-\u2010-\u2015 ]\d{{4}}{_ENDS}"
)
_NATIONAL = re.compile(rf"{_APART}\(?0[1-9]\d{{0,4}}\)?(?:[ \-/\u2010-\u2015]{{1,3}}\d{{2,9}}){{1,4}}{_ENDS}")
_CALLED = re.compile(
    r"(?i)\b((?:tel|phone|telephone|fax|mobile|cell|call|telefon|tél|тел|电话|電話)\b\.?\s?[:：.]?\s?(?:no\.?\s?)?)"
    rf"(\(?\d(?:{_SEPARATOR}{{0,2}}\d){{5,14}})"
)
_NATIONAL_DIGITS = range(9, 13)
_EDGE = 200  # characters from a cut in which half an address is looked for
_EDGE_ADDRESS = r"\S*(?:[@\uff20]|%40)\S*"
_EDGE_NUMBER = r"(?![+()\s./-]{0,3}\d{4}-\d\d-\d\d(?!\d))[+()\s.\-/]{0,3}\d(?:[\s.\-()/]{0,2}\d){4,}[\s.\-()/]{0,2}"


def mask_personal(text: str) -> str:
    """Returns the text with letters and digits of addresses and numbers replaced by `DOT`: it keeps its length."""
    if text.isascii() and not _UNSEEN.search(text):
        return _dotted(text)
    places = [place for place, character in enumerate(text) if not _UNSEEN.match(character)]
    plain = "".join(_plain(text[place]) for place in places)
    characters = list(text)
    for place, before, after in zip(places, plain, _dotted(plain), strict=True):
        if after != before:
            characters[place] = after
    return "".join(characters)


def _dotted(plain: str) -> str:
    for pattern in (_EMAIL, _INTERNATIONAL, _CALLED, _AMERICAN, _NATIONAL):
        plain = pattern.sub(_dots, plain)
    return plain


def _plain(character: str) -> str:
    """A full-width or small form as the usual one, any script's digit as ASCII's."""
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return str(digit)
    usual = unicodedata.normalize("NFKC", character)
    return usual if len(usual) == 1 else character


def masked(text: str, *, cut_before: bool = False, cut_after: bool = False) -> str:
    """Returns the text masked, with no character in it that hides an address or acts on a page.

    Args:
        text: of a document, or a part of it.
        cut_before: it begins in mid-text: half an address or number may stand at its beginning.
        cut_after: the same of its end.
    """
    text = mask_personal(_JOINERS.sub("", text))
    if cut_before:
        head, rest = text[:_EDGE], text[_EDGE:]
        text = re.sub(rf"^(?:{_EDGE_ADDRESS}|{_EDGE_NUMBER}(?!\w))", _dots, head) + rest
    if cut_after:
        rest, tail = text[:-_EDGE], text[-_EDGE:]
        text = rest + re.sub(rf"(?:{_EDGE_ADDRESS}|(?<!\w){_EDGE_NUMBER})$", _dots, tail)
    text = _ACTING.sub(lambda found: f"\u27e8U+{ord(found[0]):04X}\u27e9", text)
    return _CONTROL.sub(_picture, text)


def not_inside(text: str, place: int) -> int:
    """Returns the place, or the end of the address or number that it lies in."""
    for pattern in (_EMAIL, _INTERNATIONAL, _CALLED, _AMERICAN, _NATIONAL):
        for found in pattern.finditer(text):
            if found.start() < place < found.end():
                place = found.end()
    return place


def _dots(found: re.Match[str]) -> str:
    if found.re is _NATIONAL and not _is_number(found[0]):
        return found[0]
    called = found[1] if found.re is _CALLED else ""  # the word before the number stays
    return called + re.sub(r"\w", DOT, found[0][len(called) :])


def _is_number(text: str) -> bool:
    groups = re.findall(r"\d+", text)
    octal = len(groups) > 2 and all(each.startswith("0") for each in groups)  # file modes, counters
    return sum(map(len, groups)) in _NATIONAL_DIGITS and not octal


def _picture(found: re.Match[str]) -> str:
    """A sign for a control character; a carriage return and the like only where it draws nothing itself."""
    code = ord(found[0])
    if code == 0x0D:
        return ""
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"
