"""Draw a Mermaid flowchart as SVG, so that a page needs no script to show it.

Understands what `draw_arrows.py` writes: `flowchart TD` and lines of the form `a --> b`.
"""

import html
from graphlib import TopologicalSorter
from itertools import pairwise

ROW, GAP, HEIGHT, LETTER = 74, 26, 30, 8.2
Arrows = list[tuple[str, str]]
Places = dict[str, tuple[float, float]]


def parse(text: str) -> Arrows:
    r"""The arrows of a flowchart.

    Raises:
        ValueError: On a line that is neither the head nor an arrow.

    Example:
        >>> parse("flowchart TD\n    a --> b")
        [('a', 'b')]
    """
    head, *lines = text.strip().splitlines()
    if head.split() != ["flowchart", "TD"]:
        raise ValueError(f"{head!r}: expected 'flowchart TD'")
    arrows = []
    for line in lines:
        start, arrow, end = line.strip().partition(" --> ")
        if not arrow or not start or not end:
            raise ValueError(f"{line!r}: expected 'a --> b'")
        arrows.append((start, end))
    return arrows


def rows(arrows: Arrows) -> list[list[str]]:
    """Nodes in rows: each as low as possible above all that it points to; sorted so that few arrows cross."""
    ends: dict[str, set[str]] = {}
    for start, end in arrows:
        ends.setdefault(start, set()).add(end)
        ends.setdefault(end, set())
    height: dict[str, int] = {}
    for node in TopologicalSorter(ends).static_order():
        height[node] = 1 + max((height[end] for end in ends[node]), default=-1)
    found: list[list[str]] = [[] for _ in range(max(height.values()) + 1)]
    for node in sorted(height):
        found[height[node]].append(node)
    for lower, upper in pairwise(found):
        upper.sort(key=lambda node: _middle([lower.index(end) / len(lower) for end in ends[node] if end in lower]))
    return found[::-1]


def _middle(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.5


def draw(text: str) -> str:
    """The flowchart as an SVG element of the class `flowchart`."""
    arrows = parse(text)
    table = rows(arrows)
    width = max(sum(map(_width, row)) + GAP * (len(row) + 1) for row in table)
    places: Places = {}
    for number, row in enumerate(table):
        x = (width - sum(map(_width, row)) - GAP * (len(row) - 1)) / 2
        for node in row:
            places[node] = (x + _width(node) / 2, number * ROW + HEIGHT / 2 + 2)
            x += _width(node) + GAP
    tall = (len(table) - 1) * ROW + HEIGHT + 4
    parts = [_arrow(places[start], places[end]) for start, end in arrows]
    parts += [_box(node, *place) for node, place in places.items()]
    size = f'viewBox="0 0 {width:.0f} {tall}" width="{width:.0f}" height="{tall}"'
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    head = f'<svg class="flowchart" role="img" {size}><defs>{tip}<path d="M0,0 L8,4 L0,8 z"/></marker></defs>'
    return f"{head}{''.join(parts)}</svg>"


def _width(node: str) -> float:
    return LETTER * len(node) + 18


def _box(node: str, x: float, y: float) -> str:
    width = _width(node)
    box = f'<rect x="{x - width / 2:.1f}" y="{y - HEIGHT / 2:.1f}" width="{width:.1f}" height="{HEIGHT}" rx="4"/>'
    return f'{box}<text x="{x:.1f}" y="{y:.1f}">{html.escape(node)}</text>'


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x, y), (u, v) = (start[0], start[1] + HEIGHT / 2), (end[0], end[1] - HEIGHT / 2)
    bend = (v - y) / 2
    path = f"M{x:.1f},{y:.1f} C{x:.1f},{y + bend:.1f} {u:.1f},{v - bend:.1f} {u:.1f},{v:.1f}"
    return f'<path d="{path}" marker-end="url(#tip)"/>'
