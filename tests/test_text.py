"""Text from others is shown, never obeyed."""

import pytest

from fedsparse.text import visible


@pytest.mark.parametrize("code", [*range(32), 127, *range(128, 160)])
def test_control_characters_are_shown(code):
    assert visible(f"a{chr(code)}b").isprintable()
    assert visible(f"a{chr(code)}b") != "ab"


@pytest.mark.parametrize(
    "sign", "\u061c\u200b\u200e\u200f\u202a\u202e\u2028\u2029\u2066\u2069\ufeff"
)
def test_marks_that_hide_turn_or_break_are_shown(sign):
    assert visible(sign) == f"\\u{ord(sign):04x}"


def test_half_a_character_is_shown():
    assert visible("a\udc80") == r"a\udc80"


@pytest.mark.parametrize("text", ["", "plain", "naïve τ ℓ2 − 年齢", "a\u00a0b", r"C:\x1b"])
def test_what_people_write_stays_as_it_is(text):
    assert visible(text) == text
    assert visible(visible(f"{text}\x1b")) == visible(f"{text}\x1b")
