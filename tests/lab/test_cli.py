import json
import re
import subprocess
import sys

import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner

from aon.lab import checkpoints, inspection, records
from aon.lab.cli import app
from aon.lab.config import RunConfig

TINY = ["--network", "resnet20", "--width", "0.25", "--train-size", "40", "--test-size", "20", "--batch-size", "20"]
COMMANDS = ["train", "compare", "report", "inspect", "fold", "data", "data list", "data fetch", "data verify"]


def aon(*words, **keywords):
    """The command as a user runs it."""
    return subprocess.run(
        [sys.executable, "-c", "from aon.lab.cli import main; main()", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **keywords,
    )


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
    out, told = trained
    record = records.load(out)
    assert (record.config.epochs, record.config.learning_rate, record.config.method) == (1, 0.2, "bn+aon")
    assert "BN+AON(q=2) seed 0: epoch 1/1" in told
    assert f"best {record.best.val_accuracy:.2f} % in epoch 1" in told


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


def test_fold_writes_plain_weights_and_onnx_that_agree(trained, tmp_path):
    import onnxruntime

    out, _ = trained
    model = inspection.rebuilt(*checkpoints.load_weights(out / checkpoints.LAST))
    images = torch.randn(5, 3, 32, 32)
    with torch.no_grad():
        expected = model(images)
    for name in ("plain.safetensors", "plain.onnx"):
        assert CliRunner().invoke(app, ["fold", str(out), str(tmp_path / name)]).exit_code == 0
    session = onnxruntime.InferenceSession(str(tmp_path / "plain.onnx"))
    (found,) = session.run(None, {session.get_inputs()[0].name: images.numpy()})
    assert torch.allclose(torch.from_numpy(found), expected, atol=1e-4)

    import aon as library

    plain_model = library.fold(model)
    state = safetensors.torch.load_file(tmp_path / "plain.safetensors")
    assert state.keys() == plain_model.state_dict().keys()
    plain_model.load_state_dict(state)
    with torch.no_grad():
        assert torch.allclose(plain_model(images), expected, atol=1e-5)


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
    "inspect": (["inspect", "nowhere.pt"], "there is no nowhere.pt"),
    "fold": (["fold", "nowhere", "x.txt"], "x.txt: the name should end in .safetensors or .onnx"),
    "fetch": (["data", "fetch", "mnist"], "mnist"),
    "verify": (["data", "verify", "mnist"], "mnist"),
}


@pytest.mark.parametrize("fault", ["epochs", "dataset", "inspect"])
def test_a_fault_is_one_line_on_stderr_and_status_2(fault, tmp_path):
    words, message = FAULTS[fault]
    done = aon(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("aon: ")
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_says_what_is_wrong(fault, tmp_path, monkeypatch, capsys):
    from aon.lab.cli import main

    words, message = FAULTS[fault]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["aon", *words])
    with pytest.raises(SystemExit, match="2"):
        main()
    complaint = capsys.readouterr().err
    assert message in complaint
    assert complaint.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_unexpected_fault_is_one_line_too(monkeypatch, capsys):
    from aon.lab import cli, commands

    def fault(*_):
        raise ZeroDivisionError("by\nhand")

    monkeypatch.setattr(commands, "write_report", fault)
    monkeypatch.setattr(sys, "argv", ["aon", "report", "x"])
    monkeypatch.delenv("AON_DEBUG", raising=False)
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    complaint = capsys.readouterr().err
    assert complaint == "aon: unexpected fault: ZeroDivisionError: by hand (AON_DEBUG=1 shows where)\n"


def test_a_word_that_is_no_command_or_option_is_refused():
    for words in (["trane"], ["train", "--epoch", "3"], ["train", "--epochs", "many"]):
        done = CliRunner().invoke(app, words)
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
