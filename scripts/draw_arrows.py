"""Draw who imports whom into docs/design.md, from the code.

    python scripts/draw_arrows.py [FILE]

The picture stands between two marks in FILE, docs/design.md if none is named; what stands around them is kept.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = REPOSITORY / "src"
BEGIN, END = "<!-- arrows: begin (made by scripts/draw_arrows.py) -->", "<!-- arrows: end -->"
INIT = "__init__"
Arrows = dict[str, set[str]]


def modules(source: Path = SOURCE) -> dict[str, Path]:
    """Every module of `aon` with its file; a package is named without `__init__`."""
    found = {}
    for path in sorted((source / "aon").rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == INIT else parts)] = path
    return found


def imported(path: Path, known: Mapping[str, Path]) -> set[str]:
    """Every module that a file imports, wherever in the file; `from aon.lab import data` is `aon.lab.data`.

    Raises:
        ValueError: on a relative import.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level or node.module is None:
                raise ValueError(f"{path}: relative import in line {node.lineno}: expected `from aon...`")
            names = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {whole if whole in known else node.module for whole in names.values()}
    return found


def packages(known: Mapping[str, Path]) -> list[str]:
    """The packages, each one a level at which arrows can be looked at."""
    return [name for name, path in known.items() if path.stem == INIT]


def arrows(package: str, known: Mapping[str, Path]) -> Arrows:
    """Who imports whom among a package's modules and sub-packages; `__init__` is the package's own file."""
    found: Arrows = {}
    for module, path in known.items():
        start = _part(package, module)
        if start is None:
            continue
        ends = {_part(package, other) for other in imported(path, known)}
        found.setdefault(start, set()).update(end for end in ends if end and end != start)
    return found


def _part(package: str, module: str) -> str | None:
    """The part of a package that a module belongs to; None if it lies outside."""
    if module == package:
        return INIT
    if not module.startswith(f"{package}."):
        return None
    return module.removeprefix(f"{package}.").split(".")[0]


def reduced(graph: Arrows) -> Arrows:
    """The graph without the arrows that follow from longer ways."""
    beyond: Arrows = {}
    for node in TopologicalSorter(graph).static_order():
        beyond[node] = {far for near in graph.get(node, ()) for far in {near} | beyond[near]}
    return {node: ends - {far for near in ends for far in beyond[near]} for node, ends in graph.items()}


def picture(graph: Arrows) -> str:
    """A Mermaid flowchart; what imports stands above what is imported."""
    graph = {node: ends - {INIT} for node, ends in graph.items() if node not in (INIT, "__main__")}
    lines = [f"    {node} --> {end}" for node, ends in sorted(reduced(graph).items()) for end in sorted(ends)]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"])


def rooms(package: str, known: Mapping[str, Path]) -> Iterator[str]:
    """A Markdown table: each part of a package, what it is for, and its files."""
    yield "| part | subject | files |"
    yield "|---|---|---|"
    for part in sorted(arrows(package, known)):
        name = f"{package}.{part}"
        if part in (INIT, "__main__", "lab"):
            continue
        subject = (ast.get_docstring(ast.parse(known[name].read_text(encoding="utf-8"))) or "").split("\n")[0]
        files = sorted(_files(name, known)) if name in packages(known) else []
        yield f"| `{part}` | {subject} | {' '.join(f'`{file}`' for file in files)} |"


def _files(package: str, known: Mapping[str, Path]) -> set[str]:
    return {part + ("/" if f"{package}.{part}" in packages(known) else "") for part in arrows(package, known)} - {INIT}


def diagram(source: Path = SOURCE) -> str:
    """Everything between the two marks."""
    known = modules(source)
    parts = [
        "The library. An arrow goes from a part to one that it imports; arrows that follow from others are left out.",
        picture(arrows("aon", known)),
        "\n".join(rooms("aon", known)),
        "The laboratory.",
        picture(arrows("aon.lab", known)),
        "\n".join(rooms("aon.lab", known)),
    ]
    return "\n\n".join(parts)


def put(text: str, between: str) -> str:
    """A document with what stands between the marks replaced.

    Raises:
        ValueError: if it does not have each mark once, in order.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"expected {BEGIN!r} and then {END!r} once each")
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n\n{between}\n\n{END}{rest.split(END)[1]}"


def main(args: list[str]) -> int:
    """Rewrite the document; the status is 1 and a line says why if that cannot be done."""
    file = Path(args[0]) if args else REPOSITORY / "docs" / "design.md"
    try:
        text = put(file.read_text(encoding="utf-8"), diagram())
    except (OSError, ValueError) as error:
        sys.stderr.write(f"draw_arrows: {file}: {error}\n")
        return 1
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
