"""Start a worker process, read its events, stop it."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO

from aon.lab.errors import LabError
from aon.lab.grid.events import Ended, Event, from_line
from aon.lab.grid.jobs import Job
from aon.lab.training.run import LOG


class Worker:
    """One run in a process of its own.

    Every event of the run comes out of the queue with its name; `Ended` comes last, once the process is gone.

    Args:
        name: The run's name.
        job: The run.
        events: Where its events go.
        surroundings: Environment variables of its process.

    Raises:
        LabError: if the process cannot be started.
    """

    def __init__(
        self, name: str, job: Job, events: "queue.SimpleQueue[tuple[str, Event]]", surroundings: Mapping[str, str]
    ) -> None:
        self.name, self.events = name, events
        try:
            self.process = _started(Path(job.folder), surroundings)
        except OSError as error:
            raise LabError(f"cannot start {name} in {job.folder}: {error.strerror}") from error
        self._send(json.dumps(asdict(job)) + "\n")
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def stop(self) -> None:
        """Ask the run to save itself and end."""
        with suppress(OSError):
            _open(self.process.stdin).close()

    def kill(self) -> None:
        """End the process at once; its last checkpoint is whole."""
        self.process.kill()
        self._listener.join()

    def _send(self, text: str) -> None:
        with suppress(OSError):  # a process that died at once is reported by its listener
            _open(self.process.stdin).write(text)
            _open(self.process.stdin).flush()

    def _listen(self) -> None:
        end: Ended | None = None
        with _open(self.process.stdout) as lines:
            for line in lines:
                event = from_line(line)
                if isinstance(event, Ended):
                    end = event
                else:
                    self.events.put((self.name, event))
        code = self.process.wait()
        self.stop()  # nobody reads any more; closes the pipe
        self.events.put((self.name, end or Ended("failed", _how_it_ended(code))))


def _started(folder: Path, surroundings: Mapping[str, str]) -> "subprocess.Popen[str]":
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOG).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "aon.lab.grid.engines.worker_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, **surroundings},
            text=True,
            # Ctrl-C goes to all processes of a terminal; a run must hear of it from the grid alone.
            start_new_session=True,
        )


def _open(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"its process ended with status {code} and said nothing; see its {LOG}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"its process was killed by {name}{hint}"
