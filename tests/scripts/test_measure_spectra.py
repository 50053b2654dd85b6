"""The table of spectra is that of the record."""

import json

import pytest
import torch

from scripts import measure_spectra


def test_the_page_shows_the_record():
    record = json.loads(measure_spectra.RECORD.read_text())
    assert measure_spectra.table(record) in measure_spectra.PAGE.read_text()


def test_the_record_is_what_is_measured_now(monkeypatch):
    recorded = {
        (row["shape"], row["start"]): row["maps"] for row in json.loads(measure_spectra.RECORD.read_text())["rows"]
    }
    monkeypatch.setattr(measure_spectra, "SHAPES", {"3x3 convolution of 64 channels": (64, 576)})
    for row in measure_spectra.measure()["rows"]:
        for name, found in row["maps"].items():
            assert found == pytest.approx(recorded[row["shape"], row["start"]][name], rel=1e-6), name


def test_the_identity_is_flat():
    assert measure_spectra._spectrum(torch.eye(3, 5).double()) == {"error": 0.0, "smallest": 1.0, "median": 1.0}


def test_another_word_is_refused_in_one_line(capsys):
    assert measure_spectra.main(["draw"]) == 2
    assert capsys.readouterr().err == "measure_spectra: draw: expected measure or write\n"
