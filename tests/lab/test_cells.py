"""Numbers as they are printed."""

import pytest
from tests.lab import factory

from aon.lab.cells import LINES, PAPER_LINES, interval, lines, p_value
from aon.lab.statistics import Difference
from aon.lab.summary import rows


def spelt(row):
    return {line.title: line.cell(row) for line in LINES[:6] + LINES[-2:]}


def test_a_row_of_several_runs_shows_everything():
    _, aon = rows(factory.comparison(("bn", "bn+aon")))
    cells = spelt(aon)
    assert cells["best accuracy (%)"] == f"{aon.best.mean:.2f} ± {aon.best.spread:.2f}"
    assert cells["best: difference to BN"] == f"+{aon.best_gain.value:.2f}"
    assert cells["  95 % interval"] == f"+{aon.best_gain.low:.2f} to +{aon.best_gain.high:.2f}"
    assert cells["  ratio to BN"] == f"{aon.ratio:.2f}"


def test_a_single_run_has_no_spread_interval_or_p():
    _, aon = rows(factory.comparison(("bn", "bn+aon"), seeds=[0]))
    cells = spelt(aon)
    assert cells["best accuracy (%)"].endswith("± -")
    assert cells["best: difference to BN"].startswith("+")
    assert (cells["  95 % interval"], cells["  p-value"]) == ("-", "-")


def test_nothing_finished_prints_dashes():
    (row,) = rows([factory.record("bn+aon", status="running", done=1)])
    assert set(spelt(row).values()) == {"0 of 1", "-"}


def test_interval_shows_signs():
    assert interval(Difference(0.0, -1.0, 1.0, 0.5, "welch")) == "-1.00 to +1.00"


@pytest.mark.parametrize(
    ("p", "text"), [(1.0, "1.0"), (0.5, "0.50"), (0.04999, "0.050"), (0.00012, "0.00012"), (9e-5, "< 0.0001")]
)
def test_p_values(p, text):
    assert p_value(p) == text


def test_the_papers_lines_appear_only_where_they_belong_to_a_run():
    assert lines(rows(factory.comparison())) == LINES
    whole = rows(factory.comparison(("bn", "bn+aon"), dataset="cifar10", width=1.0))
    assert lines(whole) == LINES + PAPER_LINES
    assert [line.cell(whole[1]) for line in PAPER_LINES] == ["93.51 ± 0.05", "1.58"]


def test_highest_mean_is_marked_once_and_only_among_several():
    table = rows(factory.comparison())
    best = LINES[1]
    assert [best.is_highest(row, table) for row in table] == [False, False, True]
    assert not LINES[0].is_highest(table[2], table)
    assert not best.is_highest(table[2], table[2:])
