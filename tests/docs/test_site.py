"""The site as built: every page is there and makes no network request."""

import inspect
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import aon
from aon.lab.experiment import config

ROOT = Path(__file__).parents[2]
# What a browser fetches by itself. A link (`a`) is followed only when somebody clicks on it.
FETCHED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


class Fetches(HTMLParser):
    """Collects what a page makes a browser fetch."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag in FETCHED and values.get("rel") != "canonical":
            self.found.append(values.get(FETCHED[tag]) or "")


def fetched(html):
    parser = Fetches()
    parser.feed(html)
    return [url for url in parser.found if re.match(r"(?i)(https?:)?//", url)]


def test_a_page_that_asks_the_network_would_be_seen():
    assert fetched('<link rel="stylesheet" href="https://fonts.example/css">') == ["https://fonts.example/css"]
    assert fetched('<script src="//cdn.example/x.js"></script>') == ["//cdn.example/x.js"]
    assert fetched('<a href="https://example.org">there</a><script src="assets/x.js"></script>') == []


def test_no_page_asks_the_network_for_anything(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    assert {str(page): fetched(page.read_text(encoding="utf-8")) for page in pages} == {str(page): [] for page in pages}
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet


def test_no_page_needs_a_script_that_is_fetched_later(site):
    """The theme would load Mermaid from a server for a diagram, and MathJax is not bundled."""
    for page in site.rglob("*.html"):
        assert 'class="mermaid"' not in page.read_text(encoding="utf-8"), page
    assert '<svg class="flowchart"' in (site / "design.html").read_text(encoding="utf-8")


def test_the_reference_has_every_public_name(site):
    reference = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    for name in aon.__all__:
        assert f'id="aon.{name}"' in reference or (site / "reference" / f"{name}.html").exists(), name
    for module in (aon.functional, aon.maps, aon.penalties, aon.bounding, aon.whitening, aon.renorm, config):
        members = [thing for name, thing in vars(module).items() if not name.startswith("_") and is_ours(thing, module)]
        assert members
        for thing in members:
            assert f'id="{thing.__module__}.{thing.__name__}"' in reference, thing


def is_ours(thing, module):
    """Whether it is a class or function that a module defines or lists as its own."""
    listed = getattr(module, "__all__", ())
    kind = inspect.isclass(thing) or inspect.isfunction(thing)
    return kind and (thing.__module__ == module.__name__ or thing.__name__ in listed)


def test_the_search_index_is_there_for_pages_opened_as_files(site):
    assert "approx_orthonormal" in (site / "search" / "search_index.js").read_text(encoding="utf-8")
