"""Changes of bytes, of text cells and of JSON, drawn at random."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

TOKENS = [b'"', b"'", b"\\", b",", b";", b"\t", b"|", b"\n", b"\r", b"\r\n", b"\x00", b"\xef\xbb\xbf", b"\xff\xfe"]
TOKENS += [b"\xff", b"\xc3", b"\xe2\x80\xae", b"\x1b[2J", b"nan", b"inf", b"-1", b"1e999", b"9" * 400, b"{", b"[", b"}"]
TOKENS += [b"\xc3\xa9", b"\xed\xa0\x80", b"%", b"=1+1", b'""', b'"x"y', b"1,5", b"\x1a", b"NaN", b"null", b"<b>"]
CELLS = ["", " ", "nan", "NaN", "null", "NA", "None", "?", "-", "=1+1", "'=1", "'tis", "@x", "-1", "007", "1e5", "1,5"]
CELLS += [
    "1.234,56",
    "a;b",
    "a|b",
    "a,b",
    'say "hi"',
    "two\nlines",
    "cr\rhere",
    "\x1b[31mred",
    "\u202egnp",
    "é",
    "e\u0301",
]
CELLS += [
    "猫",
    "😀",
    "x" * 5000,
    "1" * 50,
    "9" * 400,
    "inf",
    "-inf",
    "1e308",
    "1e-320",
    "0x10",
    "1_000",
    "٣",
    "2024-13-45",
]
CELLS += [
    "0000-00-00",
    "31.12.2024",
    "9999999-01-01",
    "true",
    "FALSE",
    "\ufeffbom",
    "\u00a0",
    "<script>",
    "{{7*7}}",
    "a b",
]
CELLS += ["cat ", "CAT", "Cat", "\tcat", "cat;dog", "\\", '"', "\x00", "\x7f", "../x", "C:\\x", "%00", "=HYPERLINK(1)"]
VALUES: list[Any] = [None, True, False, 0, -1, 1, 2**63, 10**400, 0.5, float("nan"), float("inf"), -0.0, 1e308, "", "x"]
VALUES += [
    "\x1b[2J",
    "'",
    [],
    [None],
    {},
    {"a": 1},
    [[[[]]]],
    "nan",
    "9" * 5000,
    [1, "a"],
    {"$tensor": "no"},
    {"$tuple": 3},
]


def mutate_bytes(content: bytes, draw: random.Random) -> bytes:
    """Return the content with one to four changes."""
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        content = draw.choice(BYTE_CHANGES)(content, draw)
    return content


def _flip(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(max(len(content), 1))
    return content[:at] + bytes([content[at] ^ (1 << draw.randrange(8))]) + content[at + 1 :] if content else b"\x01"


def _cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def _delete(content: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(content) + 1)
    return content[:start] + content[start + draw.choice([1, 2, 8, 100]) :]


def _insert(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + draw.choice(TOKENS) * draw.choice([1, 1, 1, 3, 50]) + content[at:]


def _repeat(content: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(content) + 1)
    part = content[start : start + draw.choice([1, 10, 200, 5000])]
    return content[:start] + part * draw.choice([2, 3, 20]) + content[start + len(part) :]


def _swap(content: bytes, draw: random.Random) -> bytes:
    first, second = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    return content[second:] + content[first:second] + content[:first]


def _replace_line(content: bytes, draw: random.Random) -> bytes:
    lines = content.split(b"\n")
    lines[draw.randrange(len(lines))] = draw.choice(TOKENS) * draw.choice([1, 2, 7])
    return b"\n".join(lines)


def _numbers(content: bytes, draw: random.Random) -> bytes:
    """Set some bytes, as where a length or an offset is written."""
    at, size = draw.randrange(len(content) + 1), draw.choice([1, 2, 4, 8])
    return content[:at] + draw.choice([b"\xff", b"\x00", b"\x7f", b"\x80"]) * size + content[at + size :]


BYTE_CHANGES: list[Callable[[bytes, random.Random], bytes]] = [_flip, _cut, _delete, _insert, _repeat, _swap]
BYTE_CHANGES += [_replace_line, _numbers, _flip, _insert]


def mutate_json(content: bytes, draw: random.Random) -> bytes:
    """Return the JSON with one value replaced, deleted or added; or with other bytes."""
    if draw.random() < 0.2:
        return mutate_bytes(content, draw)
    value = json.loads(content)
    _mutate_value(value, draw)
    return json.dumps(value).encode()


def _mutate_value(value: Any, draw: random.Random) -> None:
    """Change one entry somewhere inside lists and dicts."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = draw.choice(keys)
        if isinstance(value[key], dict | list) and value[key] and draw.random() < 0.8:
            value = value[key]
            continue
        break
    change = draw.randrange(4)
    if change == 0:
        del value[key]
    elif change == 1 and isinstance(value, dict):
        value[draw.choice(["x", "", "$tensor"])] = value.pop(key)
    else:
        value[key] = draw.choice(VALUES)


def deep_json(depth: int = 100_000) -> bytes:
    """Return JSON nested so deep that a recursive reader fails."""
    return b"[" * depth + b"]" * depth
