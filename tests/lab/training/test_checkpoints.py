"""Checkpoints: round trips, damage, untrusted files."""

import os
import pickle
import random

import numpy
import pytest
import torch

from aon.lab.errors import LabError
from aon.lab.training import checkpoints


def draws():
    return random.random(), numpy.random.rand(), random.gauss(0, 1), numpy.random.randn(), torch.rand(3).tolist()


def test_every_random_stream_continues_through_a_file(tmp_path):
    random.seed(1)
    numpy.random.seed(1)
    torch.manual_seed(1)
    draws()  # leaves a second normal number waiting in python's and numpy's streams
    checkpoints.save(tmp_path / "a.pt", {"random": checkpoints.random_states()})
    expected = draws()
    draws()
    checkpoints.restore_random_states(checkpoints.load(tmp_path / "a.pt")["random"])
    assert draws() == expected


def test_a_checkpoint_comes_back(tmp_path):
    state = {"model": {"w": torch.arange(3)}, "step": 4, "record": "text"}
    checkpoints.save(tmp_path / "a.pt", state)
    found = checkpoints.load(tmp_path / "a.pt")
    assert torch.equal(found["model"]["w"], state["model"]["w"])
    assert (found["step"], found["record"]) == (4, "text")


def test_a_missing_checkpoint_is_named(tmp_path):
    with pytest.raises(LabError, match=r"there is no .*a.pt"):
        checkpoints.load(tmp_path / "a.pt")


def test_every_cut_of_a_checkpoint_is_refused(tmp_path):
    path = tmp_path / "a.pt"
    checkpoints.save(path, {"w": torch.randn(50)})
    whole = path.read_bytes()
    for length in range(0, len(whole), 131):
        path.write_bytes(whole[:length])
        with pytest.raises(LabError, match=r"a.pt is damaged"):
            checkpoints.load(path)


class Malice:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("write", [torch.save, lambda x, path: path.write_bytes(pickle.dumps(x))])
def test_a_file_that_would_run_code_is_refused_and_does_not(tmp_path, write):
    target = tmp_path / "ran"
    write({"format": 1, "model": Malice(str(target))}, tmp_path / "a.pt")
    with pytest.raises(LabError, match="damaged, or holds more than tensors"):
        checkpoints.load(tmp_path / "a.pt")
    assert not target.exists()


def test_other_formats_are_refused(tmp_path):
    torch.save({"w": torch.zeros(1)}, tmp_path / "a.pt")
    with pytest.raises(LabError, match="not a checkpoint of format 2"):
        checkpoints.load(tmp_path / "a.pt")
    torch.save([1, 2], tmp_path / "a.pt")
    with pytest.raises(LabError, match="holds a list, expected"):
        checkpoints.load(tmp_path / "a.pt")


def test_weights_come_back_with_what_they_say_of_themselves(tmp_path):
    tied = torch.randn(3, 4)
    checkpoints.save_weights(tmp_path / "a.safetensors", {"a": tied, "b": tied, "n": torch.tensor(3)}, {"epoch": 2})
    state, about = checkpoints.load_weights(tmp_path / "a.safetensors")
    assert torch.equal(state["a"], tied)
    assert torch.equal(state["b"], tied)
    assert (state["n"].item(), about) == (3, {"epoch": 2})


def test_damaged_weights_are_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    with pytest.raises(LabError, match="there is no"):
        checkpoints.load_weights(path)
    checkpoints.save_weights(path, {"a": torch.randn(9)}, {})
    whole = path.read_bytes()
    for length in (0, 5, 20, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(LabError, match=r"a.safetensors is damaged"):
            checkpoints.load_weights(path)
