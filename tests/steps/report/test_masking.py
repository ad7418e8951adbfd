"""Masking of personal data: what is one, what only looks like it, and what masking may not change."""

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
