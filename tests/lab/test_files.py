import stat
from pathlib import Path

import pytest

from aon.lab.errors import LabError
from aon.lab.files import replacing, write_text


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    write_text(path, "nüw")
    assert path.read_text(encoding="utf-8") == "nüw"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(TypeError, match="bytes-like"), replacing(path) as file:
        file.writelines([b"half", "not bytes"])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(LabError, match=r"cannot write .*nowhere/a.txt: No such file"):
        write_text(tmp_path / "nowhere" / "a.txt", "text")


def test_a_full_disk_is_named():
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with pytest.raises(LabError, match="cannot write"):
        write_text(Path("/dev/full/a"), "text")
