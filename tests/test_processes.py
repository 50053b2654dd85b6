"""Processes started by tests end with them, children included."""

import signal
import subprocess
import sys

import pytest
from tests.processes import completed, started, wait_until

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(999)"])
print(child.pid, flush=True)
child.wait()
"""


def alive(pid):
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout.strip()[:1] not in ("", "Z")


def test_a_process_and_its_children_are_killed_at_the_end():
    with started([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as process:
        child = int(process.stdout.readline())
        assert alive(child)
    assert process.returncode == -signal.SIGTERM
    wait_until(lambda: not alive(child))


def test_a_process_that_ends_too_early_is_told():
    with (
        started([sys.executable, "-c", "raise SystemExit(3)"], stdout=subprocess.PIPE) as process,
        pytest.raises(AssertionError, match="ended with 3"),
    ):
        wait_until(lambda: False, process)


def test_output_of_a_command():
    done = completed([sys.executable, "-c", "print('yes')"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "yes\n", "")
