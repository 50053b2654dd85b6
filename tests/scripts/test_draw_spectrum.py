"""The README's picture is made from a record; a missing record gives a one-line error."""

from scripts.draw_spectrum import main, title
from tests.lab import factory

from aon.lab.experiment.records import save


def test_it_draws_a_record(tmp_path):
    save(factory.record("bn+aon", epochs=2), tmp_path)
    assert main([str(tmp_path), str(tmp_path)]) == 0
    assert {path.suffix for path in tmp_path.glob("spectrum.*")} == {".png", ".svg"}


def test_the_title_names_method_network_and_epochs():
    assert title(factory.record("bn+aon", epochs=2)) == "BN+AON(q=2), vgg16-iternorm,\ntrained for 2 epochs"


def test_a_record_without_spectra_is_refused(tmp_path, capsys):
    save(factory.record("bn", epochs=2), tmp_path)
    assert main([str(tmp_path), str(tmp_path)]) == 1
    assert "has no spectra of its last epoch" in capsys.readouterr().err
