"""Roff's escapes and arguments of requests."""

import re

_ESCAPE = re.compile(
    r"""\\(?:
      ["\#].*                                     # a comment, to the end of the line
    | [fFmMgkY](?:\[[^\]]*\]|\(..|.)              # fonts, colours
    | s(?:[+-]?\d|[+-]?\(\d\d|\[[^\]]*\]|'[^']*') # sizes
    | n[+-]?(?:\[[^\]]*\]|\(..|.)                 # registers
    | [hvwlLDbNoXxSHRZAB]'[^']*'                  # movements, lines
    | \*(?:\[(?P<string>[^\]]*)\]|\((?P<string2>..)|(?P<string1>.))
    | \[(?P<name>[^\]]*)\] | \((?P<name2>..)
    | (?P<one>.)
    )""",
    re.VERBOSE,
)
_ARGUMENT = re.compile(r'"((?:[^"]|"")*)"?|((?:\\ |\S)+)')
_ONE = {
    "-": "-",
    "e": "\\",
    "E": "\\",
    "\\": "\\",
    "~": "\u00a0",
    " ": " ",
    "t": "\t",
    "'": "'",
    "`": "`",
    "0": " ",
    ".": ".",
}
_STRINGS = {"lq": "“", "rq": "”", "R": "®", "Tm": "™", 'L"': "“", 'R"': "”", "C`": "", "C'": "", "Aq": "'"}
_CHARACTERS = {
    "em": "—", "en": "–", "hy": "-", "aq": "'", "dq": '"', "lq": "“", "rq": "”", "oq": "‘", "cq": "’", "Bq": "„", "bq": "‚",
    "Fo": "«", "Fc": "»", "fo": "‹", "fc": "›", "bu": "•", "co": "©", "rg": "®", "tm": "™", "de": "°", "ga": "`", "ha": "^",
    "ti": "~", "rs": "\\", "sl": "/", "ba": "|", "bv": "|", "at": "@", "sh": "#", "Do": "$", "Eu": "€", "mc": "µ", "mu": "×",
    "di": "÷", "+-": "±", "->": "→", "<-": "←", "<=": "≤", ">=": "≥", "!=": "≠", "==": "≡", "if": "∞", "sr": "√", "pl": "+",
    "mi": "−", "eq": "=", "lB": "[", "rB": "]", "lC": "{", "rC": "}", "la": "⟨", "ra": "⟩", "12": "½", "14": "¼", "34": "¾",
    "ss": "ß", ":a": "ä", ":o": "ö", ":u": "ü", ":A": "Ä", ":O": "Ö", ":U": "Ü", "'e": "é", "`e": "è", "'a": "á", "`a": "à",
    "'o": "ó", "'i": "í", "'u": "ú", ",c": "ç", ",C": "Ç", "^e": "ê", "^o": "ô", "^a": "â", "~n": "ñ", "oa": "å", "ao": "˚",
    "sc": "§", "ps": "¶", "dg": "†", "dd": "‡", "ct": "¢", "Po": "£", "Ye": "¥", "no": "¬", "fm": "′", "sd": "″",
}  # fmt: skip


def plain(text: str) -> str:
    """Returns text with its escapes resolved; those that print nothing are dropped."""
    return _ESCAPE.sub(_resolved, text) if "\\" in text else text


def arguments(text: str) -> list[str]:
    """Returns the arguments of a request, their escapes as they stand."""
    without_comment = re.split(r'(?<!\\)\\"', text, maxsplit=1)[0]
    return [quoted.replace('""', '"') or bare for quoted, bare in _ARGUMENT.findall(without_comment)]


def _resolved(match: re.Match[str]) -> str:
    if match["one"] is not None:
        return _ONE.get(match["one"], "" if match["one"] in "&/,|^%:)cdupr{}az" else match["one"])
    if (name := match["name"] or match["name2"]) is not None:
        return _character(name)
    string = match["string"] or match["string2"] or match["string1"]
    return _STRINGS.get(string, "") if string is not None else ""


def _character(name: str) -> str:
    if name in _CHARACTERS:
        return _CHARACTERS[name]
    if re.fullmatch(r"u[0-9A-F]{4,6}(?:_[0-9A-F]{4,6})*", name):
        points = [int(each.lstrip("u"), 16) for each in name.split("_")]
        return "".join(chr(point) for point in points if point <= 0x10FFFF)
    return ""
