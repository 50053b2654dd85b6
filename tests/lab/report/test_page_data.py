"""The page's data: plain, finite, and the same numbers as the records."""

import json
import math

import pytest
from tests.lab import factory

from aon.lab.report.page_data import page_data
from aon.lab.report.summary import summarise_runs


@pytest.fixture(scope="module")
def data():
    return page_data(summarise_runs(factory.comparison(epochs=6)))


def test_methods_have_the_colours_of_the_figures(data):
    assert [method["look"] for method in data["methods"]] == ["c-base m-0", "c-0 m-0", "c-1 m-0"]


def test_methods_beyond_the_palette_have_another_shape():
    methods = ["bn", *(f"bn+orth:beta={n}" for n in range(1, 23))]
    found = page_data(summarise_runs(factory.comparison(methods, seeds=[0], epochs=1, spectra=False)))["methods"]
    assert len({method["look"] for method in found}) == 23
    assert (found[12]["look"], found[13]["look"]) == ("c-11 m-0", "c-0 m-1")


def test_rows_name_their_method_and_setting():
    runs = [run for rate in (0.1, 0.2) for run in factory.comparison(("bn", "bn+aon"), epochs=1, learning_rate=rate)]
    found = page_data(summarise_runs(runs))
    assert found["settings"] == ["learning rate 0.1", "learning rate 0.2"]
    assert [(row["method"], row["setting"]) for row in found["rows"]] == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_curves_hold_the_best_run_and_the_mean(data):
    records = [run for run in factory.comparison(epochs=6) if run.label == "BN+AON(q=2)"]
    best = max(records, key=lambda run: run.best.val_accuracy)
    (series,) = (s for s in data["curves"][1]["series"] if (s["row"], s["kind"]) == (2, "validation"))
    assert series["best"]["seed"] == best.config.seed
    assert series["best"]["y"] == pytest.approx([epoch.val_accuracy for epoch in best.epochs], rel=1e-4)
    mean = [sum(values) / 3 for values in zip(*([e.val_accuracy for e in run.epochs] for run in records), strict=True)]
    assert series["mean"]["y"] == pytest.approx(mean, rel=1e-4)


def test_runs_hold_every_finished_seed(data):
    assert [[point["seed"] for point in runs["points"]] for runs in data["runs"]] == [[0, 1, 2]] * 3
    run = next(run for run in factory.comparison(epochs=6) if run.label == "BN")
    expected = [run.last.test_accuracy, run.best.test_accuracy, run.last_five]
    assert data["runs"][0]["points"][0]["values"] == pytest.approx(expected, rel=1e-4)


def test_orthonormality_has_a_point_for_each_finished_run_with_spectra(data):
    assert [point["row"] for point in data["orthonormality"]] == [2, 2, 2]


def test_spectra_hold_each_layer_over_time(data):
    (spectra,) = data["spectra"]
    assert spectra["row"] == 2
    assert len(spectra["layers"]) == factory.LAYERS
    assert {len(layer["min"]) for layer in spectra["layers"]} == {len(spectra["epochs"])} == {6}


def test_what_is_not_finite_becomes_a_gap_that_json_can_hold():
    run = factory.record("bn", epochs=3)
    wild = run.but(
        epochs=tuple(row.model_copy(update={"val_loss": math.nan, "train_loss": math.inf}) for row in run.epochs)
    )
    found = page_data(summarise_runs([wild]))
    json.dumps(found, allow_nan=False)
    assert found["curves"][0]["series"][1]["best"]["y"] == [None] * 3


def test_layers_that_come_late_leave_gaps():
    run = factory.record("bn+aon", epochs=3)
    short = run.epochs[0].model_copy(update={"spectra": run.epochs[0].spectra[1:]})
    (spectra,) = page_data(summarise_runs([run.but(epochs=(short, *run.epochs[1:]))]))["spectra"]
    assert spectra["layers"][0]["min"][0] is None
    assert None not in spectra["layers"][1]["min"]
