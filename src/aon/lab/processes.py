"""Worker processes: started with their share of the machine, listened to, stopped."""

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
from typing import IO, Any

from aon.lab.errors import LabError
from aon.lab.training import LOG
from aon.lab.worker import Job

Event = tuple[str, dict[str, Any]]


class Worker:
    """One run in a process of its own.

    Every event it sends, and at last how its process ended, comes out of the queue with the run's name:
    `{"kind": "exit", "status": "done" | "failed" | "interrupted", "error": ...}`.
    """

    def __init__(
        self, name: str, job: Job, events: "queue.SimpleQueue[Event]", surroundings: Mapping[str, str]
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
        end: dict[str, Any] | None = None
        with _open(self.process.stdout) as lines:
            for line in lines:
                event = json.loads(line)
                if event["kind"] == "end":
                    end = event
                else:
                    self.events.put((self.name, event))
        code = self.process.wait()
        self.stop()  # nobody reads any more; closes the pipe
        status, error = (end["status"], end["error"]) if end else ("failed", _how_it_ended(code))
        self.events.put((self.name, {"kind": "exit", "status": status, "error": error}))


def _started(folder: Path, surroundings: Mapping[str, str]) -> "subprocess.Popen[str]":
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOG).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "aon.lab.worker"],
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
