"""The scripts for Slurm and Kubernetes: what they would run is what the command line understands."""

import os
import shlex
from pathlib import Path

import pytest
import typer
from tests.processes import completed

from aon.lab.cli.app import app
from aon.lab.grid.shards import Shard

EXAMPLES = Path(__file__).parents[2] / "examples"
COMMANDS = typer.main.get_command(app).commands


def said(script: str, folder: Path, *args: str, **variables: str) -> list[str]:
    """The words that a script of Slurm would run; `aon`, `srun` and `scontrol` are programs that say their words."""
    for name in ("aon", "srun", "scontrol"):
        (folder / name).write_text('#!/bin/bash\necho "$(basename "$0") $*"\n')
        (folder / name).chmod(0o755)
    environment = {**os.environ, **variables, "PATH": f"{folder}:{os.environ['PATH']}", "OUT": str(folder / "out")}
    done = completed(["bash", str(EXAMPLES / "slurm" / script), *args], env=environment)
    assert done.returncode == 0, done.stderr
    return shlex.split(done.stdout)


def check(words: list[str]) -> None:
    """A command of `aon` with options that it has."""
    command = COMMANDS[words[0]]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize(("first", "task"), [(1, 3), (0, 2)])
def test_slurm_compare(tmp_path, first, task):
    """Arrays may begin with 0 or 1; shards begin with 1."""
    variables = {"COUNT": "8", "MIN": str(first), "ID": str(task)}
    variables = {f"SLURM_ARRAY_TASK_{name}": value for name, value in variables.items()}
    name, *words = said("compare.sbatch", tmp_path, "--preset", "table2", **variables)
    assert name == "aon"
    check(words)
    assert Shard.parse(words[words.index("--shard") + 1]) == Shard(3, 8)
    assert words[words.index("--out") + 1] == str(tmp_path / "out" / "shard-3")


def test_slurm_train(tmp_path):
    variables = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NNODES": "2", "SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "4"}
    words = said("train.sbatch", tmp_path, "--method", "bn+aon", "--sync-bn", **variables)
    assert words[:6] == ["srun", "torchrun", "--nnodes", "2", "--nproc-per-node", "4"]
    check(words[words.index("aon.lab") + 1 :])


def test_kuberay():
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((EXAMPLES / "kuberay" / "compare.yaml").read_text(encoding="utf-8"))
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    name, *words = shlex.split(job["spec"]["entrypoint"])
    assert name == "aon"
    check(words)
    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    (mount,) = head["containers"][0]["volumeMounts"]
    assert words[words.index("--out") + 1].startswith(mount["mountPath"])
