"""Shards, merging, engines and plans, as a user types them."""

import json
import sys

import pytest
from typer.testing import CliRunner

from aon.lab.cli.app import app
from aon.lab.errors import LabError
from aon.lab.experiment import records

TINY = ["--network", "resnet20", "--width", "0.25", "--train-size", "40", "--test-size", "20", "--batch-size", "20"]
RUNS = ["compare", "--methods", "bn,bn+aon", "--seeds", "1", *TINY, "--epochs", "1", "--threads", "1", "--workers", "1"]


def invoked(*args):
    return CliRunner().invoke(app, [str(word) for word in args])


def refused(*args):
    result = invoked(*args)
    assert isinstance(result.exception, LabError), result.output
    assert "\n" not in str(result.exception)
    return str(result.exception)


def test_shards_merged_are_the_whole_comparison(tmp_path):
    for part in (1, 2):
        result = invoked(*RUNS, "--shard", f"{part}/2", "--out", tmp_path / f"shard-{part}")
        assert result.exit_code == 0, result.output
        assert len(records.load_all(tmp_path / f"shard-{part}")) == 1
    merged = invoked("merge", tmp_path / "shard-1", tmp_path / "shard-2", "--out", tmp_path / "merged")
    assert merged.exit_code == 0, merged.output
    assert "copied 2 runs; 2 of 2 runs" in merged.output.replace("\n", " ")
    assert (tmp_path / "merged" / "report.html").exists()
    assert invoked(*RUNS, "--out", tmp_path / "whole").exit_code == 0
    assert [r.without_times() for r in records.load_all(tmp_path / "merged")] == [
        r.without_times() for r in records.load_all(tmp_path / "whole")
    ]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--shard", "3/2"], "shard = '3/2': should be I/N"),
        (["--engine", "slurm"], "unknown engine 'slurm'"),
        (["--address", "auto"], "--address is for --engine ray"),
        (["--gpus-per-run", "1"], "--gpus-per-run is for --engine ray"),
        (["--engine", "ray"], "--workers is for the local engine"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path, args, message):
    assert message in refused(*RUNS, *args, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_without_ray_the_error_says_what_to_install(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("aon.lab.grid.engines.ray")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    message = refused(*RUNS[:-2], "--engine", "ray", "--out", tmp_path / "out")
    assert message == "--engine ray needs the package ray; install it with: pip install 'aon[ray]'"


def test_a_plan_is_shown_and_recorded(tmp_path):
    out = tmp_path / "scale" / "plan.json"
    result = invoked("plan", "--preset", "table1,table3", "--device-flops", "1e12", "--price", "2", "--out", out)
    assert result.exit_code == 0, result.output
    assert "all together: 30 runs" in result.output.replace("\n", " ")
    record = json.loads(out.read_text())
    assert [one["name"] for one in record["comparisons"]] == ["table1", "table3"]
    assert record["command"][0] == "aon"
    assert record["comparisons"][0]["prediction"]["cost"] > 0


@pytest.mark.parametrize("args", [["--workload", "7b"], ["--workload", "imagenet", "--device-flops", "1e14"]])
def test_large_workloads_are_shown_and_recorded(tmp_path, args):
    result = invoked("plan", *args, "--out", tmp_path / "plan.json")
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "plan.json").read_text())["rows"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--workload", "8b"], "unknown workload '8b'"),
        (["--workload", "imagenet"], "needs --device-flops"),
        (["--workload", "7b", "--preset", "quick"], "--workload 7b goes without --preset"),
        (["--workload", "7b", "--verify"], "--workload 7b goes without --verify"),
        (["--preset", "quick", "--device-flops", "-1"], "device_flops = -1"),
        (["--preset", "quick", "--device-flops", "1e12", "--verify"], "--verify measures this machine"),
        (["--preset", "table1,"], "preset = 'table1,': a name is missing"),
        (["--workload", "7b", "--out", "/dev/null/a/b.json"], "cannot write /dev/null/a/b.json: Not a directory"),
    ],
)
def test_bad_plans_are_refused(args, message):
    assert message in refused("plan", *args)
