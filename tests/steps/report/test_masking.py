"""Masking of personal data: what is one, what only looks like it, and what masking may not change."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steps.report.masking import DOT, mask_personal


@pytest.mark.parametrize(
    "text",
    [
        "jane.doe+x@mail.example.co.uk",
        "<a@b.org>",
        "a [at] b [dot] org",
        "a(at)b.org",
        "jane at example dot com",
        "用户＠例子.公司",
        "+49 30 1234567",
        "+1 (415) 555-0132",
        "+493012345678",
        "0044 20 7946 0018",
        "(030) 1234567",
        "415-555-0132",
        "030/123 45 67",
        "020 7946 0018",
        "01 23 45 67 89",
        "Tel.: 12 34 56 78",
        "phone 5551234",
    ],
)
def test_masking_hides_every_letter_and_digit_of_addresses_and_numbers(text):
    masked = mask_personal(f"before {text}, after")
    kept = masked.removeprefix("before ").removesuffix(", after")
    assert masked.startswith("before ") and masked.endswith(", after") and DOT in kept
    words = ("Tel", "phone")
    assert not any(character.isdigit() for character in kept)
    assert text.startswith(words) or not any(character.isalpha() for character in kept)


@pytest.mark.parametrize(
    "text",
    [
        "version 1.2.3.4",
        "numpy==2.5.5",
        "2024-01-02 12:30:45",
        "1999-2004",
        "192.168.100.200:8080",
        "d41d8cd98f00b204e9800998ecf8427e",
        "0x00451234",
        "1 2 3 4 5 6 7 8 9 10 11 12",
        "0755 1000 1000 4096",
        "100 200 300",
        "3.14159265358979 and 0.123456789",
        "1,234,567,890",
        "ISBN 0-306-40615-2",
        "10.1145/1327452.1327492",
        "line 1234567890",
        "00000000 00000010",
        "look at example.com",
        "@decorator, a @ b, x@",
        "2**64 - 1",
    ],
)
def test_masking_leaves_what_is_no_address_or_number_alone(text):
    assert mask_personal(text) == text


@given(st.text(st.sampled_from("ab1 0+@.-()/[at]\n２é中"), max_size=60))
def test_masking_keeps_length_and_is_done_once(text):
    masked = mask_personal(text)
    assert len(masked) == len(text)
    assert all(new in (old, DOT) for old, new in zip(text, masked, strict=True))


def test_masking_long_text_takes_no_long_time():
    """No pattern may go back and forth over a long run of digits or of name characters."""
    for text in ("1" * 50_000, "a." * 25_000, "0 1" * 20_000, "a@" * 20_000, "(" * 50_000, "+1 " * 20_000):
        assert len(mask_personal(text)) == len(text)


UNSEEN = "\x00\x1b\u034f\u0301\u061c\u115f\u180e\u200b\u200c\u200d\u200e\u202e\u2060\u2066\u3164\ufe0f\ufeff\U000e0041\U000e0101"
NEEDLES = ("jane.doe@example.com", "+49 30 1234567", "415-555-0132", "030/123 45 67")


@given(st.sampled_from(NEEDLES), st.lists(st.tuples(st.integers(0, 20), st.sampled_from(UNSEEN)), max_size=5))
def test_masking_what_draws_nothing_hides_no_address(needle, inserted):
    """Directions of writing, joiners, selectors, tags, fillers and controls stand in texts, by chance or to hide something."""
    text = needle
    for place, character in inserted:
        text = text[:place] + character + text[place:]
    found = mask_personal(f"before {text}, after")
    assert len(found) == len(text) + 14 and found.startswith("before ") and found.endswith(", after")
    assert not any(character.isalnum() for character in found[7:-7].replace("\u115f", "").replace("\u3164", ""))
    assert [each for each in found if each in UNSEEN] == [each for each in text if each in UNSEEN]


@pytest.mark.parametrize("digits", ["０１２３４５６７８９", "٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९"])
def test_masking_digits_of_any_script_are_digits(digits):
    translated = "030-1234-5678".translate({ord(str(number)): digit for number, digit in enumerate(digits)})
    assert mask_personal(f"({translated})") == f"({DOT * 3}-{DOT * 4}-{DOT * 4})"


@pytest.mark.parametrize(
    "text", ["０３－１２３４－５６７８", "jane﹫example.com", "jane@example&#46;com", "jane&#64;example&#x2E;com"]
)
def test_masking_other_forms_of_the_same_signs_hide_nothing(text):
    assert DOT in mask_personal(text) and not {"1", "１", "jane", "example"} & set(
        re.findall(r"\w+", mask_personal(text))
    )
