"""Execute all runs of a comparison with an engine: processes of this machine, or a cluster.

A run that fails is reported and does not stop the others. A finished run is never repeated, an interrupted
one continues, and methods and seeds can be added to a comparison at any time.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from aon.lab.errors import LabError
from aon.lab.experiment import records
from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.plans import Plan
from aon.lab.experiment.records import Fingerprints
from aon.lab.grid.comparisons import default_workers, load_existing, merge_comparison, requested_runs
from aon.lab.grid.engines.engine import Engine
from aon.lab.grid.engines.local import LocalEngine
from aon.lab.grid.events import Ended, Event
from aon.lab.grid.jobs import Job
from aon.lab.grid.shards import Shard
from aon.lab.system.files import remove_orphans
from aon.lab.system.locks import locked
from aon.lab.system.signals import stop_requests
from aon.lab.training import preparation, sources


class Screen(Protocol):
    """Interface of a progress display."""

    def begin(self, out: Path, runs: Sequence[RunConfig], workers: int) -> None:
        """All runs of the comparison are known."""

    def event(self, name: str, event: Event) -> None:
        """Something happened to a run."""

    def stopping(self) -> None:
        """A stop was requested; the runs are saving themselves."""

    def end(self) -> None:
        """Nothing more will come."""


@dataclass
class Outcome:
    """Names of the runs that are done, failed (with the reason) or unfinished."""

    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)


def compare(
    plan: Plan,
    out: Path,
    screen: Screen,
    *,
    engine: Engine | None = None,
    workers: int | None = None,
    shard: Shard | None = None,
    root: Path | None = None,
    command: Sequence[str] = (),
) -> Outcome:
    """Do every run of a plan that is not done yet.

    Args:
        plan: The comparison.
        out: The comparison directory; made, continued, or added to.
        screen: Shows how it goes.
        engine: Does the runs; processes of this machine if not given.
        workers: How many of those at a time; what the machine takes, if not given.
        shard: The part of the runs to do; all if not given.
        root: Where datasets are kept; the usual place if not given.
        command: What the user typed, for the report.

    Raises:
        LabError: before any work, on a bad value, missing data, or a directory with other settings.
    """
    settings = plan.settings()
    if engine is None:
        total = len(settings) * len(plan.methods) * len(plan.seeds)
        most = min(default_workers(setting, total) for setting in settings)
        engine = LocalEngine(most if workers is None else workers)
    old = load_existing(plan, out)
    found = [_check(plan, setting, engine, root) for setting in settings]
    fingerprints = found[0] if all(one == found[0] for one in found) else None  # data sets may vary
    sources.check_same(old.fingerprints if old else None, fingerprints, out)
    with locked(out, patience=2.0), engine:
        remove_orphans(out)
        comparison = merge_comparison(plan, old, engine.cpus_per_run, command)
        comparison = comparison.model_copy(update={"fingerprints": fingerprints})
        records.save_comparison(comparison, out)
        runs = (shard or Shard()).of(requested_runs(plan, comparison))
        screen.begin(out, runs, engine.capacity)
        try:
            return _Grid(out, runs, screen, engine, root, fingerprints).run()
        finally:
            screen.end()


def _check(plan: Plan, setting: RunConfig, engine: Engine, root: Path | None) -> Fingerprints:
    device = "cpu" if engine.elsewhere else setting.device
    return preparation.check([setting.but(method=method, device=device) for method in plan.methods], root)


class _Grid:
    """Waiting runs, running runs, and the outcome of the others."""

    def __init__(
        self,
        out: Path,
        runs: Sequence[RunConfig],
        screen: Screen,
        engine: Engine,
        root: Path | None,
        fingerprints: Fingerprints | None = None,
    ) -> None:
        self.out, self.screen, self.engine, self.root = out, screen, engine, root
        self.fingerprints = fingerprints
        self.waiting = {run.run_id(): run for run in runs}
        self.working: set[str] = set()
        self.outcome = Outcome()
        self.stopping = False

    def run(self) -> Outcome:
        self._skip_finished()
        with stop_requests() as stop:
            while self.waiting or self.working:
                if stop.is_set() and not self.stopping:
                    self._wind_down()
                while self.waiting and self.engine.has_room():
                    self._start()
                self._listen()
        return self.outcome

    def _folder(self, name: str) -> Path:
        return self.out / "runs" / name

    def _skip_finished(self) -> None:
        """Leave out what is done, and what cannot be judged because its record is damaged."""
        for name in list(self.waiting):
            try:
                status, error = records.status(self._folder(name)), None
            except LabError as fault:
                status, error = "failed", f"{fault}; to do it again, delete {self._folder(name)}"
                self.outcome.failed[name] = error
            if status == "done":
                self.outcome.done.append(name)
            if status == "done" or error:
                del self.waiting[name]
                self.screen.event(name, Ended("failed" if error else "done", error, earlier=True))

    def _start(self) -> None:
        name = next(iter(self.waiting))
        self.engine.start(name, Job.of(self.waiting.pop(name), self._folder(name), self.root, self.fingerprints))
        self.working.add(name)

    def _listen(self) -> None:
        found = self.engine.next_event(timeout=0.2)
        if found is None:
            return
        name, event = found
        if isinstance(event, Ended):
            self._ended(name, event)
        self.screen.event(name, event)

    def _ended(self, name: str, end: Ended) -> None:
        self.working.remove(name)
        if end.status == "done":
            self.outcome.done.append(name)
        elif end.status == "interrupted":
            self.outcome.unfinished.append(name)
        else:
            self.outcome.failed[name] = end.error or "no reason given"
            self._note_failure(name, end.error)

    def _note_failure(self, name: str, error: str | None) -> None:
        """A process that was killed could not say so in its record."""
        # No record yet, none that can be read, or another process at work on it: the outcome tells it all the same.
        with suppress(LabError), locked(self._folder(name), patience=0.0):
            record = records.load(self._folder(name))
            if record.status == "running":
                records.save(record.but(status="failed", error=error), self._folder(name))

    def _wind_down(self) -> None:
        """Let the runs save themselves and end; those that wait stay as they are."""
        self.stopping = True
        self.screen.stopping()
        self.outcome.unfinished += self.waiting
        self.waiting.clear()
        self.engine.stop()
