"""The four forms of the table: same numbers, each readable by what it is for."""

import csv
import io
import re
import shutil
import subprocess

import pytest
from rich.console import Console
from tests.lab import factory

from aon.lab import tables
from aon.lab.summary import rows

FORMS = (tables.text, tables.markdown, tables.latex, tables.csv)
SEVEN = ("bn", "bn+orth", "bn+aon", "bn+aon:order=4", "bn+aon:order=0", "iternorm", "bn+cwn")
HOSTILE = r"=1|*x*_y_ [red]<b>&\input{/etc/passwd} $\alpha$ 100% #1 ~ ^ `c`"


@pytest.fixture(scope="module")
def records():
    return factory.comparison()


@pytest.mark.parametrize("form", [tables.text, tables.markdown, tables.latex])
def test_every_label_and_mean_is_in_every_form(form, records):
    shown = form(records)
    for row in rows(records):
        assert row.label in shown
        assert f"{row.best.mean:.2f}" in shown
        assert row.count in shown


def test_terminal_fits_80_columns_and_nothing_is_cut():
    shown = tables.text(factory.comparison(SEVEN, seeds=[0, 1], spectra=False))
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown


def test_terminal_table_is_drawn_by_rich_with_the_best_in_bold(records):
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=100, no_color=False)
    console.print(tables.terminal(records))
    best = max(rows(records), key=lambda row: row.best.mean).best
    bold = re.findall(r"\x1b\[1m([^\x1b]*)\x1b", console.file.getvalue())
    assert f"{best.mean:.2f} ± {best.spread:.2f}" in [cell.strip() for cell in bold]
    assert not any(f"{rows(records)[0].best.mean:.2f}" in cell for cell in bold)


def test_five_methods_make_blocks_of_three_and_two_as_in_the_paper():
    shown = tables.markdown(factory.comparison(SEVEN[:5], seeds=[0], spectra=False))
    heads = [line for line in shown.splitlines() if line.startswith("|  |")]
    assert [head.count("|") - 2 for head in heads] == [3, 2]


def test_markdown_columns_agree(records):
    lines = [line for line in tables.markdown(records).splitlines() if line.startswith("|")]
    assert {line.count("|") for line in lines} == {5}
    assert sum("**" in line for line in lines) == 2


def test_csv_has_full_precision_and_dashes(records):
    found = list(csv.DictReader(io.StringIO(tables.csv(records))))
    for line, row in zip(found, rows(records), strict=True):
        assert float(line["best_mean"]) == row.best.mean
        assert line["paper_accuracy"] == "-"
    assert found[0]["best_difference_p"] == "-"
    assert float(found[2]["best_difference_p"]) == rows(records)[2].best_gain.p
    assert found[2]["best_difference_kind"] == "paired"


def test_the_papers_number_stands_in_its_own_place():
    shown = tables.text(factory.comparison(("bn", "bn+aon"), dataset="cifar10", width=1.0, spectra=False))
    (line,) = (line for line in shown.splitlines() if "paper: accuracy" in line)
    assert re.findall(r"[\d.]+ ± [\d.]+", line) == ["92.22 ± 0.09", "93.51 ± 0.05"]


@pytest.mark.parametrize("form", FORMS)
def test_partial_comparisons_are_tables_too(form):
    partial = [
        factory.record("bn", status="running", done=0),
        factory.record("bn+aon", status="failed", done=2, error="x"),
    ]
    assert "BN" in form(partial)
    assert "-" in form(partial)


@pytest.mark.parametrize("form", FORMS)
def test_no_records_is_no_crash(form):
    assert isinstance(form([]), str)


def test_hostile_labels_stay_text():
    records = [factory.record("bn+aon", label=HOSTILE), factory.record("bn")]
    assert "[red]" in tables.text(records).replace("\n", "")
    row = next(line for line in tables.markdown(records).splitlines() if "red" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == 4
    assert "<b>" not in row
    assert r"\textbackslash{}input\{/etc/passwd\}" in tables.latex(records)
    assert "'=1|" in tables.csv(records)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(tmp_path, records):
    hostile = [factory.record("iternorm", label=HOSTILE)]
    source = r"\documentclass{article}\begin{document}" + tables.latex(records + hostile) + r"\end{document}"
    (tmp_path / "t.tex").write_text(source)
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout.decode()[-800:]
