"""The page as a file: self-contained, escaped, and complete in every state of a comparison."""

import html as html_module
import json
import re
from html.parser import HTMLParser

import pytest
from tests.lab import factory

from aon.lab.experiment.records import load_comparison
from aon.lab.report.output import load_results
from aon.lab.report.page import html
from aon.lab.report.summary import summarise_runs

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
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    records = factory.comparison(epochs=30, validation_size=200)
    out = factory.write(folder, records, command=["aon", "compare", "--out", "my results"])
    return html(*load_results([out]))


def test_the_page_holds_what_was_run_the_verdict_and_the_command(page):
    text = html_module.unescape(page)
    for part in (
        "BN+AON(q=2) has the highest test accuracy at the last epoch",
        "aon compare --out 'my results'",
        "2.13.0+cpu",
        "0123456789abcdef",
        "batch size 128 (paper: 256)",
        "93.51 ± 0.05",
        "95 % interval",
        "best epoch by validation",
        "p (Holm)",
        "p (sign flip)",
        "Difference between every two methods",
        r"\begin{tabular}",
    ):
        assert part in text


def test_the_page_refers_to_nothing_outside_itself(page):
    for tag, attributes in Page(page).tags:
        assert "src" not in attributes, (tag, attributes)
        assert attributes.get("href", "data:").startswith("data:"), (tag, attributes)
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)
    assert "url(http" not in page
    assert "@import" not in page
    policy = next(attributes["content"] for _, attributes in Page(page).tags if "http-equiv" in attributes)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy


def test_the_page_is_small(page):
    assert len(page) < 300_000


def test_strings_from_users_cannot_leave_their_place(tmp_path):
    records = [
        factory.record("bn+aon", label=HOSTILE, dataset=HOSTILE, epochs=2),
        factory.record("bn", dataset=HOSTILE, status="failed", error=HOSTILE, done=1, epochs=2),
    ]
    factory.write(tmp_path, records, name=HOSTILE, command=["aon", HOSTILE])
    page = Page(html(summarise_runs(records), [load_comparison(tmp_path)]))
    assert [attributes.get("type") for tag, attributes in page.tags if tag == "script"] == ["application/json", None]
    assert not any(tag == "img" for tag, _ in page.tags)
    assert json.loads(page.data)["methods"][1]["label"] == HOSTILE


def test_a_page_of_the_templates_braces_is_not_a_template():
    assert "{{7*7}}" in html(summarise_runs([factory.record("bn", dataset="{{7*7}}", epochs=1)]))


STATES = {
    "running": [factory.record("bn", status="running", done=0)],
    "failed": [factory.record("bn+aon", status="failed", error="the loss is nan", done=1)],
    "one seed": factory.comparison(seeds=[0], epochs=2),
    "no BN": factory.comparison(("bn+orth", "bn+aon"), epochs=2),
    "interrupted": [factory.record("bn", done=1), factory.record("bn+aon", status="interrupted", done=1)],
    "no spectra": factory.comparison(spectra=False, epochs=2),
    "other settings": [*factory.comparison(("bn",), epochs=2), *factory.comparison(("bn",), epochs=3)],
    "learning rates": [
        run for rate in (0.1, 0.2) for run in factory.comparison(epochs=2, learning_rate=rate, validation_size=50)
    ],
}


@pytest.mark.parametrize("records", STATES.values(), ids=STATES)
def test_every_state_of_a_comparison_has_a_page(records):
    page = html(summarise_runs(records))
    assert re.search(r'<p id="verdict">[^<]{40,}</p>', page)
    assert ("the loss is nan" in page) is any(run.error for run in records)


def test_runs_that_have_not_begun_are_counted(tmp_path):
    factory.write(tmp_path, factory.comparison(epochs=2)[:4], seeds=(0, 1, 2, 3))
    assert "4 not begun" in html(*load_results([tmp_path]))


def test_the_page_of_one_run_says_that_there_is_nothing_to_compare():
    assert "nothing to compare it with" in html(summarise_runs([factory.record("bn+aon", epochs=2)]))


def test_a_record_that_was_skipped_is_named():
    page = html(summarise_runs([factory.record("bn", epochs=1)], damaged=["runs/<x>/record.json is damaged"]))
    assert "Records that could not be read" in page
    assert "runs/&lt;x&gt;/record.json is damaged" in page


def test_all_of_23_methods_are_rows_with_looks_of_their_own():
    methods = ["bn", *(f"bn+orth:beta={n}" for n in range(1, 23))]
    results = summarise_runs(factory.comparison(methods, seeds=[0, 1], epochs=1, spectra=False))
    page = html(results)
    table = re.search(r"<table>(.*?)</table>", page, re.DOTALL).group(1)
    heads = re.findall(r'<th scope="row"><span class="swatch ([^"]+)"></span><bdi>([^<]+)</bdi>', table)
    assert [name for _, name in heads] == results.methods
    assert len({look for look, _ in heads}) == 23


def test_the_best_setting_of_each_method_is_shown():
    page = html(summarise_runs(STATES["learning rates"]))
    assert "Each method at its best setting by validation accuracy" in page
    assert "Difference between every two methods · learning rate 0.2" in page
