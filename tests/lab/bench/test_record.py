"""Records: complete on disk, checked when read, with everything needed to judge a number."""

import json

import pytest
import torch

import aon
from aon.lab.bench import record
from aon.lab.bench.rounds import Measured, Plan
from aon.lab.errors import LabError


@pytest.fixture
def made():
    measured = Measured({"bn": [1.0, 2.0], "bn+aon": [1.5, None]}, {"bn": 3, "bn+aon": 1}, {"theirs": "ValueError: no"})
    case = record.case("a step", "bn", measured, absent={"other": "not installed"}, facts_of={"bn": {"flops": 7}})
    return record.make("step", {"batch": 8}, [case], plan=Plan(rounds=2), command=["aon", "bench"])


def test_a_record_survives_the_disk(made, tmp_path):
    path = record.write(made, tmp_path / "new" / "folder" / "step.json")
    assert record.load(path) == made
    assert [p.name for p in path.parent.iterdir()] == ["step.json"]


def test_what_a_record_holds(made):
    plain = json.loads(made.model_dump_json())
    assert plain["settings"] == {"batch": 8, "rounds": 2, "warm_up": 2, "least": 0.1, "limit": None, "clock": "wall"}
    assert plain["command"] == ["aon", "bench"]
    (case,) = plain["cases"]
    assert case["absent"] == {"other": "not installed", "theirs": "ValueError: no"}
    bn, ours = case["variants"]
    assert bn["repeats"] == [1.0, 2.0]
    assert bn["median"] == 1.5
    assert bn["facts"] == {"calls": 3, "flops": 7}
    assert ours["repeats"] == [1.5, None]
    assert ours["ratio"] == {"median": 1.5, "low": 1.5, "high": 1.5, "n": 1}


def test_the_environment_says_where_and_with_what(made):
    where = made.environment
    assert where["torch"] == torch.__version__
    assert where["aon"] == aon.__version__
    assert where["threads"] == torch.get_num_threads()
    assert where["cpu"]
    assert where["commit"] is None or len(where["commit"]) == 40
    assert set(where["packages"]) == set(record.PACKAGES)


def test_a_case_needs_its_base():
    with pytest.raises(LabError, match="a step: the base 'bn' was not measured \\(it is absent\\)"):
        record.case("a step", "bn", Measured())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a benchmark's record: the file: Invalid JSON"),
        ("{}", "is not a benchmark's record: bench: Field required"),
        ('{"bench": "step", "surprise": 1}', "is not a benchmark's record"),
    ],
)
def test_what_is_no_record_is_named(tmp_path, text, message):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(LabError, match=message) as caught:
        record.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_that_cannot_be_made(tmp_path, made):
    with pytest.raises(LabError, match=r"cannot read .*none.json: No such file"):
        record.load(tmp_path / "none.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match=r"cannot make the folder .*file"):
        record.write(made, tmp_path / "file" / "step.json")


def test_all_records_of_a_folder_from_old_to_new(made, tmp_path):
    for name, started in (("a", "2026-02"), ("b", "2026-01")):
        record.write(
            made.model_copy(update={"bench": name, "environment": {"started": started}}), tmp_path / f"{name}.json"
        )
    assert [each.bench for each in record.load_all(tmp_path)] == ["b", "a"]
    assert record.load_all(tmp_path / "none") == []
