"""Formats: the text that a person would read, of every kind of file in the corpora, and of files made to break readers."""

import gzip
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steps.sources.decoding import Unusable
from steps.sources.formats.brown import Brown
from steps.sources.formats.dictd import Dictd
from steps.sources.formats.file import Piece, SourceFile
from steps.sources.formats.fortunes import Fortunes
from steps.sources.formats.html import Html, html_text
from steps.sources.formats.mail import Mail
from steps.sources.formats.mallard import Mallard
from steps.sources.formats.man import Man, man_text
from steps.sources.formats.plain import JsonText, PlainText, PythonSource
from steps.sources.formats.pod import Pod, pod_text
from steps.sources.formats.rst import Rst, rst_text
from steps.sources.formats.wordnet import WordNet

FORMATS = (
    *(Brown(), Dictd(), Fortunes(), Html(), JsonText(), Mail(), Mallard(), Man()),
    *(PlainText(), Pod(), PythonSource(), Rst(), WordNet()),
)


def pieces(format, folder: Path, content: bytes, name: str = "folder/a.txt", **beside: bytes) -> list[Piece]:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    for other, data in beside.items():
        path.with_name(other.replace("_", ".")).write_bytes(data)
    return list(format.pieces(SourceFile(folder, name)))


def text(format, folder: Path, content: bytes, name: str = "folder/a.txt", **beside: bytes) -> str:
    (piece,) = pieces(format, folder, content, name, **beside)
    return piece.text


def test_html_keeps_paragraphs_lists_listings_and_cells():
    page = """<!DOCTYPE html><html><head><title>Not this</title><style>p { a > b }</style></head><body>
    <nav><p>menu</p></nav><h1>A &amp; B</h1><p>one
       two <em>three</em>&nbsp;four</p><ul><li>first<li>second</ul>
    <pre>  if a &lt; b:
        c()</pre><table><tr><td>x</td><td>y</td></tr><tr><td>z</td></tr></table><script>if (a < b) "</p>"</script></body>"""
    assert html_text(page) == (
        "A & B\n\none two three\u00a0four\n\nfirst\nsecond\n\n  if a < b:\n        c()\n\nx y\nz\n"
    )


def test_html_takes_one_element_and_leaves_out_classes_in_it():
    page = (
        '<div>top</div><div role="main"><div class="a toc">links<div>x</div></div><div>body<div>deep</div></div>'
        "</div><div>footer</div>"
    )
    assert html_text(page, "role=main", frozenset({"toc"})) == "body\n\ndeep\n"
    assert html_text(page, "id=absent") == "top\n\nlinks\n\nx\n\nbody\n\ndeep\n\nfooter\n"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("a < b <3 <> c", "a < b <3 <> c\n"),
        ("<p title='a > b'>in</p>", "in\n"),
        ('<p title="a > b" x>in</p>', "in\n"),
        ("<a href=x'y>in</a>", "in\n"),
        ("<!-- <p>no --> yes <!-- never closed <p>no", "yes\n"),
        ("seen <p title='never closed", "seen\n"),
        ("seen <script>never closed", "seen\n"),
        ("<SCRIPT>x</SCRIPT >seen", "seen\n"),
        ("&#x41;&#65;&bogus;&lt;", "AA&bogus;<\n"),
        ("</div></p>left over", "left over\n"),
        ("<?xml version='1'?><p>in", "in\n"),
        ("", ""),
    ],
)
def test_html_that_is_odd_is_read_as_browsers_do(page, expected):
    assert html_text(page) == expected


def test_html_is_decoded_by_its_charset(tmp_path):
    assert text(Html(), tmp_path, '<meta charset="euc-jp"><p>日本'.encode("euc-jp")) == "日本\n"
    assert text(Html(), tmp_path, '<?xml version="1.0" encoding="iso-8859-1"?><p>é'.encode("latin-1")) == "é\n"
    assert text(Html(), tmp_path, "\ufeff<p>é".encode()) == "é\n"
    with pytest.raises(Unusable, match="undecodable"):
        pieces(Html(), tmp_path, b"<meta charset=klingon><p>x")


def test_mallard_leaves_out_head_and_credits(tmp_path):
    page = """<page xmlns="http://projectmallard.org/1.0/" id="a"><info><credit><name>Ann</name></credit><desc>no</desc></info>
      <title>Format a <gui>disk</gui></title><!-- no --><p>Press
        <key>F1</key> and run <code>ls</code>.</p><steps><item><p>One</p></item><item><p>Two</p></item></steps>
      <code>a
  b</code></page>"""
    expected = "Format a disk\n\nPress F1 and run ls.\n\nOne\n\nTwo\n\na\n  b\n"
    assert text(Mallard(), tmp_path, page.encode()) == expected


def test_mallard_entities_cannot_grow(tmp_path):
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<!DOCTYPE page [<!ENTITY e0 "ha">{levels}]><page><p>&e11;</p></page>'
    with pytest.raises(Unusable, match="unparsed"):
        pieces(Mallard(), tmp_path, bomb.encode())
    outside = '<!DOCTYPE page [<!ENTITY x SYSTEM "file:///etc/passwd">]><page><p>&x;</p></page>'
    with pytest.raises(Unusable, match="unparsed"):
        pieces(Mallard(), tmp_path, outside.encode())


def test_man_page_of_man_macros():
    source = r""".\" comment
.TH LS 1 "2020" "GNU"
.de XX
nothing
..
.SH NAME
ls \- list \fBdirectory\fP contents \(em all
.SH SYNOPSIS
.B ls
.RI [ OPTION ]...
.nf
int main(void);
    return 0;
.fi
.if n .ds Aq '
.ie \n(.g \{\
hidden
.\}
.TP
.B \-a
do not ignore \\(rs
.IP \(bu 2
item
.TS
tab(;);
l l.
x;y
T{
long
cell
T};z
.TE
.UR http://e.org
"""
    assert man_text(source) == (
        "NAME\n\nls - list directory contents — all\n\nSYNOPSIS\n\nls [OPTION]...\n\nint main(void);\n    return 0;\n\n"
        "-a\ndo not ignore \\(rs\n\n• item\n\nx y\nlong cell z\n\nhttp://e.org\n"
    )


def test_man_page_of_mdoc_macros():
    source = r""".Dd May 1, 2020
.Dt TAR 1
.Sh NAME
.Nm tar
.Nd make archives
.Sh SYNOPSIS
.Nm
.Op Fl x Ar file
.Bl -tag
.It Fl f Ar archive
Read, see
.Xr cpio 1 .
.El
"""
    expected = "NAME\n\ntar make archives\n\nSYNOPSIS\n\ntar [-x file]\n\n-f archive\nRead, see cpio(1) .\n"
    assert man_text(source) == expected


def test_man_page_that_names_another_is_an_alias(tmp_path):
    with pytest.raises(Unusable, match="alias"):
        pieces(Man(), tmp_path, b'.\\" comment\n.so man3/printf.3\n')
    assert text(Man(), tmp_path, b".so man3/x.3\n.SH NAME\nx\n") == "NAME\n\nx\n"


def test_pod_codes_lists_and_parts_for_other_formats():
    source = """=head1 NAME

perl - I<the> B<F<nice> one>, C<< a->b >> and C<$a E<lt> $b>, L<see|perlfunc>, L<perlop>X<index>

=over 4

=item *

a
b

=item -x

  verbatim I<not>

=back

=begin html

<p>no</p>

=end html

=for comment no

=cut

code, not pod

=head2 More
"""
    assert pod_text(source) == (
        "NAME\n\nperl - the nice one, a->b and $a < $b, see, perlop\n\na b\n\n-x\n\n  verbatim I<not>\n\nMore\n"
    )


def test_rst_roles_targets_comments_and_options():
    source = """.. _label:

Title
=====

See :ref:`that <there>`, :class:`~a.B`, ``code`` and `link <http://x>`__.

.. a comment
   of two lines

.. note:: Careful
   :class: red

   Inside.

.. toctree::
   :maxdepth: 1

   a
   b

.. code-block:: python

    x = 1

After.
"""
    assert rst_text(source) == (
        "Title\n\nSee that, B, code and link.\n\nCareful\n\n   Inside.\n\n    x = 1\n\nAfter.\n".replace("B,", "a.B,")
    )


def test_fortunes_lose_what_terminals_made_of_them(tmp_path):
    content = b"\x1b[32mgreen\x1b[m\n%\n_\x08b_\x08i\n\tg\n%\n%\n100%\n % \n%\nlast"
    found = pieces(Fortunes(), tmp_path, content)
    assert [(each.place, each.text) for each in found] == [
        ("1", "green\n"),
        ("2", "bi\n\tg\n"),
        ("4", "100%\n % \n"),
        ("5", "last\n"),
    ]


def test_dictd_entries_come_once_in_order_of_the_file(tmp_path):
    first, second = b"cat\n  An {animal}.\n", "dög\n  Another.\n".encode()
    info = b"about"
    index = b"00-database-info\tA\tF\ndog\tY\tQ\nhound\tY\tQ\ncat\tF\tT\n"
    assert (len(info), len(first), len(second)) == (5, 19, 16)
    found = pieces(Dictd(), tmp_path, gzip.compress(info + first + second), "d/x.dict.dz", x_index=index)
    assert [(each.text, each.fields) for each in found] == [
        ("cat\n  An animal.\n", {"headword": "cat"}),
        ("dög\n  Another.\n", {"headword": "dog"}),
    ]


@pytest.mark.parametrize("index", [b"cat\tF\n", b"cat\t!\tQ\n", b"cat\t////\tQ\n"])
def test_dictd_index_that_is_damaged_is_said(tmp_path, index):
    with pytest.raises(Unusable, match="damaged"):
        pieces(Dictd(), tmp_path, gzip.compress(b"x" * 30), "d/x.dict.dz", x_index=index)


def test_dictd_without_its_index_is_incomplete(tmp_path):
    with pytest.raises(Unusable, match="incomplete"):
        pieces(Dictd(), tmp_path, gzip.compress(b"x"), "e/x.dict.dz")


def test_wordnet_lines_give_words_and_gloss(tmp_path):
    content = (
        b'  1 licence\n00002684 03 a 02 galore(ip) 0 physical_thing 0 000 | in great numbers; "daffodils galore"  \n'
    )
    (piece,) = pieces(WordNet(), tmp_path, content)
    assert piece == Piece(
        'galore, physical thing: in great numbers; "daffodils galore"\n', "2", {"part_of_speech": "a"}
    )
    with pytest.raises(Unusable, match="damaged"):
        pieces(WordNet(), tmp_path, b"00002684 03 a zz\n")


def test_brown_is_set_as_prose_with_its_genre(tmp_path):
    content = b"\n\n\tThe/at jury/nn said/vbd ``/`` no/at evidence/nn ''/'' ,/, and/cc or/cc (/( 1/2/cd )/) ./.\n\n\tNext/ap ./.\n"
    (piece,) = pieces(Brown(), tmp_path, content, "p/ca01", cats_txt=b"ca01 news\nca02 news\n")
    assert piece == Piece("The jury said “no evidence”, and or (1/2).\nNext.\n", fields={"genre": "news"})


def test_mail_gives_subject_and_plain_text(tmp_path):
    content = (
        "From: a@b.c\nSubject: =?utf-8?b?w6k=?=\n  two\nMIME-Version: 1.0\nContent-Type: multipart/alternative; boundary=x\n\n"
        "--x\nContent-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\ncaf=E9\n"
        "--x\nContent-Type: text/html\n\n<p>no</p>\n--x--\n"
    )
    (piece,) = pieces(Mail(labels=(("spam", "spam"),)), tmp_path, content.encode(), "data/spam-2/1.txt")
    assert piece == Piece("é two\n\ncafé\n", fields={"folder": "spam-2", "label": "spam"})


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ("Subject: =?nonsense?q?x?=\nContent-Type: text/plain; charset=klingon", "caf\xe9", "café"),
        ("Content-Type: text/html", "<p>a<script>b</script>", "a"),
        ("Subject: \xff\xfe", "x", "x"),
    ],
)
def test_mail_with_false_headers_is_read(tmp_path, headers, body, expected):
    (piece,) = pieces(Mail(), tmp_path, f"{headers}\n\n{body}".encode("latin-1"))
    assert piece.text.split("\n\n")[1] == f"{expected}\n"


def test_mail_without_text_is_left_out(tmp_path):
    with pytest.raises(Unusable, match="no_text"):
        pieces(Mail(), tmp_path, b"Subject: x\nContent-Type: image/png\n\nAAAA")


def test_json_text_needs_its_field(tmp_path):
    (piece,) = pieces(JsonText(fields=("year", "absent")), tmp_path, b'{"text": "t", "year": 1909, "x": []}')
    assert piece == Piece("t", fields={"year": 1909})
    for content in (b'{"t": 1}', b"[1]", b'{"text": 3}'):
        with pytest.raises(Unusable, match="no_text_field"):
            pieces(JsonText(), tmp_path, content)
    for content in (b"{", b"[" * 100_000):
        with pytest.raises(Unusable, match="unparsed"):
            pieces(JsonText(), tmp_path, content)


def test_gzip_that_is_damaged_or_too_large_is_left_out(tmp_path, monkeypatch):
    whole = gzip.compress(b"word " * 10_000)
    assert text(PlainText(), tmp_path, whole, "a.txt.gz") == "word " * 10_000
    for content in (whole[:-9], b"no gzip"):
        with pytest.raises(Unusable, match="damaged"):
            pieces(PlainText(), tmp_path, content, "a.txt.gz")
    monkeypatch.setattr("steps.sources.formats.file._LARGEST_BYTES", 49_999)
    with pytest.raises(Unusable, match="too_large"):
        pieces(PlainText(), tmp_path, whole, "a.txt.gz")


@settings(deadline=None)
@given(content=st.binary(max_size=300) | st.text(alphabet="<>/a&;\"'= \\.\n{}|:`*_%", max_size=300).map(str.encode))
def test_formats_of_any_bytes_give_text_or_a_reason(tmp_path_factory, content):
    folder = tmp_path_factory.getbasetemp() / "any"
    for format in FORMATS:
        try:
            for piece in pieces(
                format, folder, content, "d/x.dict.txt", x_index=content, cats_txt=b"x.dict.txt news\n"
            ):
                assert isinstance(piece.text, str)
        except Unusable as reason:
            assert str(reason).isidentifier()


HOSTILE = {
    "open brackets": b"<" * 300_000,
    "open tags": b"<a " * 100_000,
    "open quotes": b"<a b='\"" * 40_000,
    "equal signs": b"<a " + b"= " * 100_000,
    "comments": b"<!--" * 80_000,
    "raw elements": b"<title>" * 40_000,
    "entities": b"&" * 300_000,
    "nested codes": b"B<" * 100_000,
    "wide codes": b"C<< " * 20_000,
    "backticks": b":a:`" * 80_000,
    "backslashes": b"\\" * 300_001,
    "arguments": b'.B "' + b'" ' * 100_000,
    "conditions": b".if \\{\n" * 40_000,
    "deep": b"<page>" * 100_000,
    "spaces": b" " * 1_000_000,
    "boundaries": b"Content-Type: multipart/mixed; boundary=x\n\n" + b"--x\n" * 20_000,
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=list(HOSTILE))
def test_formats_of_hostile_files_take_linear_time(tmp_path, content):
    for format in FORMATS:
        began = time.process_time()
        try:
            pieces(format, tmp_path, content, "d/x.dict.txt", x_index=b"", cats_txt=b"x.dict.txt news\n")
        except Unusable:
            pass
        assert time.process_time() - began < 5, format  # quadratic readers take minutes here
