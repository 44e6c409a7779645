"""Are pages, docstrings and comments in the words of the field and in American spelling? Print what is not."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Words of our own or of British spelling, and what to write instead.
INSTEAD = {
    r"by heart": "memorized",
    r"nine times in ten": "90 % interval",
    r"honest mistakes?": "model errors",
    r"leant": "predicted, or the average margin",
    r"wrong on purpose": "synthetic label noise",
    r"shares? of wrong labels": "noise rate",
    r"told the share": "contamination is given",
    r"told nothing": "the noise rate is estimated",
    r"taken for wrong": "flagged",
    r"on probation|rows? that waits?": "held-out",
    r"look wrong": "look mislabeled",
    r"utili[sz]es?": "use",
    r"in order to": "to",
    r"(?:very )?simply": "leave it out",
    r"behaviour\w*": "behavior",
    r"labell(?:ed|ing)": "labeled, labeling",
    r"(?:optimi|generali|normali|standardi|initiali|regulari|memori|summari|recogni)s(?:e[drs]?|ers|ing|ation)": "-ize",
    r"neighbour\w*": "neighbor",
    r"colour\w*": "color",
}
WORDS = re.compile("|".join(rf"\b(?:{words})\b" for words in INSTEAD), re.IGNORECASE)
#: Names in records and code of before, and quotations of code.
NOT_PROSE = re.compile(r"`[^`\n]*`|\"[a-z ]+\":|^\s*>>>.*")


def files() -> Iterator[Path]:
    """Yield all pages and all modules that users read, but for the page that quotes code of before."""
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
    yield from sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name != "faults.md")
    for folder in ("src", "reproduction/src", "examples"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def unusual(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, word and what to write instead."""
    for number, line in enumerate(text.splitlines(), start=1):
        for found in WORDS.finditer(NOT_PROSE.sub("", line)):
            better = next(better for words, better in INSTEAD.items() if re.fullmatch(words, found[0], re.IGNORECASE))
            yield number, found[0], better


def main() -> int:
    """Print what is found; return 1 if anything is."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word!r}; write {better!r}"
        for path in files()
        for number, word, better in unusual(path.read_text(encoding="utf-8"))
    ]
    sys.stdout.write("".join(f"{line}\n" for line in found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
