"""Plain-text tables."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Rows under a header; the first `left` columns are aligned to the left, the others to the right.

    Example:
        >>> print(table(("layer", "max"), [("0", "1.25"), ("features.1", "0.9")]))
        layer        max
        0           1.25
        features.1   0.9
    """
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = []
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
