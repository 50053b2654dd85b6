"""Create, resume or extend a comparison directory; reject conflicting settings."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from aon.lab.errors import LabError
from aon.lab.experiment import records
from aon.lab.experiment.config import PLACEMENT, RunConfig, differences, make
from aon.lab.experiment.plans import Plan
from aon.lab.experiment.records import Comparison
from aon.lab.training import machine

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


def load_existing(plan: Plan, out: Path) -> Comparison | None:
    """The comparison that a directory holds, None if there is none.

    Args:
        plan: The requested comparison.
        out: The directory.

    Raises:
        LabError: if its settings are others, naming the difference.
    """
    if not (out / records.COMPARISON).exists():
        if out.exists() and not out.is_dir():
            raise LabError(f"{out} is a file; choose another --out")
        return None
    old = records.load_comparison(out)
    # Read through RunConfig: a directory made before a setting existed has it at its default.
    changed = differences(_shared(make(old.config)), _shared(plan.base))
    changed = [text for text in changed if text.partition(":")[0] not in PLACEMENT | plan.vary.keys()]
    if old.vary.keys() != plan.vary.keys():
        changed.append(f"vary: {', '.join(old.vary) or 'nothing'} -> {', '.join(plan.vary) or 'nothing'}")
    threads = old.config.get("threads")
    if plan.base.threads not in (None, threads):  # the last bits of a run's sums depend on them
        changed.append(f"threads: {threads} -> {plan.base.threads}")
    if changed:
        raise LabError(f"{out} holds a comparison with other settings ({'; '.join(changed)}); choose another --out")
    return old


def _shared(base: RunConfig) -> dict[str, Any]:
    return base.model_dump(mode="json", exclude={"method", "seed"})


def merge_comparison(plan: Plan, old: Comparison | None, cpus_per_run: int, command: Sequence[str]) -> Comparison:
    """The existing comparison extended by the plan; a new one if there is none.

    Args:
        plan: The requested comparison.
        old: The comparison that the directory holds.
        cpus_per_run: Threads of a run, unless the plan says how many; fixed when the comparison is made.
        command: What the user typed, for the report.
    """
    if old is not None:
        methods = tuple(dict.fromkeys([*old.methods, *plan.methods]))
        seeds = tuple(sorted({*old.seeds, *plan.seeds}))
        vary = {name: _union(old.vary[name], values) for name, values in plan.vary.items()}
        update = {
            "name": plan.name if plan.named else old.name,
            "methods": methods,
            "seeds": seeds,
            "vary": vary,
            "baseline": plan.baseline or old.baseline,
        }
        return old.model_copy(update=update)
    return Comparison(
        name=plan.name,
        preset=plan.preset,
        methods=plan.methods,
        seeds=plan.seeds,
        config=_shared(plan.base) | {"threads": plan.base.threads or cpus_per_run},
        vary=dict(plan.vary),
        baseline=plan.baseline,
        command=tuple(command),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _union(old: Sequence[Any], new: Sequence[Any]) -> tuple[Any, ...]:
    return (*old, *(value for value in new if value not in old))


def requested_runs(plan: Plan, comparison: Comparison) -> list[RunConfig]:
    """The runs of a comparison that a plan names.

    Args:
        plan: The requested comparison.
        comparison: All that the directory is for.
    """
    requested = comparison.model_copy(update={"methods": plan.methods, "seeds": plan.seeds, "vary": dict(plan.vary)})
    return requested.runs()
