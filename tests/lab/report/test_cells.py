"""Numbers as they are printed."""

import json

import pytest
from tests.lab import factory

from aon.lab.report.cells import (
    DIFFERENCE_COLUMNS,
    PAPER_COLUMNS,
    accuracy_columns,
    interval,
    number,
    p_value,
    probability,
)
from aon.lab.report.export import table_json
from aon.lab.report.statistics import Difference
from aon.lab.report.summary import summarise_runs


def printed(results, row):
    accuracies = {column.title: column.cell(row) for column in accuracy_columns(results)}
    return accuracies | {column.title: column.cell(row.gain["last"]) for column in DIFFERENCE_COLUMNS}


def test_a_row_of_several_runs_shows_everything():
    results = summarise_runs(factory.comparison(("bn", "bn+aon"), validation_size=200))
    aon = results.rows[1]
    cells, gain = printed(results, aon), aon.gain["last"]
    assert cells["last epoch"] == f"{aon.last.mean:.2f} ± {aon.last.spread:.2f}"
    assert cells["best epoch by validation"] == f"{aon.accuracy['best'].mean:.2f} ± {aon.accuracy['best'].spread:.2f}"
    assert cells["mean of the last five epochs"].startswith(f"{aon.accuracy['last_five'].mean:.2f} ±")
    assert cells["points"] == f"+{gain.value:.2f}"
    assert cells["95 % interval"] == f"+{gain.low:.2f} to +{gain.high:.2f}"
    assert (cells["n"], cells["ahead"]) == ("3", "3 of 3")
    assert (cells["p"], cells["p (Holm)"], cells["p (sign flip)"]) == (p_value(gain.p), p_value(gain.corrected), "0.25")
    assert cells["time ratio"] == f"{aon.ratio:.2f}"


def test_the_best_on_the_test_set_is_called_that():
    titles = [column.title for column in accuracy_columns(summarise_runs(factory.comparison()))]
    assert "best epoch on the test set, as in the paper" in titles


def test_a_single_run_has_no_spread_interval_or_p():
    results = summarise_runs(factory.comparison(("bn", "bn+aon"), seeds=[0]))
    cells = printed(results, results.rows[1])
    assert cells["last epoch"].endswith("± -")
    assert cells["points"].startswith("+")
    assert [cells[name] for name in ("95 % interval", "p", "p (Holm)", "p (sign flip)", "P(ahead)")] == ["-"] * 5


def test_nothing_finished_prints_dashes():
    results = summarise_runs([factory.record("bn+aon", status="running", done=1)])
    assert set(printed(results, results.rows[0]).values()) == {"0 of 1", "-"}


def test_interval_shows_signs():
    assert interval(Difference(0.0, -1.0, 1.0, 0.5, "welch")) == "-1.00 to +1.00"


@pytest.mark.parametrize(
    ("p", "text"),
    [(1.0, "1.0"), (0.5, "0.50"), (0.04999, "0.04999"), (0.0501, "0.050"), (0.00012, "0.00012"), (9e-5, "< 0.0001")],
)
def test_p_values(p, text):
    assert p_value(p) == text


@pytest.mark.parametrize(("value", "text"), [(None, "-"), (1.0, "> 0.99"), (0.0, "< 0.01"), (0.5, "0.50")])
def test_a_probability_is_never_certain(value, text):
    assert probability(value) == text


def test_the_papers_columns_appear_only_where_they_belong_to_a_run():
    assert PAPER_COLUMNS[0] not in accuracy_columns(summarise_runs(factory.comparison()))
    whole = summarise_runs(factory.comparison(("bn", "bn+aon"), dataset="cifar10", width=1.0))
    assert accuracy_columns(whole)[-2:] == PAPER_COLUMNS
    assert [column.cell(whole.rows[1]) for column in PAPER_COLUMNS] == ["93.51 ± 0.05", "1.58"]


@pytest.mark.parametrize(
    ("base", "ratios"),
    [
        ("bn+aon:order=0", [1.0, 27.1 / 20.0, 32.5 / 20.0, None]),
        ("bn+aon", [1.0, 20.0 / 27.1, 32.5 / 27.1, None]),
        ("bn+aon:order=8", [None] * 4),
    ],
)
def test_the_papers_times_are_divided_by_that_of_the_base_as_ours_are(base, ratios):
    orders = ("bn+aon:order=0", "bn+aon", "bn+aon:order=4", "bn+aon:order=8")
    results = summarise_runs(factory.comparison(orders, dataset="cifar10", width=1.0), base=base)
    assert [row.published_ratio for row in results.rows] == pytest.approx(ratios)
    assert [PAPER_COLUMNS[1].cell(row) for row in results.rows] == [number(ratio) for ratio in ratios]
    assert [line["paper_ratio"] for line in json.loads(table_json(results))["rows"]] == pytest.approx(ratios)


def test_highest_mean_is_marked_once_and_only_among_several_of_a_setting():
    results = summarise_runs(factory.comparison())
    table, (runs, last, *_) = results.rows, accuracy_columns(results)
    assert [last.is_highest(row, table) for row in table] == [False, False, True]
    assert not runs.is_highest(table[2], table)
    assert not last.is_highest(table[2], table[2:])
    two = summarise_runs([*factory.comparison(), *factory.comparison(learning_rate=0.2)])
    assert sum(last.is_highest(row, two.rows) for row in two.rows) == 2
