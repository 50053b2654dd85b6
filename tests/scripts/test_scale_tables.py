"""The tables of docs/scale.md are those of the records."""

import json

from scripts.scale_tables import DOCUMENT, RECORDS, put, tables

TARGET = 0.2  # how far a prediction may be off


def test_the_tables_in_the_document_are_those_of_the_records():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == put(text, tables()), "run `python scripts/scale_tables.py`"


def test_predictions_hold_for_three_comparisons_of_different_size():
    found = [json.loads(path.read_text(encoding="utf-8")) for path in RECORDS.glob("plan-*.json")]
    verified = [one for record in found for one in record.get("comparisons", ()) if one["measured_seconds"] is not None]
    assert len({row["operations"]["network"] for one in verified for row in one["prediction"]["rows"]}) >= 3
    assert all(abs(one["ratio"] - 1) < TARGET for one in verified)


def test_a_thousand_runs_on_four_nodes_cost_less_than_a_second_each_and_the_driver_does_not_grow():
    record = json.loads((RECORDS / "soak-ray.json").read_text(encoding="utf-8"))
    assert (record["runs"], record["nodes"], record["done"], record["failed"]) == (1000, 4, 1000, {})
    assert record["cpu_seconds"]["overhead"] < record["seconds"]["overhead"] < 1
    assert record["driver_bytes"]["at_the_end"] < 1.05 * record["driver_bytes"]["after_a_tenth"]


def test_a_table_that_lacks_its_record_is_left_out(tmp_path):
    assert tables(tmp_path) == ""
