"""What comes from files cannot command a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rockafellian._internal.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 猫 😀", "plain é 猫 😀"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("two\r\nlines\ttab", r"two\r\nlines\ttab"),
        ("\x9b2J", r"\x9b2J"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("a\udcffb", r"a\udcffb"),
    ],
)
def test_what_a_terminal_might_obey_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_every_text_becomes_one_line_without_control_characters(text: str) -> None:
    shown = printable(text)
    shown.encode()
    assert len(shown.splitlines()) <= 1
    assert all(letter.isprintable() or letter == " " or ord(letter) > 0x9F for letter in shown)
