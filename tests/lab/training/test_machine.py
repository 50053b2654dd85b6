"""Devices, threads and deterministic settings."""

import os
import subprocess
from pathlib import Path

import pytest
import torch

from aon.lab.errors import LabError
from aon.lab.training import machine


def test_auto_is_a_device_this_machine_has():
    torch.zeros(1, device=machine.resolve_device("auto"))


def test_a_device_that_is_not_there_is_named():
    with pytest.raises(LabError, match=r"device = 'cuda:99': this machine has \d+ CUDA devices"):
        machine.resolve_device("cuda:99")
    if not torch.backends.mps.is_available():
        with pytest.raises(LabError, match="device = 'mps': this machine has none"):
            machine.resolve_device("mps")


def test_settings_are_put_back_even_after_a_fault():
    before = torch.get_num_threads(), torch.backends.cudnn.deterministic
    with pytest.raises(TypeError, match="argument"), machine.deterministic(torch.device("cpu"), before[0] + 1, 0):
        torch.get_num_threads("no argument")
    with machine.deterministic(torch.device("cpu"), before[0] + 1, 0):
        assert (torch.get_num_threads(), torch.backends.cudnn.deterministic) == (before[0] + 1, True)
    assert (torch.get_num_threads(), torch.backends.cudnn.deterministic) == before


def test_the_seed_starts_the_stream():
    draws = []
    for seed in (3, 3, 4):
        with machine.deterministic(torch.device("cpu"), 1, seed):
            draws.append(torch.rand(2).tolist())
    assert draws[0] == draws[1] != draws[2]


def test_the_environment_is_this_one():
    found = machine.environment(torch.device("cpu"))
    assert (found.torch, found.device) == (torch.__version__, "cpu")
    root = str(Path(__file__).parent)
    head = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    assert found.commit == (head.stdout.strip() or None)


def test_cores_and_memory():
    assert 1 <= machine.cores() <= (os.cpu_count() or 1)
    assert machine.memory() > machine.GIBIBYTE // 4
