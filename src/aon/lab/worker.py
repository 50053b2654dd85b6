"""One run in a process of its own: `python -m aon.lab.worker`, started by the grid.

The job comes as one line of JSON on standard input, which is then kept open: when it closes, because the grid
wants the run to stop or is itself gone, the run saves itself and ends. Events go out as lines of JSON on
standard output. Everything else that is printed, by us or by a user's network, goes to the run's log.
"""

import json
import os
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO


@dataclass(frozen=True)
class Job:
    """What a worker is told."""

    config: dict[str, Any]
    folder: str
    root: str | None = None


def main() -> int:
    """Do the job on standard input; the status is 0 if the run is done."""
    events = _claim_stdout()
    job = Job(**json.loads(sys.stdin.readline()))
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


def _work(job: Job, stop: threading.Event, events: TextIO) -> int:
    def tell(kind: str, **data: Any) -> None:
        # Nobody listens any more if the grid was killed; the run then stops by itself.
        try:
            events.write(json.dumps({"kind": kind, **data}) + "\n")
            events.flush()
        except BrokenPipeError:
            stop.set()

    # Imported here: torch takes seconds to load, and a job to stop may come before.
    from aon.lab.config import RunConfig
    from aon.lab.errors import LabError, StoppedError
    from aon.lab.training import Watch, run

    watch = Watch(
        progress=lambda now: tell("progress", **asdict(now)),
        epoch=lambda record: _log_epoch(record, tell),
        stop=stop.is_set,
    )
    try:
        root = Path(job.root) if job.root else None
        run(RunConfig.model_validate(job.config), Path(job.folder), root=root, watch=watch)
    except StoppedError:
        tell("end", status="interrupted", error=None)
        return 1
    except LabError as error:
        tell("end", status="failed", error=str(error))
        return 1
    tell("end", status="done", error=None)
    return 0


def _log_epoch(record: Any, tell: Any) -> None:
    row = record.epochs[-1]
    when = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"{when} epoch {row.epoch}: {row.model_dump_json(exclude={'spectra'})}", flush=True)  # noqa: T201 (the log)
    tell("epoch", row=row.model_dump(mode="json", exclude={"spectra"}))


if __name__ == "__main__":
    sys.exit(main())
