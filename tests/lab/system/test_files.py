"""Atomic writes and leftovers."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from aon.lab.errors import LabError
from aon.lab.system.files import keep_under, remove_orphans, replacing, write_text


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


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_are_made_with_the_users_umask(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_text(tmp_path / "a", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode


def test_orphans_are_removed_and_the_files_of_living_writers_are_not(tmp_path):
    orphan = tmp_path / ".aon-record.json.x1.tmp"
    orphan.write_text("half")
    link = tmp_path / ".aon-link.tmp"
    link.symlink_to(tmp_path / "elsewhere")
    with replacing(tmp_path / "a") as file:
        file.write(b"whole")
        assert remove_orphans(tmp_path) == [orphan]
    assert (tmp_path / "a").read_bytes() == b"whole"
    assert link.is_symlink()


def test_a_long_name_can_be_written(tmp_path):
    write_text(tmp_path / ("n" * 250), "text")
    with pytest.raises(LabError, match="File name too long"):
        write_text(tmp_path / ("n" * 256), "text")


def test_a_file_is_kept_under_a_second_name(tmp_path):
    write_text(tmp_path / "a", "new")
    write_text(tmp_path / "b", "old")
    keep_under(tmp_path / "a", tmp_path / "b")
    assert [(tmp_path / name).read_text() for name in "ab"] == ["new", "new"]
    keep_under(tmp_path / "a", tmp_path / "b")  # as after a kill between the two: they are one file already
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    write_text(tmp_path / "a", "newer")
    assert [(tmp_path / name).read_text() for name in "ab"] == ["newer", "new"]


def test_a_disk_that_fills_up_while_torch_writes_is_named(tmp_path):
    """A limit on the size of files stands in for the disk's."""
    program = (
        "import resource, signal, sys, pathlib, torch\n"
        "from aon.lab.training import checkpoints\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "checkpoints.save(pathlib.Path(sys.argv[1]), {'w': torch.zeros(100_000)})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a.pt")], capture_output=True, text=True, check=False
    )
    assert "LabError: cannot write" in done.stderr.splitlines()[-1]
    assert "File too large" in done.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []
