"""`aon plan`: time, memory and cost of comparisons, as tables and as a record."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from aon.lab.cli.progress import duration
from aon.lab.errors import LabError
from aon.lab.experiment.plans import Plan, plan_comparison
from aon.lab.methods.grammar import parse
from aon.lab.planning import large
from aon.lab.planning.prediction import Device, Prediction, measure, predict
from aon.lab.system.files import write_text
from aon.lab.system.suggest import unknown
from aon.lab.training import machine

WORKLOADS = ("imagenet", "7b")


@dataclass(frozen=True)
class PlanOptions:
    """Options of a prediction, apart from the comparison itself; `command` is what was typed, for the record."""

    device: Device
    workload: str | None = None
    clock: str = "wall"
    steps: int = 6
    verify: bool = False
    command: tuple[str, ...] = ()


def plan_all(
    console: Console,
    given: Mapping[str, Any],
    file: Path | None,
    root: Path | None,
    options: PlanOptions,
    out: Path | None,
) -> None:
    """`aon plan`: predict time, memory and cost of comparisons.

    Args:
        console: Where output goes.
        given: Settings from the command line; `preset` may name several, separated by commas.
        file: A TOML file of settings.
        root: Where datasets are kept.
        options: Device, clock and further options.
        out: The record to write, if any.

    Raises:
        LabError: on bad settings.
    """
    if options.verify and options.device.flops:
        raise LabError("--verify measures this machine; leave --device-flops out")
    if options.workload is not None:
        _check_alone(options, {**given, "config": file})
        return _plan_workload(console, options, out)
    plans = [plan_comparison({**given, "preset": name}, file) for name in _presets(given.get("preset"))]
    parts = [_one(console, plan, options, root) for plan in plans]
    if len(plans) > 1:
        _show_total(console, [prediction for prediction, _ in parts])
    if out is not None:
        entries = [_entry(plan, *part) for plan, part in zip(plans, parts, strict=True)]
        _write(out, options.command, {"clock": options.clock, "comparisons": entries}, console)
    return None


def _presets(given: str | None) -> list[str | None]:
    """The presets that were named; one without a name, the usual, if none was."""
    if given is None:
        return [None]
    names = [name.strip() for name in given.split(",")]
    if not all(names):
        raise LabError(f"preset = {given!r}: a name is missing; should be such as table1,table2")
    return [*names]


def _check_alone(options: PlanOptions, given: Mapping[str, Any]) -> None:
    """A workload has settings of its own."""
    others = [name for name, value in {**given, "verify": options.verify or None}.items() if value is not None]
    if others:
        raise LabError(f"--workload {options.workload} goes without --{others[0].replace('_', '-')}")


def _one(console: Console, plan: Plan, options: PlanOptions, root: Path | None) -> tuple[Prediction, float | None]:
    def notify(text: str) -> None:
        console.print(Text(text, style="dim"), soft_wrap=True)

    prediction = predict(plan, options.device, root=root, clock=options.clock, steps=options.steps, notify=notify)
    _show(console, plan, prediction)
    if not options.verify:
        return prediction, None
    measured = measure(plan, root=root, clock=options.clock)
    off = 100 * (prediction.device_seconds / measured - 1)
    _say(console, f"measured: {measured:.1f} s ({options.clock}); the prediction is off by {off:+.1f} %")
    return prediction, measured


def _entry(plan: Plan, prediction: Prediction, measured: float | None) -> dict[str, Any]:
    entry = {"name": plan.name, "settings": plan.base.model_dump(mode="json"), "seeds": len(plan.seeds)}
    entry |= {"prediction": prediction.to_dict(), "measured_seconds": measured}
    return entry | ({"ratio": prediction.device_seconds / measured} if measured else {})


def _show(console: Console, plan: Plan, prediction: Prediction) -> None:
    table = Table(title=f"{plan.name}: {plan.base.epochs} epochs, batches of {plan.base.batch_size}")
    for name in ("method", "runs", "GFLOP a step", "of these by the method", "s a step", "a run", "memory of a run"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for row in prediction.rows:
        setting = "".join(f" {name}={value}" for name, value in row.setting.items())
        added = row.operations.added / row.operations.step
        table.add_row(
            parse(row.method).label + setting,
            str(row.runs),
            f"{row.operations.step / 1e9:.2f}",
            f"{100 * added:.1f} %",
            f"{row.pace.step:.3f}" if row.pace else "-",
            duration(row.seconds),
            f"{row.memory / 2**30:.2f} GiB",
        )
    console.print(table)
    _say(console, _total(prediction))


def _total(prediction: Prediction) -> str:
    runs, device = sum(row.runs for row in prediction.rows), prediction.device
    where = f"at {device.flops * device.efficiency:.3g} FLOP/s" if device.flops else "at this machine's pace"
    text = f"{runs} runs, {device.count} at a time, {where}: {duration(prediction.seconds)}"
    text += f" ({prediction.device_seconds / 3600:.1f} device hours)"
    return text if prediction.cost is None else f"{text}, costs {prediction.cost:.2f}"


def _show_total(console: Console, predictions: Sequence[Prediction]) -> None:
    rows = tuple(row for prediction in predictions for row in prediction.rows)
    _say(console, f"all together: {_total(Prediction(rows, predictions[0].device))}")


def _plan_workload(console: Console, options: PlanOptions, out: Path | None) -> None:
    if options.workload not in WORKLOADS:
        raise unknown("workload", str(options.workload), WORKLOADS)
    if options.workload == "imagenet":
        if options.device.flops is None:
            raise LabError("--workload imagenet needs --device-flops, such as 312e12 for an A100 with bf16")
        rows: list[Any] = [large.imagenet(options.device, batch=batch) for batch in (256, 1024, 4096)]
        _show_imagenet(console, rows, options.device)
    else:
        rows = large.transformer()
        _show_transformer(console, rows)
    if out is not None:
        found = {"workload": options.workload, "device": asdict(options.device), "rows": [*map(asdict, rows)]}
        _write(out, options.command, found, console)


def _show_imagenet(console: Console, rows: Sequence[large.ImageNetRow], device: Device) -> None:
    table = Table(title=f"ResNet-50, ImageNet, 90 epochs, {device.count} devices, order 2")
    for name in ("batch", "TFLOP a step", "the map adds", "hours", "cost", "memory of a device"):
        table.add_column(name, justify="right")
    for row in rows:
        cost = "-" if device.price is None else f"{row.hours * device.price * device.count:.0f}"
        memory = f"{row.memory / 2**30:.1f} GiB"
        share = f"{100 * row.added:.2f} %"
        table.add_row(str(row.batch), f"{row.network / 1e12:.2f}", share, f"{row.hours:.1f}", cost, memory)
    console.print(table)


def _show_transformer(console: Console, rows: Sequence[large.TransformerRow]) -> None:
    table = Table(title="What AON of order 2 adds to the operations of a step, weights of a 7B transformer")
    for name in ("tokens a step", "devices", "every device maps all", "maps shared out"):
        table.add_column(name, justify="right")
    for row in rows:
        shares = [f"{100 * share:.2f} %" for share in (row.added, row.added_shared)]
        table.add_row(f"{row.tokens:,}", str(row.ranks), *shares)
    console.print(table)


def _write(out: Path, command: Sequence[str], content: Mapping[str, Any], console: Console) -> None:
    environment = machine.environment(torch.device("cpu")).model_dump(mode="json")
    made = {"format": 1, "command": list(command), "made": datetime.now(UTC).isoformat(timespec="seconds")}
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"cannot write {out}: {error.strerror}") from error
    write_text(out, json.dumps({**made, "environment": environment, **content}, indent=1) + "\n")
    _say(console, f"record: {out}")


def _say(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)
