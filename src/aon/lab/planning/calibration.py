"""Time a training step, an evaluation batch and the end of an epoch in short runs of the real code."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from aon.lab.errors import LabError
from aon.lab.experiment.config import RunConfig
from aon.lab.planning.workloads import Images, random_images
from aon.lab.training.run import Progress, Watch, run

Clock = Literal["wall", "cpu"]
_CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
EVALUATED = 3  # batches of evaluation in a calibration


@dataclass(frozen=True)
class Pace:
    """Seconds of the parts of a run: its start, a step, a batch of evaluation, the end of an epoch."""

    start: float
    step: float
    evaluation: float
    epoch_end: float

    def of(self, config: RunConfig, images: Images) -> float:
        """Seconds of a whole run.

        Args:
            config: The run.
            images: Its data.
        """
        steps = images.train // config.batch_size
        judged = (config.validation_size or images.test) / config.batch_size
        tested = min(config.epochs, 5) * images.test / config.batch_size if config.validation_size else 0.0
        epoch = steps * self.step + judged * self.evaluation + self.epoch_end
        return self.start + config.epochs * epoch + tested * self.evaluation


def clock_of(name: str) -> Callable[[], float]:
    """The clock of that name: `wall`, or `cpu`, this process's own time, for a busy machine.

    Args:
        name: wall or cpu.

    Raises:
        LabError: if it is neither.
    """
    if name not in _CLOCKS:
        raise LabError(f"clock = {name!r}: should be wall or cpu")
    return _CLOCKS[name]


def calibrate(config: RunConfig, images: Images, *, steps: int = 6, clock: str = "wall") -> Pace:
    """Time a run of two short epochs on noise; the second is what counts.

    Args:
        config: The run.
        images: Its data.
        steps: Steps of each epoch, three at least.
        clock: wall or cpu.

    Raises:
        LabError: if the run cannot be done here.
    """
    if steps < 3:
        raise LabError(f"steps = {steps}: should be at least 3")
    now, marks = clock_of(clock), _Marks(clock_of(clock))
    data = random_images(Images(steps * config.batch_size, EVALUATED * config.batch_size, images.classes, images.side))
    sizes = {"train_size": None, "validation_size": None, "test_size": None}
    short = config.but(**sizes, epochs=2, warm_up=0, schedule="constant", spectra_every=min(config.spectra_every, 1))
    watch = Watch(progress=marks.progress, epoch=lambda _: marks.epoch(), every=0.0)
    with tempfile.TemporaryDirectory(prefix="aon-plan-") as folder:
        began = now()
        run(short, Path(folder) / "run", watch=watch, source=data)
    return marks.pace(began, steps)


class _Marks:
    """When each step and each epoch of a run ended."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.steps: list[float] = []
        self.epochs: list[tuple[int, float]] = []

    def progress(self, _: Progress) -> None:
        self.steps.append(self.clock())

    def epoch(self) -> None:
        self.epochs.append((len(self.steps), self.clock()))

    def pace(self, began: float, steps: int) -> Pace:
        """Medians of the second epoch: `steps` of training, then batches of evaluation, then the end."""
        first = self.epochs[0][0]
        times = self.steps[first : self.epochs[1][0]]
        gaps = [after - before for before, after in zip([self.epochs[0][1], *times], times, strict=False)]
        training, evaluation = gaps[1:steps], gaps[steps + 1 :] or gaps[steps:]
        end = self.epochs[1][1] - times[-1]
        step = median(training)
        return Pace(max(0.0, self.steps[0] - began - step), step, median(evaluation), end)
