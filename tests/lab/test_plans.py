import pytest

from aon.lab import records
from aon.lab.errors import LabError
from aon.lab.plans import plan_comparison, plan_run
from aon.lab.presets import PRESETS


def test_the_command_line_wins_over_the_file_and_the_file_over_the_preset(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('preset = "quick"\nepochs = 7\nbatch_size = 50\n')
    config = plan_run({"batch_size": 100, "epochs": None}, file)
    assert (config.batch_size, config.epochs) == (100, 7)
    assert config.width == PRESETS["quick"].settings["width"]


def test_a_run_has_the_papers_protocol_unless_told():
    assert plan_run({}).epochs == 160


def test_a_file_with_an_unknown_name_is_refused(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text("lerning_rate = 1.0\n")
    with pytest.raises(LabError, match="unknown setting 'lerning_rate'; did you mean learning_rate"):
        plan_run({}, file)
    file.write_text("method = 'bn'\n")
    with pytest.raises(LabError, match="unknown setting 'method'; did you mean methods"):
        plan_comparison({}, file)


def test_a_comparison_takes_methods_and_seeds_from_a_file(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('preset = "table1-small"\nmethods = ["bn", "aon+bn", "bn+aon"]\nseeds = [3, 5]\nname = "mine"\n')
    plan = plan_comparison({}, file)
    assert (plan.methods, plan.seeds, plan.name) == (("bn", "bn+aon"), (3, 5), "mine")


def test_a_comparison_is_quick_unless_told():
    plan = plan_comparison({})
    assert (plan.preset, plan.base.dataset) == ("quick", "cifar10-sample")


@pytest.mark.parametrize("seeds", [0, -1, True, "many", [], [1.5], [-1], [True]])
def test_bad_seeds_are_refused(seeds):
    with pytest.raises(LabError, match=r"seeds = .*should be a number of repetitions"):
        plan_comparison({"seeds": seeds})


@pytest.mark.parametrize("methods", [3, [], [3]])
def test_bad_methods_are_refused(methods):
    with pytest.raises(LabError, match="methods"):
        plan_comparison({"methods": methods})


def test_a_bad_name_is_refused():
    with pytest.raises(LabError, match="name = ' '"):
        plan_comparison({"name": " "})


def test_a_directory_stands_in_for_the_preset(tmp_path):
    base = plan_comparison({"preset": "table3-small"}).base
    old = records.Comparison(
        name="old",
        preset="table3-small",
        methods=("bn",),
        seeds=(0, 1),
        config=base.model_dump(mode="json", exclude={"method", "seed"}),
        created="now",
    )
    records.save_comparison(old, tmp_path)
    plan = plan_comparison({"seeds": 4}, out=tmp_path)
    assert (plan.base, plan.methods, plan.seeds, plan.name) == (base, ("bn",), (0, 1, 2, 3), "old")
    assert plan_comparison({"preset": "quick"}, out=tmp_path).base != base
