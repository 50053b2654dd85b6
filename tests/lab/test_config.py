import pytest

from aon.lab.config import RunConfig, differences, make, read_toml
from aon.lab.errors import LabError


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
    with pytest.raises(LabError, match="nesterov = True: needs a momentum above 0"):
        make({"momentum": 0, "nesterov": True})


def test_an_unknown_setting_is_refused_with_the_nearest():
    with pytest.raises(LabError, match="unknown setting 'epocs'; did you mean epochs"):
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
