"""Configurations: defaults, validation, names of runs, schedules."""

import pytest

from aon.lab.errors import LabError
from aon.lab.experiment.config import RunConfig, differences, make, read_toml


def test_defaults_are_the_papers_protocol():
    config = RunConfig()
    assert (config.network, config.width, config.epochs, config.batch_size) == ("vgg16-iternorm", 1.0, 160, 256)
    assert (config.momentum, config.nesterov, config.weight_decay) == (0.9, False, 0.0)
    assert [config.learning_rate_at(epoch) for epoch in (0, 59, 60, 119, 120, 159)] == [
        0.1,
        0.1,
        0.05,
        0.05,
        0.025,
        0.025,
    ]


def test_milestones_are_not_late_by_rounding():
    assert 0.55 * 100 > 55  # the naive comparison would come an epoch late
    config = RunConfig(epochs=100, milestones=(0.55,), decay=0.1, learning_rate=1.0)
    assert [config.learning_rate_at(epoch) for epoch in (54, 55)] == [1.0, 0.1]


BAD = {
    "epochs": (0, "epochs = 0: should be greater than or equal to 1"),
    "batch_size": (-3, "batch_size = -3"),
    "learning_rate": (float("nan"), "learning_rate = nan: should be a finite number"),
    "momentum": (1.0, "momentum = 1.0: should be less than 1"),
    "weight_decay": ("much", "weight_decay = 'much': should be a valid number"),
    "milestones": ("0.7,0.3", "milestones = '0.7,0.3': fractions must rise"),
    "decay": (0, "decay = 0: should be greater than 0"),
    "width": (None, "width = None: should be a valid number"),
    "seed": (-1, "seed = -1: should be greater than or equal to 0"),
    "device": ("tpu", "device = 'tpu': should be auto, cpu, cuda, cuda:N or mps"),
    "initialisation": ("zeros", "initialisation = 'zeros': should be 'torch', 'xavier' or 'he'"),
    "precision": ("fp8", "precision = 'fp8': should be 'float32', 'bf16' or 'fp16'"),
    "threads": (0, "threads = 0: should be greater than or equal to 1"),
    "train_size": (0, "train_size = 0"),
    "spectra_every": (-1, "spectra_every = -1"),
    "dataset": ("", "dataset = ''"),
    "method": ("bn+aom", "aom"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_value_is_refused_by_name_in_one_line(name):
    value, message = BAD[name]
    with pytest.raises(LabError) as caught:
        make({name: value})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nesterov_needs_momentum():
    with pytest.raises(LabError, match="nesterov = True: needs the optimiser sgd with a momentum above 0"):
        make({"momentum": 0, "nesterov": True})


def test_an_unknown_setting_is_refused_with_the_nearest():
    with pytest.raises(LabError, match="unknown setting 'epocs'; did you mean 'epochs'"):
        make({"epocs": 3})


def test_milestones_come_as_text_from_the_command_line():
    assert make({"milestones": "0.5, 0.9"}).milestones == (0.5, 0.9)


def test_two_spellings_of_a_method_are_one_run():
    assert make({"method": "aon+bn"}).run_id() == make({"method": "bn+aon:order=2"}).run_id()


def test_the_run_id_tells_settings_apart_but_not_threads():
    base = RunConfig()
    assert base.run_id().startswith("bn+aon-s0-")
    assert base.run_id() != base.but(epochs=3).run_id()
    assert base.run_id() == base.but(threads=7).run_id()


def test_the_run_id_is_a_safe_file_name():
    name = RunConfig(method="bn+aon:order=4:centre=mean", dataset="../../etc").run_id()
    assert "/" not in name
    assert ":" not in name


def test_changes_are_checked():
    with pytest.raises(LabError, match="epochs = 0"):
        RunConfig().but(epochs=0)


def test_differences_name_both_values():
    old, new = RunConfig(epochs=30).identity(), RunConfig(epochs=160).identity()
    assert differences(old, new) == ["epochs: 30 -> 160"]
    assert differences(old, old) == []


def test_toml_is_read(tmp_path):
    (tmp_path / "a.toml").write_text("epochs = 3\nmilestones = [0.5]\n")
    assert make(read_toml(tmp_path / "a.toml")).milestones == (0.5,)


def test_toml_that_is_missing_or_broken_is_named(tmp_path):
    with pytest.raises(LabError, match=r"cannot read .*none.toml: No such file"):
        read_toml(tmp_path / "none.toml")
    (tmp_path / "a.toml").write_text("epochs = = 3")
    with pytest.raises(LabError, match=r"a.toml is not valid TOML"):
        read_toml(tmp_path / "a.toml")
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LabError, match=r"b.toml is not valid TOML"):
        read_toml(tmp_path / "b.toml")


def test_nesterov_needs_sgd():
    with pytest.raises(LabError, match="needs the optimiser sgd"):
        make({"optimiser": "adam", "nesterov": True})


def test_the_help_says_that_adamw_needs_a_weight_decay():
    fields = RunConfig.model_fields
    assert "adamw (which is adam unless weight decay is given)" in fields["optimiser"].description
    assert "0 unless given" in fields["weight_decay"].description


def test_linear_and_cosine_schedules_go_to_zero():
    for schedule, half in (("linear", 0.5), ("cosine", 0.5)):
        config = make({"schedule": schedule, "epochs": 10, "learning_rate": 1.0})
        assert config.learning_rate_at(0) == 1.0
        assert config.learning_rate_at(5) == pytest.approx(half)
        assert config.learning_rate_at(10) == pytest.approx(0)
        rates = [config.learning_rate_at(step / 10) for step in range(101)]
        assert rates == sorted(rates, reverse=True)


def test_a_constant_schedule_stays():
    config = make({"schedule": "constant", "epochs": 10, "learning_rate": 0.3})
    assert {config.learning_rate_at(epoch) for epoch in range(10)} == {0.3}


def test_warm_up_rises_from_zero_to_the_learning_rate_and_then_follows_the_schedule():
    config = make({"schedule": "linear", "warm_up": 2, "epochs": 10, "learning_rate": 1.0})
    assert [config.learning_rate_at(epoch) for epoch in (0, 1, 2, 6, 10)] == [0, 0.5, 1, 0.5, 0]
    steps = make({"warm_up": 2, "epochs": 8, "learning_rate": 1.0})
    assert [steps.learning_rate_at(epoch) for epoch in (1, 2, 3, 6)] == [0.5, 1, 0.5, 0.25]


def test_a_warm_up_that_never_ends_is_refused():
    with pytest.raises(LabError, match="warm_up = 5: should be fewer epochs than there are"):
        make({"warm_up": 5, "epochs": 5})


def test_a_run_keeps_its_name_when_a_setting_is_added_at_its_default():
    spelt_out = RunConfig(method="bn", seed=3, epochs=160, schedule="steps", validation_size=None)
    assert spelt_out.run_id() == RunConfig(method="bn", seed=3).run_id()
    assert RunConfig(method="bn", seed=3, schedule="linear").run_id() != spelt_out.run_id()


def test_selu_has_an_initialisation_of_its_own():
    with pytest.raises(LabError, match=r"^initialisation = 'he': the method selu already has an initialisation"):
        make({"method": "selu", "initialisation": "he"})
    assert make({"method": "selu"}).initialisation == "torch"


def test_weight_decay_is_given_once():
    with pytest.raises(LabError, match=r"^weight_decay = 0.0005: the method bn\+wd already has weight decay") as caught:
        make({"method": "bn+wd", "weight_decay": 5e-4})
    assert len(str(caught.value).splitlines()) == 1
    assert make({"method": "bn+wd"}).weight_decay == 0
    assert make({"method": "bn+orth", "weight_decay": 5e-4}).weight_decay == 5e-4


def test_no_validation_images_can_be_asked_for():
    assert make({"validation_size": 0}).validation_size is None
    assert make({"validation_size": 0}).run_id() == make({}).run_id()
