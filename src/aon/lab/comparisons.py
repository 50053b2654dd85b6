"""A comparison and its directory: made, continued or added to, and refused where the settings are others."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from aon.lab import machine, records
from aon.lab.config import PLACEMENT, RunConfig, differences
from aon.lab.errors import LabError
from aon.lab.plans import Plan
from aon.lab.records import Comparison

# A run of the 16-convolution VGG with batches of 256 needs about this much; a small one hardly less than torch itself.
MEMORY_OF_A_RUN, LEAST_MEMORY = 3 * machine.GIBIBYTE, 0.75 * machine.GIBIBYTE


def default_workers(config: RunConfig, runs: int) -> int:
    """How many runs at a time: one for each GPU, or for each core as far as memory goes.

    Args:
        config: The runs' settings.
        runs: How many there are.
    """
    device = machine.resolve_device(config.device)
    if device.type == "cuda":
        return torch.cuda.device_count() if device.index is None else 1
    if device.type == "mps":
        return 1
    need = max(LEAST_MEMORY, MEMORY_OF_A_RUN * config.width * config.batch_size / 256)
    room = int(machine.memory() / need) if machine.memory() else runs
    return max(1, min(runs, machine.cores() // (config.threads or 1), room))


def existing(plan: Plan, out: Path) -> Comparison | None:
    """The comparison that is there; refuses one with other settings, naming the difference."""
    if not (out / records.COMPARISON).exists():
        if out.exists() and not out.is_dir():
            raise LabError(f"{out} is a file; choose another --out")
        return None
    old = records.load_comparison(out)
    changed = differences(old.config, _shared(plan.base))
    changed = [text for text in changed if text.partition(":")[0] not in PLACEMENT]
    if changed:
        raise LabError(f"{out} holds a comparison with other settings ({'; '.join(changed)}); choose another --out")
    return old


def _shared(base: RunConfig) -> dict[str, Any]:
    return base.model_dump(mode="json", exclude={"method", "seed"})


def described(plan: Plan, old: Comparison | None, workers: int, command: Sequence[str]) -> Comparison:
    """The comparison with what was asked for added; the threads of a run are settled when it is made."""
    if old is not None:
        methods = tuple(dict.fromkeys([*old.methods, *plan.methods]))
        seeds = tuple(sorted({*old.seeds, *plan.seeds}))
        return old.model_copy(update={"methods": methods, "seeds": seeds})
    threads = plan.base.threads or max(1, machine.cores() // workers)
    return Comparison(
        name=plan.name,
        preset=plan.preset,
        methods=plan.methods,
        seeds=plan.seeds,
        config=_shared(plan.base) | {"threads": threads},
        command=tuple(command),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def asked_for(plan: Plan, comparison: Comparison) -> list[RunConfig]:
    """The runs of a comparison that a plan names."""
    return [run for run in comparison.runs() if run.method in plan.methods and run.seed in plan.seeds]
