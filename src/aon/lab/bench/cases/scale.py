"""`bench scale`: cost of AON over width, order, depth and batch, compared with the operation count.

A slope is that of the straight line through log(cost) over log(size): 3 means that twice the size costs eight times
as much. Width, order and depth concern the map alone; the batch concerns the training step, where the cost is what
the step with the map takes longer than the step without it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import linear_regression

from torch import Tensor

from aon.lab.bench import record
from aon.lab.bench.cases.map import RoundTrip, matrices
from aon.lab.bench.cases.step import Subject, TrainingStep
from aon.lab.bench.peers import aon_peer
from aon.lab.bench.rounds import Plan, Repeats, Run, measure
from aon.lab.errors import LabError
from aon.lab.models import classifier_names
from aon.lab.planning import flops
from aon.model.selection import select

AXES = ("width", "order", "depth", "batch")
Notify = Callable[[str], None]


@dataclass(frozen=True)
class Sweep:
    """The sizes to measure along each axis; an empty one is left out.

    Raises:
        LabError: if an axis has fewer than two sizes, or one that is not positive.
    """

    width: Sequence[float] = (0.25, 0.5, 1.0)
    order: Sequence[int] = (2, 4, 8, 16)
    depth: Sequence[int] = (2, 4, 8, 16)
    batch: Sequence[int] = (32, 64, 128, 256)

    def __post_init__(self) -> None:
        for axis in AXES:
            sizes = getattr(self, axis)
            if len(set(sizes)) != len(sizes) or len(sizes) == 1 or any(not size > 0 for size in sizes):
                raise LabError(f"{axis} = {sizes}: expected two or more different sizes above 0, or none")


def slope(sizes: Sequence[float], costs: Sequence[float | None]) -> float | None:
    """Slope of the line through log(cost) over log(size); None where a cost is missing or not positive.

    Example:
        >>> slope([1, 2, 4], [5, 40, 320])
        3.0
    """
    if any(cost is None or cost <= 0 for cost in costs) or len(costs) < 2:
        return None
    return round(linear_regression([log(x) for x in sizes], [log(c) for c in costs if c is not None]).slope, 6)


def bench_scale(subject: Subject, sweep: Sweep, plan: Plan, *, notify: Notify = lambda _: None) -> record.BenchRecord:
    """Measure the cost of AON along each axis.

    Args:
        subject: Network and device; where an axis is not varied, its width is taken, and order 2.
        sweep: Sizes along each axis.
        plan: How often.
        notify: Called with a line for each thing that is being done.
    """
    cases = []
    if sweep.width:
        found = {f"width={w:g}": matrices(replace(subject, width=w)) for w in sweep.width}
        cases.append(_map_case("width", sweep.width, {k: (2, v) for k, v in found.items()}, subject, plan, notify))
    if sweep.order:
        weights = matrices(subject)
        chosen = {f"order={order}": (order, weights) for order in sweep.order}
        cases.append(_map_case("order", sweep.order, chosen, subject, plan, notify))
    if sweep.depth:
        layer = commonest(matrices(subject))
        layers = {f"depth={depth}": (2, [layer.clone() for _ in range(depth)]) for depth in sweep.depth}
        cases.append(_map_case("depth", sweep.depth, layers, subject, plan, notify))
    if sweep.batch:
        cases.append(_batch_case(sweep.batch, subject, plan, notify))
    settings = {**subject.settings(), "sweep": {axis: list(getattr(sweep, axis)) for axis in AXES}}
    return record.make("scale", settings, cases, plan=plan, device=subject.device)


def commonest(weights: Sequence[Tensor]) -> Tensor:
    """A matrix of the shape that most of them have; the last such shape."""
    counts = Counter(W.shape for W in weights)
    return max(reversed(weights), key=lambda W: counts[W.shape])


def _map_case(
    axis: str,
    sizes: Sequence[float],
    chosen: Mapping[str, tuple[int, Sequence[Tensor]]],
    subject: Subject,
    plan: Plan,
    notify: Notify,
) -> record.Case:
    """The map alone: order and weights by name, one for each size."""
    runs: dict[str, Run] = {name: RoundTrip(aon_peer(order), weights) for name, (order, weights) in chosen.items()}
    measured = measure(runs, plan, notify=lambda what: notify(f"{axis}: {what}"), wait=subject.wait)
    counts = [flops.of_maps(weights, order) for order, weights in chosen.values()]
    return _case(f"map over {axis}, {_varied(axis, subject)}", sizes, measured.seconds, counts)


def _varied(axis: str, subject: Subject) -> str:
    """The network; with its width, unless that is what varies."""
    return subject.network if axis == "width" else subject.name


def _batch_case(batches: Sequence[int], subject: Subject, plan: Plan, notify: Notify) -> record.Case:
    """What the step takes longer with the map, batch by batch."""
    runs: dict[str, Run] = {}
    for batch in batches:
        for method in ("bn", "bn+aon"):
            runs[f"{method} {batch}"] = TrainingStep(replace(subject, batch=batch), method)
    measured = measure(runs, plan, notify=lambda what: notify(f"batch: {what}"), wait=subject.wait)
    extra: dict[str, Repeats] = {
        f"batch={batch}": [
            None if a is None or b is None else b - a
            for a, b in zip(measured.seconds[f"bn {batch}"], measured.seconds[f"bn+aon {batch}"], strict=True)
        ]
        for batch in batches
    }
    counts = [
        sum(flops.of_map_in_step(sizes) for sizes in acted_on(replace(subject, batch=batch))) for batch in batches
    ]
    return _case(f"extra of the step over batch, {subject.name}", batches, extra, counts)


def acted_on(subject: Subject) -> list[flops.Sizes]:
    """The layers that the map acts on, as they meet a batch. One image tells: positions grow with the batch."""
    model = subject.plain()
    acted_on = {name for name, _ in select(model, exclude=classifier_names(model))}
    found = flops.layer_sizes(model, subject.data()[0][:1])
    return [replace(s, positions=s.positions * subject.batch) for name, s in found.items() if name in acted_on]


def _case(name: str, sizes: Sequence[float], seconds: Mapping[str, Repeats], counts: Sequence[int]) -> record.Case:
    base = seconds[next(iter(seconds))]
    variants = tuple(
        record.variant(each, repeats, base, {"size": size, "flops": count})
        for (each, repeats), size, count in zip(seconds.items(), sizes, counts, strict=True)
    )
    facts = {"slope": slope(sizes, [v.median for v in variants]), "flops_slope": slope(sizes, counts)}
    return record.Case(name=name, base=variants[0].name, variants=variants, facts=facts)
