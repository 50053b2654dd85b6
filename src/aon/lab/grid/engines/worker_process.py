"""The program of a worker: `python -m aon.lab.grid.engines.worker_process`, started by `Worker`.

The job comes as one line of JSON on standard input, which is then kept open: when it closes, because the grid
wants the run to stop or is itself gone, the run saves itself and ends. Events go out as lines of JSON on
standard output. Everything else that is printed, by us or by a user's network, goes to the run's log.
"""

import json
import math
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from aon.lab.grid.events import Event


def main() -> int:
    """Do the job on standard input; the status is 0 if the run is done."""
    events = _claim_stdout()
    job = json.loads(sys.stdin.readline())
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=_until_closed, args=(stop,), daemon=True).start()
    return _work(job, stop, events)


def _claim_stdout() -> TextIO:
    """Keep standard output for events; whatever else is printed goes where errors go."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return events


def _until_closed(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


def _work(job: dict[str, Any], stop: threading.Event, events: TextIO) -> int:
    # Imported here: torch takes seconds to load, and a request to stop may come before.
    from aon.lab.errors import LabError
    from aon.lab.grid.events import EpochDone, Noticed, to_line
    from aon.lab.grid.jobs import Job, perform

    def emit(event: "Event") -> None:
        if isinstance(event, EpochDone | Noticed):
            with suppress(OSError):  # a full disk is reported by files that must be written, not by the log
                print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {event}", flush=True)  # noqa: T201 (the log)
        # Nobody listens any more if the grid was killed; the run then stops by itself.
        try:
            events.write(to_line(event) + "\n")
            events.flush()
        except BrokenPipeError:
            stop.set()

    try:
        # A process of an earlier comparison, killed since, may still be in a long step: it saves itself and ends.
        perform(Job(**job), emit, stop.is_set, patience=math.inf)
    except LabError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
