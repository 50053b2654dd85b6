"""Locks between real processes."""

import math
import subprocess
import sys

import pytest

from aon.lab.errors import LabError, StoppedError
from aon.lab.system.locks import locked

HOLD = """
import sys, pathlib
from aon.lab.system.locks import locked
with locked(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    input()
"""


def test_a_folder_is_held_by_one_process_and_free_when_it_is_killed(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LabError, match="is in use by another aon process"), locked(tmp_path, patience=0.2):
            pass
        holder.kill()
    with locked(tmp_path, patience=5.0):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match=r"cannot write .*file/run"), locked(tmp_path / "file" / "run"):
        pass


def test_a_link_in_the_locks_place_is_not_followed(tmp_path):
    (tmp_path / ".lock").symlink_to(tmp_path / "victim")
    with pytest.raises(LabError, match="cannot write"), locked(tmp_path):
        pass
    assert not (tmp_path / "victim").exists()


def test_a_wait_ends_when_it_is_told_to(tmp_path):
    held = pytest.raises(StoppedError, match="stopped while waiting for another aon process")
    with locked(tmp_path), held, locked(tmp_path, math.inf, stop=lambda: True):
        pass


def test_a_lock_that_a_dead_process_left_is_taken_over(tmp_path):
    (tmp_path / ".lock").write_text("4194304\n")
    with locked(tmp_path, patience=0.0):
        pass
