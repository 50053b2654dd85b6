"""Hooks of `make docs`: pages made from files outside docs/, figures of results/, and static flowcharts.

- The front page is README.md, its links as seen from docs/; CHANGELOG.md, CONTRIBUTING.md and examples/ are pages too.
- Figures under results/ are copied into the site; a page may show them as `../results/...`, which works on GitHub too.
- `<!-- gallery -->` in a page becomes every figure of every report under results/.
- A Mermaid flowchart becomes an SVG.
"""

import html
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.flowchart import draw  # noqa: E402  (mkdocs loads hooks by path, without the repository on it)

PAGES = {"index.md": "README.md", "changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
# Pages that come with their subject; the menu leaves them out until they are there.
OPTIONAL = {"scale.md", "reliability.md"}
GALLERY = "<!-- gallery -->"
MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Leave optional pages that do not exist out of the menu."""
    absent = {page for page in OPTIONAL if not (Path(config.docs_dir) / page).exists()}
    config.nav = _without(config.nav, absent)
    return config


def _without(nav: Any, absent: set[str]) -> Any:
    if isinstance(nav, dict):
        return {title: _without(part, absent) for title, part in nav.items()}
    if isinstance(nav, list):
        kept = [part for part in nav if not (isinstance(part, dict) and set(map(str, part.values())) & absent)]
        return [_without(part, absent) for part in kept]
    return nav


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages made from the root's documents, and the figures of results/."""
    for page, source in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=seen_from_docs(text)))
    files.append(File.generated(config, "examples.md", content=examples(ROOT / "examples")))
    for path in sorted((ROOT / "results").rglob("*.png")):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the gallery, draw flowcharts, and find figures where the site has them."""
    markdown = markdown.replace(GALLERY, gallery(ROOT / "results") if GALLERY in markdown else "")
    markdown = MERMAID.sub(lambda found: draw(found[1]), markdown)
    return markdown.replace("](../results/", "](results/")


def seen_from_docs(text: str) -> str:
    """A document of the root with the links that it would have in docs/.

    Example:
        >>> seen_from_docs("[maths](docs/maths.md), [how](CONTRIBUTING.md)")
        '[maths](maths.md), [how](contributing.md)'
    """
    for page, source in PAGES.items():
        text = text.replace(f"]({source}", f"]({page}")
    return text.replace("](examples/README.md)", "](examples.md)").replace("](docs/", "](")


def examples(folder: Path) -> str:
    """The examples' README, its links leading to the programs below it."""
    parts = [re.sub(r"\]\((\w+)\.py\)", r"](#\1)", (folder / "README.md").read_text(encoding="utf-8"))]
    for path in sorted(folder.glob("*.py")):
        code = path.read_text(encoding="utf-8")
        parts.append(f"## {path.name} {{#{path.stem}}}\n\n```python\n{code}```")
    return "\n\n".join(parts)


def gallery(results: Path) -> str:
    """The figures of all reports, under the headings of their pages."""
    parts = []
    for report in sorted(results.rglob("report")):
        figures = sorted(report.glob("*.png"))
        if figures:
            parts.append(f"### {_name(report.parent)} (`results/{report.parent.relative_to(results).as_posix()}`)")
        for figure in figures:
            parts.append(f"![{_title(figure)}](results/{figure.relative_to(results).as_posix()})")
    return "\n\n".join(parts)


def _name(comparison: Path) -> str:
    """The heading of a report's page: the report of several comparisons has no name elsewhere."""
    page = (comparison / "report.html").read_text(encoding="utf-8")
    found = re.search(r"<h1>(.*?)</h1>", page)
    if not found:
        raise ValueError(f"{comparison / 'report.html'} has no heading")
    return html.unescape(found[1])


def _title(figure: Path) -> str:
    return figure.stem.replace("-", " ").capitalize()
