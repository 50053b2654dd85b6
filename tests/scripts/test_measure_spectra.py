"""The table of spectra is that of the record."""

import json

import pytest
import torch

from scripts import measure_spectra


def test_the_page_shows_the_record():
    record = json.loads(measure_spectra.RECORD.read_text())
    assert measure_spectra.table(record) in measure_spectra.PAGE.read_text()
    composed = json.loads(measure_spectra.COMPOSED.read_text())
    assert measure_spectra.composition(composed) in measure_spectra.PAGE.read_text()


def test_two_in_a_row_are_no_flatter_than_one_of_equal_cost():
    """What the page says of compositions, of the record."""
    for row in json.loads(measure_spectra.COMPOSED.read_text())["rows"]:
        assert row["maps"]["minimax, q = 10"]["error"] < row["maps"]["two of q = 2 in a row"]["error"]


def test_the_record_is_what_is_measured_now(monkeypatch):
    recorded = {
        (row["shape"], row["start"]): row["maps"] for row in json.loads(measure_spectra.RECORD.read_text())["rows"]
    }
    composed = {row["shape"]: row["maps"] for row in json.loads(measure_spectra.COMPOSED.read_text())["rows"]}
    monkeypatch.setattr(measure_spectra, "SHAPES", {"3x3 convolution of 64 channels": (64, 576)})
    for row in measure_spectra.compose()["rows"]:
        for name, found in row["maps"].items():
            assert found == pytest.approx(composed[row["shape"]][name], rel=1e-6), name
    for row in measure_spectra.measure()["rows"]:
        for name, found in row["maps"].items():
            assert found == pytest.approx(recorded[row["shape"], row["start"]][name], rel=1e-6), name


def test_the_identity_is_flat():
    assert measure_spectra._spectrum(torch.eye(3, 5).double()) == {"error": 0.0, "smallest": 1.0, "median": 1.0}


def test_another_word_is_refused_in_one_line(capsys):
    assert measure_spectra.main(["draw"]) == 2
    assert capsys.readouterr().err == "measure_spectra: draw: expected measure, compose or write\n"
