"""What a page may show: addresses as people write them, windows, texts side by side, sources by their cards."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steps.report.masking import DOT, masked
from steps.report.shown import WITHHELD_PERSONAL, WITHHELD_UNKNOWN, Shower
from steps.report.side_by_side import differing, marked
from steps.sources.cards import SourceCard

MAILS = (
    "jane.doe@example.com", "mailto:jane@x.org", "jane (at) example (dot) com", "jane [at] example.com",
    "jane AT example DOT com", "jane%40example.com", "jane&#64;example.com", "jane&#x40;example.com",
    "<jane+tag@sub.example.co.uk>", '"jane doe"@example.com', "j\u200bane@exam\u200bple.com", "jane\uff20example.com",
    "用户@例子.中国", "root@localhost", "a.b@[192.168.0.1]", "JANE@EXAMPLE.COM",
)  # fmt: skip
PHONES = (
    "+1 (555) 123-4567", "555-123-4567", "(555) 123-4567", "(555)123-4567", "1-800-555-1234", "+44 20 7946 0958",
    "+49-30-1234567", "0049 30 1234567", "030 12345678", "089/12345678", "01 23 45 67 89", "555.123.4567",
    "tel:+15551234567", "Tel: 123 4567", "Phone: 5551234567", "+४९ ३० १२३४५६७", "+81\u00a03\u00a01234\u00a05678", "电话：12345678",
    "617-542-5942.", "call 555 123 4567, please",
)  # fmt: skip
NEITHER = (
    "2026-12-01", "01-12-2026", "12/01/2026", "2026-12-01 15:50:46", "1.2.3", "10.0.19041.1234", "192.168.1.100",
    "978-0-13-110362-7", "550e8400-e29b-41d4-a716-446655440000", "d41d8cd98f00b204e9800998ecf8427e", "name==1.2.3",
    "npm i left-pad@1.3.0", "@decorator", "x @ y", "0.123456789", "1234567890", "1,234,567", "RFC 2822", "0x00401000 55 89 e5",
    "01 02 03 04 05 06 07 08", "08:30-12:30", "100 200 3000 4000", "1990-1995", "https://example.com/2024/01/02/1234",
    "ISO 8601-2004", "20 000 000", "+10", "+ 1 2 3", "postgresql-15.4-1", "linux-6.1.170-3", "08-12-2026 10:30",
    "3.14159 26535 89793", "2001:db8::1", "CVE-2024-123456", "git@v2.3", "1 + 2345678", "[1, 2, 3]", "doi:10.1000/182",
    "0755 0644 0600",
)  # fmt: skip


@pytest.mark.parametrize("text", MAILS)
def test_addresses_are_masked(text):
    assert DOT in masked(f"Write to {text} today") and "example" not in masked(text).lower()


@pytest.mark.parametrize("text", PHONES)
def test_numbers_are_masked(text):
    assert DOT in masked(f"It is {text} in all")


@pytest.mark.parametrize("text", NEITHER)
def test_other_figures_stay(text):
    assert masked(f"It is {text} in all") == f"It is {text} in all"


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from(["jane.doe@example.com", "+1 (555) 123-4567"]))
def test_a_window_shows_no_part_of_what_it_cuts_through(before, window, secret):
    shower = Shower.of(
        [SourceCard(name="s", kind="help", languages=("en",), origin="o", licence="l", limits="m")], window + 1
    )
    text = "words " * 12 + secret + " words" * 60
    shown = shower.passage("s", text, start=before + 30)["text"]
    digits = sum(each.isdigit() for each in shown)
    assert digits <= 4 and not any(part in shown for part in ("jane", "doe", "exam", "mple", "com"))


@given(st.text(st.characters(codec=None), max_size=300), st.booleans(), st.booleans())
def test_any_text_becomes_one_that_can_be_written(text, cut_before, cut_after):
    shown = masked(text, cut_before=cut_before, cut_after=cut_after)
    shown.encode("utf-8")  # no lone surrogate is left
    assert not set(shown) & {*map(chr, range(9)), "\u202e", "\u2067", "\u200b", "\x7f"}


def test_a_date_at_a_cut_stays_and_half_a_number_does_not():
    assert masked("(1996-01-02)\n", cut_before=True, cut_after=True) == "(1996-01-02)\n"
    assert (
        masked("555-123-4", cut_after=True) == "•••-•••-•"
        and masked("123-4567 is it", cut_before=True)[:8] == "•••-••••"
    )


def test_sources_are_withheld_by_card():
    card = SourceCard(name="mail", kind="mail", languages=("en",), origin="o", licence="l", limits="m", show=False)
    shower = Shower.of([card], 100)
    for source, reason in (("mail", WITHHELD_PERSONAL), ("unheard-of", WITHHELD_UNKNOWN)):
        assert shower.passage(source, "secret")["text"] == "" and shower.passage(source, "secret")["withheld"] == reason
        assert shower.name(source, "inbox/jane@example.com") == ""


@settings(max_examples=40)
@given(st.text(max_size=60), st.text(max_size=60))
def test_segments_are_the_texts(one, other):
    for text, side in zip((one, other), differing(one, other), strict=True):
        assert "".join(part for part, _ in side) == text
    assert not any(differs for side in differing(one, one) for _, differs in side)


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("a b c", "a x c", (["b"], ["x"])),
        ("wrapped\n  anew", "wrapped anew", ([], [])),
        ("知識は力", "知識は力なり", ([], ["なり"])),
        ("Same", "same", (["Same"], ["same"])),
    ],
)
def test_words_that_differ_are_marked(one, other, words):
    sides = differing(one, other)
    assert tuple([part.strip() for part, differs in side if differs] for side in sides) == words


def test_marks_cut_a_text_in_segments():
    assert marked("abcdef", [[1, 3], [5, 6]]) == [("a", False), ("bc", True), ("de", False), ("f", True)]
