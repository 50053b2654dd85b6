"""The commands as a user types them: output, files, exit status, one-line errors."""

import json
import os
import re
import signal
import sys

import pytest
import safetensors.torch
import torch
from tests.processes import completed
from typer.testing import CliRunner

from aon.lab.cli.app import app
from aon.lab.experiment import records
from aon.lab.experiment.config import RunConfig
from aon.lab.training import checkpoints, weights
from aon.lab.training.preparation import load_data

TINY = ["--network", "resnet20", "--width", "0.25", "--train-size", "40", "--test-size", "20", "--batch-size", "20"]
COMMANDS = [
    "train",
    "compare",
    "plan",
    "merge",
    "report",
    "inspect",
    "fold",
    "data",
    "data list",
    "data fetch",
    "data verify",
]


def aon(*args, **keywords):
    """The command as a user runs it."""
    return completed([sys.executable, "-c", "from aon.lab.cli.app import main; main()", *args], **keywords)


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_that_is_a_command(command):
    result = CliRunner().invoke(app, [*command.split(), "--help"])
    assert result.exit_code == 0
    assert re.search(r"Example: aon \w+", plain(result.output))


@pytest.mark.parametrize("command", ["train", "compare"])
def test_every_setting_of_a_run_has_an_option(command):
    listed = plain(CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output)
    missing = {"method", "seed"} if command == "compare" else set()
    for name in set(RunConfig.model_fields) - missing:
        assert f"--{name.replace('_', '-')}" in listed, name
    assert "--model" in listed


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run made by the command, from a file and the command line."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "run.toml").write_text('method = "bn+aon"\nepochs = 9\nlearning_rate = 0.2\n')
    out = folder / "run"
    done = aon(
        "train", "--config", str(folder / "run.toml"), *TINY, "--epochs", "1", "--threads", "1", "--out", str(out)
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return out, done.stdout


def test_train_takes_a_file_and_the_command_line_wins(trained):
    out, stdout = trained
    record = records.load(out)
    assert (record.config.epochs, record.config.learning_rate, record.config.method) == (1, 0.2, "bn+aon")
    assert "BN+AON(q=2) seed 0: epoch 1/1" in stdout
    assert f"test accuracy {record.last.test_accuracy:.2f} % in the last epoch" in stdout
    assert "in epoch 1, the best on the test set" in stdout


def test_inspect_shows_spectra_and_plain_data(trained):
    out, _ = trained
    result = CliRunner().invoke(app, ["inspect", str(out)])
    assert result.exit_code == 0
    assert "features.0.0" in result.output
    result = CliRunner().invoke(app, ["inspect", str(out / checkpoints.LAST), "--json"])
    rows = json.loads(result.output)
    assert rows[0]["normalised_max"] < 1.5
    expected = {row.name for row in records.load(out).epochs[-1].spectra} | {"classifier"}
    assert {row["name"] for row in rows} == expected


def test_fold_writes_plain_weights_and_onnx_that_can_be_used_as_they_stand(trained, tmp_path):
    import onnxruntime

    import aon as library

    out, _ = trained
    record = records.load(out)
    data = load_data(record.config)
    pixels = data.x_test.float() / 255
    for name in ("plain.safetensors", "plain.onnx"):
        assert CliRunner().invoke(app, ["fold", str(out), str(tmp_path / name)]).exit_code == 0

    session = onnxruntime.InferenceSession(str(tmp_path / "plain.onnx"))
    assert [entry.name for entry in session.get_inputs()] == ["pixels"]
    (found,) = session.run(None, {"pixels": pixels.numpy()})
    right = (torch.from_numpy(found).argmax(1) == data.y_test).float().mean().item()
    assert 100 * right == pytest.approx(record.last.val_accuracy)
    said = session.get_modelmeta().custom_metadata_map
    assert json.loads(said["classes"]) == list(data.classes)
    assert (said["network"], said["method"], json.loads(said["image"])) == ("resnet20", "bn+aon", [3, 32, 32])
    assert said["input"] == "float32 NCHW: pixels from 0 to 1"

    state, about = checkpoints.load_weights(tmp_path / "plain.safetensors")
    assert about["input"].startswith("float32 NCHW: (pixels - mean) / std")
    assert (tuple(about["mean"]), tuple(about["std"]), about["classes"]) == (data.mean, data.std, list(data.classes))
    model = library.fold(weights.rebuilt(*checkpoints.load_weights(out / checkpoints.LAST)))
    assert state.keys() == model.state_dict().keys()
    model.load_state_dict(safetensors.torch.load_file(tmp_path / "plain.safetensors"))
    mean, std = (torch.tensor(about[name])[:, None, None] for name in ("mean", "std"))
    with torch.no_grad():
        assert torch.allclose(model((pixels - mean) / std), torch.from_numpy(found), atol=1e-4)


FAULTS = {
    "epochs": (["train", "--epochs", "0"], "epochs = 0: should be greater than or equal to 1"),
    "method": (["train", "--method", "bn+aom"], "aom"),
    "dataset": (["train", "--dataset", "cifar11"], "cifar11"),
    "preset": (["compare", "--preset", "table9"], "unknown preset 'table9'"),
    "methods": (["compare", "--methods", "bn,,zz"], "aon: "),
    "seeds": (["compare", "--seeds", "0"], "seeds = 0: should be a number of repetitions"),
    "workers": (["compare", "--workers", "0"], "workers = 0: should be at least 1"),
    "config": (["train", "--config", "none.toml"], "cannot read none.toml: No such file"),
    "network": (["train", "--model", "nowhere:net"], "cannot import 'nowhere'"),
    "report": (["report", "nowhere"], "nowhere is not a directory"),
    "reports": (["report", ".", "."], "out: should be given for a report of 2 directories"),
    "vary": (["compare", "--vary", "lower=1,2"], "vary.lower: aon: lower"),
    "base": (["compare", "--methods", "bn,bn+aon", "--base", "ln"], "base = 'ln': should be one of the methods"),
    "inspect": (["inspect", "nowhere.pt"], "there is no nowhere.pt"),
    "fold": (["fold", "nowhere", "x.txt"], "x.txt: the name should end in .safetensors or .onnx"),
    "fetch": (["data", "fetch", "mnist"], "mnist"),
    "verify": (["data", "verify", "mnist"], "mnist"),
    "many digits": (["train", "--epochs", "9" * 401], "epochs = 9999"),
    "too many digits": (["train", "--epochs", "9" * 5000], "'--epochs'"),
    "many threads": (["train", "--threads", "100000"], "threads = 100000: this machine has"),
    "device": (["train", "--device", "cuda:99999999999999999999"], "should be auto, cpu, cuda, cuda:N or mps"),
    "long dataset": (["train", "--dataset", "d" * 5000], "dataset = 'dddd"),
    "long path": (["train", "--dataset", "d" * 4000], "unknown dataset 'dddd"),
    "long out": (["train", "--out", "o" * 300], "File name too long"),
    "long comparison": (["compare", "--out", "o" * 300], "File name too long"),
    "half a character": (["compare", "--out", "a\udc80"], r"'a\udc80' is not text in UTF-8"),
    "long word": (["train", "--method", "m" * 100_000], "unknown method 'mmm"),
    "long network": (["train", "--network", "n:" + "m" * 100_000], "network = 'n:mmm"),
    "long option": (["train", "--" + "o" * 100_000], "No such option"),
    "many seeds": (["compare", "--seeds", "3000000"], "seeds = 3000000: should be a number of repetitions"),
    "long name": (["compare", "--name", "n" * 100_000], "name = 'nnn"),
    "word for a number": (["train", "--epochs", "many"], "--epochs': 'many' "),
    "missing file": (["train", "--dataset", "mine/x.npz"], "unknown dataset 'mine/x.npz', and no such file"),
    "unknown home": (["train", "--dataset", "~nobody-of-that-name/x.npz"], "unknown dataset '~nobody"),
    "no network": (["train", "--network", "math:sqrt", "--method", "none"], "math:sqrt"),
    "no module": (["train", "--network", "collections:OrderedDict"], "collections:OrderedDict"),
}


@pytest.mark.parametrize("fault", ["epochs", "dataset", "inspect"])
def test_a_fault_is_one_line_on_stderr_and_status_2(fault, tmp_path):
    args, message = FAULTS[fault]
    done = aon(*args, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("aon: ")
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_says_what_is_wrong(fault, tmp_path, monkeypatch, capsys):
    from aon.lab.cli.app import main

    args, message = FAULTS[fault]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["aon", *args])
    with pytest.raises(SystemExit, match="2"):
        main()
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1
    assert len(stderr) < 3000
    assert "unexpected fault" not in stderr
    assert list(tmp_path.iterdir()) == []


TOML = {
    "true": ("epochs = true", "epochs = True: should be a whole number"),
    "float": ("epochs = 1e26", "epochs = 1e+26: should be a whole number"),
    "text": ('epochs = "30"', "epochs = '30': should be a whole number"),
    "preset": ("preset = 3", "preset = 3: should be the name of a preset"),
    "table": ("[epochs]\na = 1", "epochs = {'a': 1}: should be a valid integer"),
    "deep": ("epochs = " + "[" * 10_000, "is not valid TOML"),
    "number": ("augment = 1", "augment = 1: should be true or false"),
    "method": ("method = [1]", "method = [1]: should be a valid string"),
    "milestones": ("milestones = [true]", "should be a number"),
    "digits": ("epochs = " + "9" * 5000, "is not valid TOML"),
    "unknown": ("epoch = 3", "unknown setting 'epoch'; did you mean 'epochs'?"),
    "network": ("network = 3", "network = 3: should be a valid string"),
    "infinite": ("learning_rate = inf", "learning_rate = inf"),
}


@pytest.mark.parametrize("fault", TOML)
def test_a_fault_in_a_file_of_settings_says_what_is_wrong(fault, tmp_path, monkeypatch, capsys):
    from aon.lab.cli.app import main

    text, message = TOML[fault]
    (tmp_path / "run.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["aon", "train", "--config", "run.toml"])
    with pytest.raises(SystemExit, match="2"):
        main()
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1


def test_an_unexpected_fault_is_one_line_too(monkeypatch, capsys):
    from aon.lab.cli import app as cli
    from aon.lab.cli import commands

    def fault(*_):
        raise ZeroDivisionError("by\nhand")

    monkeypatch.setattr(commands, "write_report", fault)
    monkeypatch.setattr(sys, "argv", ["aon", "report", "x"])
    monkeypatch.delenv("AON_DEBUG", raising=False)
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    stderr = capsys.readouterr().err
    assert stderr == "aon: unexpected fault: ZeroDivisionError: by hand (AON_DEBUG=1 shows where)\n"


def test_an_interrupt_that_ends_in_another_error_is_told_as_an_interrupt(monkeypatch, capsys):
    """An interrupted import of torch has ended in a RecursionError."""
    from aon.lab.cli import app as cli
    from aon.lab.cli import commands

    def interrupted(*_):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise RecursionError("maximum recursion depth exceeded") from None

    monkeypatch.setattr(commands, "write_report", interrupted)
    monkeypatch.setattr(sys, "argv", ["aon", "report", "x"])
    with pytest.raises(SystemExit, match="130"):
        cli.main()
    assert capsys.readouterr().err == "aon: stopped at once\n"


def test_an_interrupt_is_told_in_one_line_at_every_moment(monkeypatch, capsys):
    """While the command line is imported, before it begins, in a command."""
    from aon.lab import __main__ as program
    from aon.lab.cli import app as cli
    from aon.lab.cli import commands

    def interrupt(*_):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(sys, "argv", ["aon", "report", "x"])
    for place, name in ((program, "_command_line"), (cli, "noted_interrupts"), (commands, "write_report")):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, interrupt)
            with pytest.raises(SystemExit, match="130"):
                program.main()
        assert capsys.readouterr().err == "aon: stopped at once\n"


def test_a_word_that_is_no_command_or_option_is_refused():
    for args in (["trane"], ["train", "--epoch", "3"], ["train", "--epochs", "many"]):
        done = CliRunner().invoke(app, args)
        assert done.exit_code == 2
        assert "Traceback" not in done.output


def test_data_list_and_verify():
    listed = CliRunner().invoke(app, ["data", "list"], env={"COLUMNS": "200"}).output
    assert all(name in listed for name in ("cifar10-sample", "cifar10", "cifar100", "5,000"))
    verified = CliRunner().invoke(app, ["data", "verify", "cifar10-sample"])
    assert verified.exit_code == 0
    assert "cifar10-sample is good" in verified.output


def test_version():
    from aon import __version__

    assert CliRunner().invoke(app, ["--version"]).output == f"aon {__version__}\n"


def test_the_laboratory_runs_as_a_module():
    done = completed([sys.executable, "-m", "aon.lab", "--help"])
    assert done.returncode == 0, done.stderr
    assert "compare" in done.stdout
