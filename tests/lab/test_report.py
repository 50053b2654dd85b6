"""The page as a file: complete, self-contained, escaped; and whole in every state of a comparison."""

import html as html_module
import json
import re
from html.parser import HTMLParser

import pytest
from tests.lab import factory

from aon.lab import report
from aon.lab.errors import LabError
from aon.lab.records import load_comparison

HOSTILE = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">\'"{{7*7}}<!--'


class Page(HTMLParser):
    """Every tag with its attributes, and the text of the data block."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.data, self._inside = [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = (tag, dict(attrs).get("id")) == ("script", "data")

    def handle_data(self, text):
        if self._inside:
            self.data += text

    def handle_endtag(self, tag):
        self._inside = False


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    return factory.write(folder, factory.comparison(epochs=30), command=["aon", "compare", "--out", "my results"])


@pytest.fixture(scope="module")
def written(out):
    return report.write(out)


def test_everything_is_written_where_it_says(out, written):
    assert written.page == out / "report.html"
    assert {path.name for path in written.tables} == {"table.txt", "table.md", "table.tex", "table.csv"}
    names = {"curves-best", "curves-mean", "spectra-by-layer", "spectra-over-time"}
    assert {path.name for path in written.figures} == {f"{n}.{s}" for n in names for s in ("png", "svg", "pdf")}
    for path in (written.page, *written.tables, *written.figures):
        assert path.stat().st_size > 0
    assert {path.parent for path in (*written.tables, *written.figures)} == {out / "report"}
    assert {path.name for path in (out / "report").iterdir()} == {p.name for p in (*written.tables, *written.figures)}


def test_writing_again_changes_no_byte(out, written):
    before = {path: path.read_bytes() for path in (written.page, *written.tables, *written.figures)}
    report.write(out)
    assert {path: path.read_bytes() for path in before} == before


def test_the_page_holds_what_was_run_the_verdict_and_the_command(written):
    text = html_module.unescape(written.page.read_text())
    for part in (
        "BN+AON(q=2) reached",
        "aon compare --out 'my results'",
        "2.13.0+cpu",
        "0123456789abcdef",
        "batch size 128 (paper: 256)",
        "93.51 ± 0.05",
        "95 % interval",
        r"\begin{tabular}",
    ):
        assert part in text


def test_the_page_refers_to_nothing_outside_itself(written):
    text = written.page.read_text()
    for tag, attributes in Page(text).tags:
        assert "src" not in attributes, (tag, attributes)
        assert attributes.get("href", "data:").startswith("data:"), (tag, attributes)
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)
    assert "url(http" not in text
    assert "@import" not in text
    policy = next(attributes["content"] for _, attributes in Page(text).tags if "http-equiv" in attributes)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy


def test_the_page_is_small(written):
    assert written.page.stat().st_size < 300_000


def test_strings_from_users_cannot_leave_their_place(tmp_path):
    records = [
        factory.record("bn+aon", label=HOSTILE, dataset=HOSTILE, epochs=2),
        factory.record("bn", dataset=HOSTILE, status="failed", error=HOSTILE, done=1, epochs=2),
    ]
    factory.write(tmp_path, records, name=HOSTILE, command=["aon", HOSTILE])
    page = Page(report.html(records, load_comparison(tmp_path)))
    assert [attributes.get("type") for tag, attributes in page.tags if tag == "script"] == ["application/json", None]
    assert not any(tag == "img" for tag, _ in page.tags)
    assert json.loads(page.data)["methods"][1]["label"] == HOSTILE
    assert report.write(tmp_path, formats=["png"]).page.exists()


def test_a_page_of_the_templates_braces_is_not_a_template():
    assert "{{7*7}}" in report.html([factory.record("bn", dataset="{{7*7}}", epochs=1)])


STATES = {
    "running": [factory.record("bn", status="running", done=0)],
    "failed": [factory.record("bn+aon", status="failed", error="the loss is nan", done=1)],
    "one seed": factory.comparison(seeds=[0], epochs=2),
    "no BN": factory.comparison(("bn+orth", "bn+aon"), epochs=2),
    "interrupted": [factory.record("bn", done=1), factory.record("bn+aon", status="interrupted", done=1)],
    "no spectra": factory.comparison(spectra=False, epochs=2),
    "other settings": [*factory.comparison(("bn",), epochs=2), *factory.comparison(("bn",), epochs=3)],
}


@pytest.mark.parametrize("records", STATES.values(), ids=STATES)
def test_every_state_of_a_comparison_has_a_page(tmp_path, records):
    page = report.write(factory.write(tmp_path, records), formats=["png"]).page.read_text()
    assert re.search(r'<p id="verdict">[^<]{40,}</p>', page)
    assert (("the loss is nan" in page) == any(run.error for run in records)) is True


def test_runs_that_have_not_begun_are_counted(tmp_path):
    factory.write(tmp_path, factory.comparison(epochs=2)[:4], seeds=(0, 1, 2, 3))
    assert "4 not begun" in report.write(tmp_path, formats=["png"]).page.read_text()


def test_the_folder_of_one_run_has_a_page_too(tmp_path):
    out = factory.write(tmp_path, [factory.record("bn+aon", epochs=2)])
    (run,) = (out / "runs").iterdir()
    assert "nothing to compare it with" in report.write(run, formats=["png"]).page.read_text()


def test_a_directory_without_records_is_refused(tmp_path):
    with pytest.raises(LabError, match="holds no records"):
        report.write(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_record_is_named(tmp_path):
    factory.write(tmp_path, factory.comparison(("bn",), seeds=[0, 1], epochs=1))
    victim = next(iter(sorted(tmp_path.glob("runs/*/record.json"))))
    victim.write_text(victim.read_text()[:-40])
    with pytest.raises(LabError, match=re.escape(str(victim))):
        report.write(tmp_path)


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path):
    factory.write(tmp_path, [factory.record("bn", epochs=1)])
    (tmp_path / "report").write_text("mine")
    with pytest.raises(LabError, match=r"cannot make .*report"):
        report.write(tmp_path)
