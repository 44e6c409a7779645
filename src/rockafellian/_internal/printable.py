"""Text from files, safe to print in a terminal."""

import re

#: Control characters, line ends other than a space, marks that change the direction of text, and lone surrogates.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Return the text in one line, with each character that a terminal might obey as an escape such as \x1b."""
    return UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)
