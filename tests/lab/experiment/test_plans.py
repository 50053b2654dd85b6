"""Plans: preset, file and command line merged in that order."""

import pytest

from aon.lab.errors import LabError
from aon.lab.experiment import records
from aon.lab.experiment.config import make
from aon.lab.experiment.plans import plan_comparison, plan_run
from aon.lab.experiment.presets import PRESETS


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
    with pytest.raises(LabError, match="unknown setting 'lerning_rate'; did you mean 'learning_rate'"):
        plan_run({}, file)
    file.write_text("method = 'bn'\n")
    with pytest.raises(LabError, match="unknown setting 'method'; did you mean 'methods'"):
        plan_comparison({}, file)


def test_a_comparison_takes_methods_and_seeds_from_a_file(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('preset = "table1-small"\nmethods = ["bn", "aon+bn"]\nseeds = [3, 5]\nname = "mine"\n')
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


def test_settings_vary_by_the_command_line_and_by_a_file(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('preset = "quick"\n[vary]\nlearning_rate = [0.05, 0.1, 0.05]\nnetwork = ["resnet20"]\n')
    expected = {"learning_rate": (0.05, 0.1), "network": ("resnet20",)}
    assert plan_comparison({}, file).vary == expected
    assert plan_comparison({"vary": ["learning-rate=0.05, 0.1", "network=resnet20"]}).vary == expected
    rates = [(setting.learning_rate, setting.network) for setting in plan_comparison({}, file).settings()]
    assert rates == [(0.05, "resnet20"), (0.1, "resnet20")]
    assert len(plan_comparison({}).settings()) == 1


def test_an_option_varies_in_the_methods_that_have_it(tmp_path):
    plan = plan_comparison({"vary": ["beta=1,10,100", "width=0.5,1"]})
    assert plan.methods == ("bn", "bn+orth:beta=1", "bn+orth", "bn+orth:beta=100", "bn+aon")
    assert plan.vary == {"width": (0.5, 1.0)}
    file = tmp_path / "a.toml"
    file.write_text('methods = ["bn", "bn+aon:centre=mean"]\n[vary]\norder = [0, 4]\n')
    assert plan_comparison({}, file).methods == ("bn", "bn+aon:order=0:centre=mean", "bn+aon:order=4:centre=mean")


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        (["learning_rate"], "vary = 'learning_rate': should be a setting and its values"),
        (["learning_rate="], r"vary.learning_rate = \[\]: should be a list of values"),
        (["learning_rate=much"], "learning_rate = 'much': should be a valid number"),
        (["lerning_rate=1"], "unknown setting or option 'lerning_rate'; did you mean 'learning_rate'"),
        (["seed=1,2"], "unknown setting or option 'seed'"),
        (["magnitude=1,2"], r"vary = 'magnitude': none of the methods bn, bn\+orth, bn\+aon has this option"),
        (["beta=1,-2"], "vary.beta: orth: beta"),
        ({"epochs": 3}, "vary.epochs = 3: should be a list of values"),
        (3, "vary = 3: should be a table of settings"),
    ],
)
def test_bad_values_to_vary_are_refused(vary, message):
    with pytest.raises(LabError, match=message):
        plan_comparison({"vary": vary})


def test_the_numbers_of_images_of_a_preset_are_not_for_a_users_own_data():
    for plan in (plan_comparison({"dataset": "mine.npz"}).base, plan_run({"preset": "quick", "dataset": "photos@32"})):
        assert (plan.train_size, plan.validation_size, plan.test_size) == (None, None, None)
        assert plan.width == PRESETS["quick"].settings["width"]
    assert plan_comparison({"dataset": "cifar10"}).base.train_size == PRESETS["quick"].settings["train_size"]
    assert plan_comparison({"dataset": "mine.npz", "train_size": 30}).base.train_size == 30
    assert plan_comparison({"vary": ["dataset=mine.npz,other.npz"]}).base.train_size is None


def test_a_method_given_twice_is_refused_in_a_list_too():
    with pytest.raises(LabError, match=r"method 'bn\+aon:order=0' is given twice"):
        plan_comparison({"methods": ["bn+sn", "bn+aon:order=0"]})
    with pytest.raises(LabError, match=r"'bn,bn\+aon' is several; give each method as an entry of its own"):
        plan_comparison({"methods": ["bn,bn+aon"]})


def test_the_baseline_is_one_of_the_methods():
    assert plan_comparison({"base": "aon+bn", "methods": "bn,bn+aon"}).baseline == "bn+aon"
    assert plan_comparison({}).baseline is None
    with pytest.raises(LabError, match=r"base = 'iternorm': should be one of the methods, bn, bn\+aon"):
        plan_comparison({"base": "iternorm", "methods": "bn,bn+aon", "preset": "quick"})


@pytest.mark.parametrize("preset", [None, "quick"])
def test_a_method_of_the_preset_that_is_not_run_is_no_baseline(preset, tmp_path):
    given = {"methods": "bn,bn+aon", "base": "bn+orth", "preset": preset}
    for out in (None, tmp_path):
        with pytest.raises(LabError, match=r"base = 'bn\+orth': should be one of the methods, bn, bn\+aon$"):
            plan_comparison(given, out=out)


def test_a_directory_stands_in_for_the_preset(tmp_path):
    base = plan_comparison({"preset": "table3-small"}).base
    old = records.Comparison(
        name="old",
        preset="table3-small",
        methods=("bn",),
        seeds=(0, 1),
        config=base.model_dump(mode="json", exclude={"method", "seed"}),
        vary={"width": (0.25, 0.5)},
        baseline="bn",
        created="now",
    )
    records.save_comparison(old, tmp_path)
    plan = plan_comparison({"seeds": 4}, out=tmp_path)
    assert (plan.base, plan.methods, plan.seeds, plan.name) == (base, ("bn",), (0, 1, 2, 3), "old")
    assert (plan.vary, plan.baseline) == ({"width": (0.25, 0.5)}, "bn")
    assert plan_comparison({"methods": "bn+aon"}, out=tmp_path).baseline == "bn"
    assert plan_comparison({"methods": "bn+aon", "base": "bn"}, out=tmp_path).baseline == "bn"
    assert plan_comparison({"methods": "bn+aon", "base": "bn", "preset": "quick"}, out=tmp_path).baseline == "bn"
    assert plan_comparison({"preset": "quick"}, out=tmp_path).base != base


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"optimiser": "adam", "momentum": 0.3},
            r"^momentum = 0\.3: has no effect with optimiser = adam; expected with",
        ),
        ({"schedule": "cosine", "decay": 0.1}, r"^decay = 0\.1: has no effect with schedule = cosine; expected with"),
        ({"schedule": "linear", "milestones": "0.5"}, r"^milestones = .*: has no effect with schedule = linear"),
    ],
)
def test_a_setting_that_no_run_would_use_is_refused(given, message):
    for plan in (plan_run, plan_comparison):
        with pytest.raises(LabError, match=message):
            plan(given)


def test_a_setting_is_refused_only_if_no_run_uses_it():
    both = plan_comparison({"momentum": 0.5, "vary": ["optimiser=sgd,adam"]})
    assert [setting.optimiser for setting in both.settings()] == ["sgd", "adam"]
    with pytest.raises(LabError, match=r"^momentum = \(0\.5, 0\.9\): has no effect with optimiser = adam"):
        plan_comparison({"optimiser": "adam", "vary": ["momentum=0.5,0.9"]})
    assert plan_run({"optimiser": "adam", "momentum": 0.9}) == plan_run({"optimiser": "adam"})


def test_records_of_runs_with_such_settings_can_still_be_read():
    assert make({"optimiser": "adam", "momentum": 0.3}).momentum == 0.3
