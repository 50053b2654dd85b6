"""Find the code on a page of the documentation, so that tests can run it."""

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^(?:    .*\n?)+", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of Python.

    Attributes:
        line: Where its code begins in the file, counted from 1.
        code: The code.
        expected: What it prints: the block of `text` that follows it directly, or None if there is none.
    """

    line: int
    code: str
    expected: str | None


def python_blocks(text: str) -> list[Block]:
    """The blocks of Python on a page, in order."""
    found, blocks = list(FENCE.finditer(text)), []
    for number, match in enumerate(found):
        if match[1] != "python":
            continue
        after = found[number + 1] if number + 1 < len(found) else None
        follows = after and after[1] == "text" and not text[match.end() : after.start()].strip()
        line = text.count("\n", 0, match.start()) + 2
        blocks.append(Block(line, match[2], after[2] if after and follows else None))
    return blocks


def commands(text: str) -> list[str]:
    """The commands `aon ...` on a page: lines of fenced or indented blocks, without their comments."""
    indented = INDENTED.findall(FENCE.sub("", text))
    fenced = [body for kind, body in FENCE.findall(text) if kind not in ("python", "text", "mermaid")]
    lines = [line.strip().removeprefix("$ ") for body in (*indented, *fenced) for line in body.splitlines()]
    return [line.partition("  #")[0].partition(" # ")[0].strip() for line in lines if line.startswith("aon ")]


def pages(root: Path) -> list[Path]:
    """Every document of the repository that may hold code or commands."""
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
