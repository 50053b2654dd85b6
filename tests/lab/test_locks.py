import subprocess
import sys

import pytest

from aon.lab.errors import LabError
from aon.lab.locks import locked

HOLD = """
import sys, pathlib
from aon.lab.locks import locked
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
