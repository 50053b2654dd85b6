"""Downloads from a real local server: resume, retry, checksum."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from aon.lab.data.download import DownloadError, download, md5_of, size
from aon.lab.errors import LabError

CONTENT = bytes(range(256)) * 8192  # two megabytes
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


@pytest.fixture
def served(site):
    site.files["file.bin"] = CONTENT
    return site


def get(served, folder, **options):
    options = {"pause": 0.0} | options
    download(f"{served.url}/file.bin", folder / "file.bin", options.pop("md5", MD5), **options)
    return (folder / "file.bin").read_bytes()


def test_a_file_is_downloaded_and_nothing_else_left(served, tmp_path):
    assert get(served, tmp_path) == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["file.bin"]
    assert served.range_headers == [None]


def test_progress_is_told_from_nothing_to_everything(served, tmp_path):
    calls = []
    get(served, tmp_path, progress=lambda *step: calls.append(step))
    assert calls[0] == ("file.bin", 0, len(CONTENT))
    assert calls[-1] == ("file.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in calls] == sorted(done for _, done, _ in calls)


def test_a_broken_connection_is_resumed_where_it_broke(served, tmp_path):
    served.breaks = [700_001, 800_000]
    assert get(served, tmp_path) == CONTENT
    assert served.range_headers == [None, "bytes=700001-", "bytes=1500001-"]


def test_patience_counts_only_tries_that_bring_nothing(served, tmp_path):
    served.breaks = [1000] * 10
    assert get(served, tmp_path, patience=2) == CONTENT
    assert len(served.range_headers) == 11


def test_a_server_without_ranges_sends_all_of_it_again(served, tmp_path):
    served.ranges = False
    served.breaks = [700_001]
    assert get(served, tmp_path) == CONTENT
    assert served.range_headers == [None, "bytes=700001-"]


def test_a_server_without_ranges_that_always_breaks_is_given_up(served, tmp_path):
    served.ranges = False
    served.breaks = [1000] * 10
    with pytest.raises(DownloadError, match="the connection broke after 1000 of 2097152 bytes"):
        get(served, tmp_path, patience=3)
    assert len(served.range_headers) == 3


def test_an_interrupted_download_goes_on_in_the_next_call(served, tmp_path):
    def interrupt(what, done, total):
        if done > 500_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(served, tmp_path, progress=interrupt)
    assert not (tmp_path / "file.bin").exists()
    have = size(tmp_path / "file.bin.part")
    assert 500_000 < have < len(CONTENT)
    assert get(served, tmp_path) == CONTENT
    assert served.range_headers == [None, f"bytes={have}-"]


def test_a_killed_process_leaves_a_part_that_is_used(served, tmp_path):
    served.breaks, served.stall = [1_000_000], threading.Event()
    script = "import sys; from pathlib import Path; from aon.lab.data.download import download; "
    script += "download(sys.argv[1], Path(sys.argv[2]), sys.argv[3])"
    command = [sys.executable, "-c", script, f"{served.url}/file.bin", str(tmp_path / "file.bin"), MD5]
    with subprocess.Popen(command) as process:
        while size(tmp_path / "file.bin.part") < 1_000_000:
            assert process.poll() is None
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    served.stall.set()
    assert get(served, tmp_path) == CONTENT
    assert served.range_headers == [None, "bytes=1000000-"]


def test_a_part_that_is_whole_already_is_used(served, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert get(served, tmp_path) == CONTENT
    assert served.range_headers == [f"bytes={len(CONTENT)}-"]


@pytest.mark.parametrize("stale", [b"x" * 1000, b"x" * (len(CONTENT) + 5)], ids=["short", "long"])
def test_a_stale_part_is_thrown_away_and_the_file_asked_for_anew(served, tmp_path, stale):
    (tmp_path / "file.bin.part").write_bytes(stale)
    assert get(served, tmp_path) == CONTENT
    assert served.range_headers[-1] is None


def test_a_server_that_sends_another_part_is_not_believed(served, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    served.shift = 3
    assert get(served, tmp_path) == CONTENT
    assert served.range_headers == ["bytes=1000-", None]


def test_a_wrong_md5_is_refused_and_nothing_kept(served, tmp_path):
    with pytest.raises(DownloadError, match=f"its md5 is {MD5}, expected {'0' * 32}"):
        get(served, tmp_path, md5="0" * 32)
    assert list(tmp_path.iterdir()) == []
    assert len(served.range_headers) == 2


@pytest.mark.parametrize("code", [500, 503, 429])
def test_a_passing_fault_of_the_server_is_waited_out(served, tmp_path, code):
    served.answers = [code, code]
    assert get(served, tmp_path) == CONTENT


def test_a_lasting_fault_of_the_server_is_reported(served, tmp_path):
    served.answers = [503] * 9
    with pytest.raises(DownloadError, match="the server answers 503 Service Unavailable"):
        get(served, tmp_path)


@pytest.mark.parametrize("code", [403, 404, 410])
def test_a_refusal_is_not_asked_for_twice(served, tmp_path, code):
    served.answers = [code] * 9
    with pytest.raises(DownloadError, match=f"the server answers {code}"):
        get(served, tmp_path)
    assert len(served.range_headers) == 1


def test_a_site_that_cannot_be_reached_is_reported(tmp_path):
    with pytest.raises(DownloadError, match=r"cannot download http://127\.0\.0\.1:9/x: .*refused"):
        download("http://127.0.0.1:9/x", tmp_path / "x", MD5, pause=0.0)


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/x", "nonsense"])
def test_only_http_is_spoken(tmp_path, url):
    with pytest.raises(LabError, match="expected an http or https address"):
        download(url, tmp_path / "x", MD5)


def test_a_folder_that_is_not_there_is_reported(served, tmp_path):
    with pytest.raises(LabError, match=r"cannot write .*missing/file\.bin\.part: No such file or directory"):
        get(served, tmp_path / "missing")


def test_a_full_disk_is_reported_and_not_taken_for_a_broken_connection(served, tmp_path):
    (tmp_path / "file.bin.part").symlink_to("/dev/full")
    with pytest.raises(LabError, match="No space left on device"):
        get(served, tmp_path)
    assert len(served.range_headers) == 1


def test_md5_of_a_file(tmp_path):
    (tmp_path / "x").write_bytes(CONTENT)
    assert md5_of(tmp_path / "x") == MD5
