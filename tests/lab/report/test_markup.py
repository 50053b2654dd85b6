"""Tables for a terminal, in Markdown and LaTeX: same numbers, each readable by what it is for."""

import io
import re
import shutil
import subprocess

import pytest
from rich.console import Console
from tests.lab import factory

from aon.lab.report import markup
from aon.lab.report.cells import DIFFERENCE_COLUMNS
from aon.lab.report.summary import summarise_runs

FORMS = (markup.text, markup.markdown, markup.latex)
MATRICES = (markup.markdown_matrix, markup.latex_matrix)
SEVEN = ("bn", "bn+orth", "bn+aon", "bn+aon:order=4", "bn+aon:order=0", "iternorm", "bn+cwn")
HOSTILE = r"=1|*x*_y_ [red]<b>&\input{/etc/passwd} $\alpha$ 100% #1 ~ ^ `c`"


@pytest.fixture(scope="module")
def results():
    return summarise_runs(factory.comparison(validation_size=200))


def hostile():
    return summarise_runs([factory.record("bn+aon", label=HOSTILE), factory.record("bn")])


@pytest.mark.parametrize("form", FORMS)
def test_every_label_and_mean_is_in_every_form(form, results):
    shown = form(results)
    for row in results.rows:
        assert row.label in shown
        for summary in row.accuracy.values():
            assert f"{summary.mean:.2f}" in shown


@pytest.mark.parametrize("form", FORMS)
def test_corrected_p_and_sign_flip_stand_beside_raw_p(form, results):
    shown = form(results)
    assert re.search(r"p\s+.*Holm.*sign", " ".join(shown.split()))
    assert "0.25" in shown  # the sign-flip test of three seeds


@pytest.mark.parametrize("methods", [SEVEN, tuple(f"bn+orth:beta={n}" for n in range(1, 24))])
def test_terminal_fits_80_columns_and_nothing_is_cut(methods):
    results = summarise_runs(factory.comparison(methods, seeds=range(12), epochs=2, spectra=False))
    shown = markup.text(results)
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    for row in results.rows:
        assert f"{row.last.mean:.2f} ± {row.last.spread:.2f}" in shown


def test_terminal_with_settings_fits_80_columns():
    runs = [run for rate in (0.1, 0.2) for run in factory.comparison(learning_rate=rate, validation_size=200)]
    shown = markup.text(summarise_runs(runs))
    assert max(map(len, shown.splitlines())) <= 80
    assert "Each method at its best setting by validation accuracy" in shown


def test_the_terminal_explains_the_columns_that_it_shows(results):
    tables, explained = markup.text(results).split("Test accuracy in percent")
    head = tables.partition("Difference to BN")[2].partition("───")[0].split()
    for column in DIFFERENCE_COLUMNS:
        is_shown = all(word in head for word in column.title.split())
        assert is_shown == (column.title not in markup.NOT_SHOWN)
        assert is_shown or f" {column.title}: " not in explained
    assert " n " not in explained
    for form in (markup.markdown, markup.latex):
        assert " n: those seeds" in form(results)
        assert " P(ahead): " in form(results)


def test_terminal_with_differences_without_a_common_seed_fits_80_columns():
    seeds = {"bn": range(12), "bn+orth": range(12), "bn+aon": range(20, 32)}
    settings = [{"learning_rate": rate, "validation_size": 200, "spectra": False} for rate in (0.1, 0.2)]
    runs = [run for one in settings for name in seeds for run in factory.comparison([name], seeds[name], **one)]
    shown = markup.text(summarise_runs(runs))
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.count("12 of 12") == 2
    assert shown.count("< 0.0001") == 10
    assert len(re.findall(r" \(Welch\)\n", shown)) == 3


def test_terminal_table_is_drawn_by_rich_with_the_best_in_bold(results):
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=100, no_color=False)
    console.print(markup.terminal(results))
    bold = re.findall(r"\x1b\[1m([^\x1b]*)\x1b", console.file.getvalue())
    best = max(results.rows, key=lambda row: row.last.mean).last
    assert f"{best.mean:.2f} ± {best.spread:.2f}" in [cell.strip() for cell in bold]
    assert not any(f"{results.rows[0].last.mean:.2f}" in cell for cell in bold)


def test_a_skipped_record_is_named(results):
    skipped = summarise_runs(factory.comparison(seeds=[0]), damaged=["runs/x/record.json is damaged"])
    assert "Skipped: runs/x/record.json is damaged" in markup.text(skipped)
    assert "record.json is damaged" in markup.markdown(skipped)
    assert "Skipped" not in markup.text(results)


@pytest.mark.parametrize("form", [markup.markdown, markup.markdown_matrix])
def test_markdown_columns_agree(form, results):
    tables = re.findall(r"(?:^\|.*\n)+", form(results), re.MULTILINE)
    assert tables
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_the_papers_number_stands_in_its_own_place():
    results = summarise_runs(factory.comparison(("bn", "bn+aon"), dataset="cifar10", width=1.0, spectra=False))
    lines = [line for line in markup.markdown(results).splitlines() if "92.22" in line or "93.51" in line]
    assert [re.findall(r"[\d.]+ ± [\d.]+", line)[-1] for line in lines] == ["92.22 ± 0.09", "93.51 ± 0.05"]


@pytest.mark.parametrize("form", FORMS)
def test_partial_comparisons_are_tables_too(form):
    partial = [
        factory.record("bn", status="running", done=0),
        factory.record("bn+aon", status="failed", done=2, error="x"),
    ]
    assert "BN" in form(summarise_runs(partial))
    assert "-" in form(summarise_runs(partial))


@pytest.mark.parametrize("form", [*FORMS, *MATRICES])
def test_no_records_is_no_crash(form):
    assert isinstance(form(summarise_runs([])), str)


def test_hostile_labels_stay_text():
    assert "[red]" in markup.text(hostile()).replace("\n", "")
    lines = [line for line in markup.markdown(hostile()).splitlines() if "red" in line and line.startswith("|")]
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
    assert widths == {8, 10}
    assert all("<b>" not in line for line in lines)
    assert r"\textbackslash{}input\{/etc/passwd\}" in markup.latex(hostile())


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(tmp_path, results):
    body = "".join(form(one) for form in (markup.latex, markup.latex_matrix) for one in (results, hostile()))
    (tmp_path / "t.tex").write_text(r"\documentclass{article}\begin{document}" + body + r"\end{document}")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout.decode()[-800:]
