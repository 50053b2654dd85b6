"""`bench memory`: peak bytes of a training step beyond those of the BN step, in units of the normalised weights.

Live tensors are counted exactly (`live.LiveBytes`). As a cross-check, each method's step also runs in its own process,
whose peak resident memory includes what the allocator keeps.
"""

import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aon.lab.bench import record
from aon.lab.bench.cases.step import Subject, TrainingStep
from aon.lab.bench.live import LiveBytes
from aon.lab.bench.rounds import Repeats
from aon.lab.errors import LabError
from aon.lab.methods import build
from aon.lab.models import classifier_names
from aon.model.selection import select

STEPS = 3
_CHILD = "import sys; from aon.lab.bench.cases.memory import child; child(sys.argv[1])"


def peak_bytes(step: TrainingStep) -> int:
    """Most bytes of tensors alive at once during a step, after one step to warm up."""
    step()
    gc.collect()
    with LiveBytes(_held(step)) as live:
        step()
    return live.peak


def _held(step: TrainingStep) -> Iterator[Tensor]:
    """What is alive between two steps: parameters, gradients, buffers, the optimiser's state, the batch."""
    for parameter in step.model.parameters():
        yield parameter
        if parameter.grad is not None:
            yield parameter.grad
    yield from step.model.buffers()
    for state in step.optimiser.state.values():
        yield from (value for value in state.values() if isinstance(value, Tensor))
    yield from (step.x, step.y)


def peak_resident(subject: Subject, method: str) -> int | None:
    """Peak of the resident memory of a process that does a few steps; None where the system does not tell.

    Raises:
        LabError: if that process fails.
    """
    if not Path("/proc/self/status").exists():
        return None
    given = json.dumps({**subject.settings(), "method": method, "threads": torch.get_num_threads()})
    done = subprocess.run([sys.executable, "-c", _CHILD, given], capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise LabError(f"measuring the resident memory of {method} failed: {last}")
    return int(done.stdout)


def child(text: str) -> None:
    """Do a few steps and print the peak of this process's resident memory in bytes."""
    given: dict[str, Any] = json.loads(text)
    torch.set_num_threads(given["threads"])
    device = torch.device(given["device"])
    step = TrainingStep(Subject(given["network"], given["width"], given["batch"], device), given["method"])
    for _ in range(STEPS):
        step()
    sys.stdout.write(str(resident_peak()))


def resident_peak() -> int:
    """Peak of this process's resident memory.

    VmHWM and not getrusage's ru_maxrss, which a child inherits from the process that started it.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def weight_bytes(subject: Subject) -> int:
    """Bytes of the weights that methods act on."""
    model = subject.plain()
    layers = select(model, exclude=classifier_names(model))
    return sum(layer.weight.numel() * layer.weight.element_size() for _, layer in layers)


def bench_memory(
    subject: Subject,
    names: str | Sequence[str],
    *,
    resident: bool = True,
    repeats: int = 3,
    notify: Callable[[str], None] = lambda _: None,
) -> record.BenchRecord:
    """Measure the peak memory of a training step under each method.

    Args:
        subject: Network, batch and device; the count of live tensors is the same on every device.
        names: Methods; what they need beyond the first is told in units of the normalised weights' bytes.
        resident: Whether to do the cross-check by processes of their own.
        repeats: Processes of each method for the cross-check.
        notify: Called with a line for each thing that is being done.

    Raises:
        LabError: if a method is unknown or a process of the cross-check fails.
    """
    chosen = [str(method) for method in build.parse_list(names if isinstance(names, str) else ",".join(names))]
    cases = [_live_case(subject, chosen, notify)]
    if resident and subject.device.type == "cpu":
        case = _resident_case(subject, chosen, repeats, notify)
        cases += [case] if case else []
    settings = {**subject.settings(), "methods": chosen}
    return record.make("memory", settings, cases, device=subject.device, unit="bytes")


def _live_case(subject: Subject, chosen: Sequence[str], notify: Callable[[str], None]) -> record.Case:
    found: dict[str, Repeats] = {}
    for name in chosen:
        notify(f"counting tensors of {name}")
        found[name] = [float(peak_bytes(TrainingStep(subject, name)))]
    return _case("live tensors", subject, chosen, found)


def _resident_case(
    subject: Subject, chosen: Sequence[str], repeats: int, notify: Callable[[str], None]
) -> record.Case | None:
    found: dict[str, Repeats] = {name: [] for name in chosen}
    for number in range(repeats):
        for name in chosen:
            notify(f"resident memory of {name}, {number + 1} of {repeats}")
            peak = peak_resident(subject, name)
            if peak is None:
                return None
            found[name].append(float(peak))
    return _case("resident memory of a process", subject, chosen, found)


def _case(what: str, subject: Subject, chosen: Sequence[str], found: dict[str, Repeats]) -> record.Case:
    unit, base = weight_bytes(subject), found[chosen[0]]
    variants = []
    for name in chosen:
        beyond = [a - b for a, b in zip(found[name], base, strict=True) if a is not None and b is not None]
        facts = {"beyond": sorted(beyond)[len(beyond) // 2], "units": sorted(beyond)[len(beyond) // 2] / unit}
        variants.append(record.variant(name, found[name], base, facts))
    return record.Case(
        name=f"peak of {what}, training step, {subject.title}",
        base=chosen[0],
        variants=tuple(variants),
        facts={"unit_bytes": unit},
    )
