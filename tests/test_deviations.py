"""Departures from the sources: each mark in the code is listed in docs/reproducing.md, and the reverse."""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MARK = "Deviation:"


def marked() -> Counter[str]:
    """Number of marks by file."""
    files = (ROOT / "src").rglob("*.py")
    counts = {path: len(re.findall(rf"\b{MARK}", path.read_text(encoding="utf-8"))) for path in files}
    return Counter({path.relative_to(ROOT).as_posix(): count for path, count in counts.items() if count})


def listed() -> Counter[str]:
    """Number of entries by file, in the list that follows the word `Deviation:`."""
    text = (ROOT / "docs/reproducing.md").read_text(encoding="utf-8")
    section = text.split(f"`{MARK}`", 1)[1].split("\n## ", 1)[0]
    entries = re.findall(r"^- \*.*?(?=^- |\Z)", section, re.MULTILINE | re.DOTALL)
    return Counter(file for entry in entries for file in re.findall(r"\(`(src/[\w/.]+)`\)", entry))


def test_every_mark_is_listed_and_every_entry_is_marked() -> None:
    assert marked()
    assert listed() == marked()
