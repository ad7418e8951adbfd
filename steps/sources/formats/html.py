"""HTML pages: the text of the body, or of one element in it, without scripts, navigation and forms.

One pass over the bytes with one regular expression, about 8 MB of HTML a second; any byte sequence is read in linear time.
A tag that the file ends in is dropped with all behind it, as browsers do.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from steps.sources.decoding import Unusable
from steps.sources.formats.file import Piece, SourceFile
from steps.sources.formats.layout import Layout

# A quote counts only behind "=", as in the standard; a quote that is never closed fails once, to the end of the file.
_TAG = re.compile(r"""<(/?)([a-zA-Z][^\s/>]*+)((?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')|=)*+)>""")
_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'=<>`]++))""")
_CHARSET = re.compile(rb"""charset=["']?([\w-]+)""", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"""^\s*<\?xml[^>]*encoding=["']([\w-]+)""")
_CHARSET_WITHIN_BYTES = 1_024

_RAW = frozenset({"script", "style", "textarea", "title"})  # their content has no tags
_SKIPPED = frozenset({"nav", "header", "footer", "aside", "form", "button", "select", "svg", "template", "noscript"})
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_PARAGRAPHS = frozenset(
    "address article blockquote center dd div dl dt fieldset figure h1 h2 h3 h4 h5 h6 hr main ol p section table ul".split()
)
_LINES = frozenset({"br", "li", "tr", "caption", "figcaption", "option", "summary", "details"})


@dataclass(frozen=True, kw_only=True)
class Html:
    """How pages are read."""

    content: str = ""
    """The element with the text, as "attribute=value", e.g. "role=main" or "id=content"; "" or not there: the body."""
    skip: tuple[str, ...] = ()
    """Values of class or id whose elements are left out, e.g. ("navheader",)."""

    def pieces(self, file: SourceFile) -> Iterator[Piece]:
        """Yields one text: the page's."""
        yield Piece(html_text(decoded_html(file.content()), self.content, frozenset(self.skip)))


def decoded_html(content: bytes) -> str:
    """Returns a page as text: by its byte order mark, else its stated charset, else UTF-8.

    Raises:
        Unusable: it is not in that encoding, or the encoding is unknown.
    """
    stated = _XML_ENCODING.search(content) or _CHARSET.search(content[:_CHARSET_WITHIN_BYTES])
    encoding = "utf-8-sig" if content.startswith(b"\xef\xbb\xbf") or stated is None else stated[1].decode("ascii")
    try:
        return content.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise Unusable("undecodable") from error


def html_text(page: str, content: str = "", skip: frozenset[str] = frozenset()) -> str:
    """Returns the text that a reader sees.

    Args:
        page: the HTML.
        content: as in `Html`.
        skip: as in `Html`.
    """
    text = _text_of(page, content, skip) if content else None
    return text if text is not None else _text_of(page, "", skip) or ""


class _Element:
    """Whether the walk is inside one element, told by counting the tags of its name."""

    def __init__(self) -> None:
        self.name, self.depth = "", 0

    def enter(self, name: str) -> None:
        self.name, self.depth = name, 1

    def pass_tag(self, name: str, kind: str) -> None:
        if self.depth and name == self.name:
            self.depth += {"open": 1, "close": -1}.get(kind, 0)


def _text_of(page: str, content: str, skip: frozenset[str]) -> str | None:
    """Returns the text of the element `content`, or of the whole page if that is ""; None if there is no such element."""
    layout = Layout()
    attribute, _, value = content.partition("=")
    taken, left_out = _Element(), _Element()
    found = not content
    for kind, name, attributes in _tokens(page):
        if kind == "text":
            if found and not left_out.depth:
                layout.add(html.unescape(name))
            continue
        if left_out.depth:
            left_out.pass_tag(name, kind)
        elif kind == "open" and (name in _SKIPPED or (skip and not skip.isdisjoint(_names(attributes)))):
            left_out.enter(name)
        elif not found:
            if kind == "open" and _attributes(attributes).get(attribute) == value:
                found = True
                taken.enter(name)
        else:
            taken.pass_tag(name, kind)
            if content and not taken.depth:
                break
            _lay_out(layout, name, kind)
    return layout.text() if found else None


def _tokens(page: str) -> Iterator[tuple[str, str, str]]:
    """Yields ("text", text, "") and ("open" | "close" | "void", name of the tag, its attributes), in order."""
    position = 0
    while (start := page.find("<", position)) >= 0:
        if start > position:
            yield "text", page[position:start], ""
        if page.startswith("<!--", start):
            end = page.find("-->", start + 4)
            position = end + 3 if end >= 0 else len(page)
        elif page.startswith(("<!", "<?"), start):
            end = page.find(">", start)
            position = end + 1 if end >= 0 else len(page)
        elif not page[start + 1 : start + 3].removeprefix("/")[:1].isalpha():
            yield "text", "<", ""
            position = start + 1
        elif (tag := _TAG.match(page, start)) is None:
            return
        else:
            name, attributes, position = tag[2].lower(), tag[3], tag.end()
            if tag[1]:
                yield "close", name, ""
            elif name in _RAW:
                end = re.compile(f"</{name}[ \\t\\n\\r\\f/>]", re.IGNORECASE).search(page, position)
                position = end.start() if end else len(page)
            else:
                yield "void" if name in _VOID or attributes.endswith("/") else "open", name, attributes
    if position < len(page):
        yield "text", page[position:], ""


def _attributes(text: str) -> dict[str, str]:
    return {
        name.lower(): html.unescape(double or single or bare) for name, double, single, bare in _ATTRIBUTE.findall(text)
    }


def _names(attributes: str) -> list[str]:
    """Returns the classes and the id of an element."""
    found = _attributes(attributes) if "class" in attributes or "id" in attributes else {}
    return [*found.get("class", "").split(), found.get("id", "")]


def _lay_out(layout: Layout, name: str, kind: str) -> None:
    if name == "pre":
        layout.verbatim(kind == "open")
    elif name in _PARAGRAPHS:
        layout.break_paragraph()
    elif name in _LINES:
        layout.break_line()
    elif name in ("td", "th") and kind == "open":
        layout.add(" ")
