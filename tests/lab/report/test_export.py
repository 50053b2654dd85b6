"""Plain data for other programs: full precision, missing numbers empty or null."""

import csv
import io
import json
import math

import pytest
from tests.lab import factory

from aon.lab.report import export
from aon.lab.report.summary import summarise_runs


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="module")
def results():
    return summarise_runs(factory.comparison(validation_size=200, epochs=6))


def test_table_has_full_precision_and_empty_places(results):
    found = read(export.table_csv(results))
    for line, row in zip(found, results.rows, strict=True):
        assert float(line["last_mean"]) == row.last.mean
        assert float(line["last_five_mean"]) == row.accuracy["last_five"].mean
        assert float(line["validation_mean"]) == row.validation.mean
        assert line["paper_accuracy"] == ""
    gain = results.rows[2].gain["last"]
    assert found[0]["last_difference_p"] == ""
    assert float(found[2]["last_difference_p"]) == gain.p
    assert float(found[2]["last_difference_corrected"]) == gain.corrected
    assert (found[2]["last_difference_kind"], found[2]["last_difference_ahead"]) == ("paired", str(gain.ahead))


def test_json_holds_the_same_with_nulls(results):
    data = json.loads(export.table_json(results), parse_constant=pytest.fail)
    assert (data["base"], data["validation_images"], data["best_settings"], data["skipped"]) == ("BN", True, [], [])
    assert data["rows"][0]["last_difference_p"] is None
    assert data["rows"][2]["last_difference_p"] == results.rows[2].gain["last"].p


def test_best_settings_are_in_the_json():
    runs = [run for rate in (0.1, 0.2) for run in factory.comparison(learning_rate=rate, validation_size=200)]
    results = summarise_runs(runs)
    found = json.loads(export.table_json(results))["best_settings"]
    assert [(one["method"], one["setting"], one["trials"]) for one in found] == [
        (one.row.method, one.row.setting, 2) for one in results.choices
    ]


def test_differences_have_a_line_for_each_ordered_pair(results):
    lines, data = read(export.matrix_csv(results)), json.loads(export.matrix_json(results))
    assert len(lines) == len(data) == 6
    for line, entry in zip(lines, data, strict=True):
        found = results.matrix[line["method"], line["against"]]
        assert float(line["value"]) == entry["value"] == found.value
        assert float(line["corrected"]) == entry["corrected"] == found.corrected


def test_curves_have_a_line_for_each_epoch_of_every_run(results):
    lines = read(export.curves_csv(results))
    assert len(lines) == 9 * 6
    run = results.rows[2].runs[1]
    own = [line for line in lines if (line["method"], line["seed"]) == ("BN+AON(q=2)", "1")]
    assert [float(line["val_accuracy"]) for line in own] == [epoch.val_accuracy for epoch in run.epochs]
    assert own[0]["penalty"] == ""


def test_no_file_says_none_nan_or_dash():
    run = factory.record("bn", epochs=2)
    wild = run.but(epochs=(run.epochs[0].model_copy(update={"val_loss": math.nan, "train_loss": math.inf}),))
    results = summarise_runs([wild, factory.record("bn+aon", status="failed", done=0, epochs=2)])
    for render in (export.table_csv, export.matrix_csv, export.curves_csv):
        fields = [value for line in csv.reader(io.StringIO(render(results))) for value in line]
        assert not {"None", "nan", "-"} & set(fields)
    assert "inf" in export.curves_csv(results)
    json.loads(export.table_json(results), parse_constant=pytest.fail)


def test_a_text_that_looks_like_a_formula_is_quoted():
    results = summarise_runs([factory.record("bn+aon", label="=1+1", epochs=1), factory.record("bn", epochs=1)])
    for render in (export.table_csv, export.matrix_csv, export.curves_csv):
        assert "'=1+1" in render(results)


@pytest.mark.parametrize("render", [export.table_csv, export.matrix_csv, export.curves_csv])
def test_no_records_is_an_empty_file(render):
    assert render(summarise_runs([])) == ""
