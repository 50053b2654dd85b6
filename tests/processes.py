"""Start real processes in tests, wait for what they do, and leave none behind."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

PATIENCE = 900.0  # seconds; ends what hangs, and is never reached by what is only slow on a busy machine


@contextmanager
def started(command: Sequence[str], **keywords: Any) -> Iterator["subprocess.Popen[str]"]:
    """A process in a group of its own; at the end, whatever happened, it is stopped and the whole group killed."""
    process = subprocess.Popen(command, text=True, start_new_session=True, **keywords)
    try:
        yield process
    finally:
        process.terminate()  # torchrun stops its ranks, which are in groups of their own
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=30)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def completed(command: Sequence[str], **keywords: Any) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end; output is captured."""
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **keywords) as process:
        out, err = process.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def wait_until(condition: Callable[[], bool], process: "subprocess.Popen[str] | None" = None) -> None:
    """Return when the condition holds; fail when the process that should bring it about has ended."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if process is not None and process.poll() is not None and not condition():
            raise AssertionError(f"the process ended with {process.returncode}: {process.communicate()}")
        assert time.monotonic() < end, f"nothing happened for {PATIENCE:.0f} seconds"
        time.sleep(0.02)
