"""The table of norms during large steps is that of the record."""

import json

from aon.lab.experiment.config import RunConfig
from scripts import measure_lag


def test_the_page_shows_the_record():
    record = json.loads(measure_lag.RECORD.read_text())
    assert measure_lag.table(record) in measure_lag.PAGE.read_text()


def test_five_steps_follow_where_one_lags():
    """What the page advises, of the record."""
    found = json.loads(measure_lag.RECORD.read_text())["methods"]
    assert found["bn+aon"]["steps_above"] > 0.2
    assert found["bn+aon:iterations=5"]["steps_above"] < 0.05


def test_a_run_gives_the_norm_of_every_layer_at_every_step():
    config = RunConfig(method="bn+aon", network="resnet20", width=0.25, train_size=60, batch_size=20, learning_rate=0.3)
    rows = measure_lag.measure_run(config, steps=2)
    assert [len(row) for row in rows] == [19, 19]
    assert all(0.9 < norm < 3 for row in rows for norm in row)


def test_summary_of_known_norms():
    found = measure_lag.summary([[1.0, 1.2], [1.0, 1.0]])
    assert found == {"steps_above": 0.5, "layers_above": 0.25, "largest": 1.2}


def test_another_word_is_refused_in_one_line(capsys):
    assert measure_lag.main(["draw"]) == 2
    assert capsys.readouterr().err == "measure_lag: draw: expected measure or write\n"
