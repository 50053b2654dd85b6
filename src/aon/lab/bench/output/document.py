"""The generated parts of docs/performance.md and docs/performance_tables.md, made from records."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from aon.lab.bench.cases.parts import MAPS, OURS, PRODUCTS
from aon.lab.bench.cases.scale import acted_on
from aon.lab.bench.cases.step import PLAIN_STEP, Subject
from aon.lab.bench.output.show import FACTS, amount, fact_of, known_facts, spread
from aon.lab.bench.output.targets import TARGETS, over, targets_table
from aon.lab.bench.record import BenchRecord, Case
from aon.lab.errors import LabError
from aon.lab.planning import flops
from aon.lab.system.files import write_text

BEGIN = "<!-- measured: begin (made by `aon bench table --write`; do not edit) -->"
STEPS = (
    Subject(batch=256),
    Subject(batch=128),
    Subject(batch=32),
    Subject("resnet20", batch=128),
    Subject(width=0.125, batch=64),
)
END = "<!-- measured: end -->"


def summary_part(records: Sequence[BenchRecord]) -> str:
    """Targets beside measured values, counted operations, and what AON adds to a step.

    Args:
        records: Oldest first; the newest one with a target's settings counts.
    """
    parts = [targets_table(records), f"### Operations of a training step, counted\n\n{counts_table()}"]
    extras = extras_table(records)
    parts += [f"### What AON adds to a step\n\n{extras}"] if extras else []
    consists = parts_table(records)
    parts += [f"### What that consists of\n\n{consists}"] if consists else []
    return "\n\n".join(parts)


def tables_part(records: Sequence[BenchRecord]) -> str:
    """One table for each measured case, then the machines and versions.

    Args:
        records: Oldest first; of two cases with the same name the newer one is shown.
    """
    newest = {(record.bench, case.name): (case, record) for record in records for case in record.cases}
    ordered = sorted(newest.values(), key=lambda found: (found[1].bench, found[0].name))
    parts = [f"## {_plain(case.name)}\n\n{_case_table(case, record)}" for case, record in ordered]
    places = _places([record for _, record in ordered])
    return "\n\n".join([*parts, f"## Machines and versions\n\n{places}"] if parts else [])


@cache
def counts_table() -> str:
    """Operations of the convolutions in a step, and of the map as a share of those."""
    lines = [
        "| step | convolutions | map, formed | map, cheaper way by layer | the same, order 4 |",
        "|:--|--:|--:|--:|--:|",
    ]
    for subject in STEPS:
        layers = acted_on(subject)
        whole = sum(flops.of_layer(sizes) for sizes in layers)
        formed = sum(sizes.groups * flops.of_map(sizes.rows, sizes.columns) for sizes in layers)
        cheaper = [sum(flops.of_map_in_step(sizes, order) for sizes in layers) for order in (2, 4)]
        shares = " | ".join(f"{part / whole:.3f}" for part in (formed, *cheaper))
        lines.append(f"| {subject.title} | {whole / 1e9:.1f} GFLOP | {shares} |")
    return "\n".join(lines)


def extras_table(records: Sequence[BenchRecord]) -> str:
    """What AON adds to a step, in steps of BN: counted, measured, and with plain autograd in the same run."""
    lines: dict[str, str] = {}
    for target in (target for target in TARGETS if target.bench == "step"):
        subject = Subject(**{key: target.settings[key] for key in ("network", "width", "batch", "channels_last")})
        ours, plain = (replace(target, find=over(name, "bn")).newest(records) for name in ("bn+aon", PLAIN_STEP))
        if ours is None or plain is None or plain[2] is not ours[2]:
            continue  # not measured in one run
        layers = acted_on(subject)
        count = sum(map(flops.of_map_in_step, layers)) / sum(map(flops.of_layer, layers))
        added = ours[0].median - 1
        shares = f"{count:.3f} | {added:.3f} | {added / count:.2f} | {plain[0].median - 1:.3f}"
        lines[subject.title] = f"| {subject.title} | {shares} |"
    head = ["| step | counted | measured | measured / counted | with plain autograd |", "|:--|--:|--:|--:|--:|"]
    return "\n".join([*head, *lines.values()]) if lines else ""


def parts_table(records: Sequence[BenchRecord]) -> str:
    """What AON adds to a step, in steps of BN, part by part, each over the count of operations."""
    lines: dict[str, str] = {}
    for case in (case for record in records if record.bench == "parts" for case in record.cases):
        ratios = {variant.name: variant.ratio for variant in case.variants}
        products, maps, ours = (ratios[name] for name in (PRODUCTS, MAPS, OURS))
        if products is not None and maps is not None and ours is not None:
            counted = case.facts["counted"]
            cells = [
                f"{value:.3f} ({value / counted:.2f})" for value in (products.median, maps.median, ours.median - 1)
            ]
            title = case.name.removeprefix("parts of a training step, ")
            lines[title] = f"| {title} | {counted:.3f} | {' | '.join(cells)} |"
    head = ["| step | counted | products alone | maps alone | in the step |", "|:--|--:|--:|--:|--:|"]
    return "\n".join([*head, *lines.values()]) if lines else ""


def put(path: Path, text: str) -> bool:
    """Put text between the marks of a document; tells whether that changed it.

    Raises:
        LabError: if the document cannot be read, or does not have the marks once each and in order.
    """
    try:
        before = path.read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from error
    head, begin, rest = before.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in tail:
        raise LabError(f"{path} has no place for the table: expected a line {BEGIN!r} and later a line {END!r}")
    after = f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}"
    if after != before:
        write_text(path, after)
    return after != before


def _case_table(case: Case, record: BenchRecord) -> str:
    facts = known_facts(case)
    head = ["variant", "median", f"ratio to {_plain(case.base)} [quartiles]", "n", *(FACTS[fact][0] for fact in facts)]
    lines = [f"| {' | '.join(head)} |", f"|:--|{'--:|' * (len(head) - 1)}"]
    for variant in case.variants:
        n = sum(value is not None for value in variant.repeats)
        about = "about " if variant.facts.get("extrapolated") else ""
        cells = [_plain(variant.name), about + amount(variant.median, record.unit), spread(variant.ratio), str(n)]
        cells += [fact_of(variant, fact) for fact in facts]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [f"| {_plain(name)} | not measured: {_plain(why)} |  |  |" for name, why in case.absent.items()]
    if case.facts.get("slope") is not None:
        lines.append(f"\nSlope {case.facts['slope']:.2f}; of the count of operations {case.facts['flops_slope']:.2f}.")
    return "\n".join([*lines, f"\n`{' '.join(record.command)}`" if record.command else ""]).rstrip()


def _places(records: Sequence[BenchRecord]) -> str:
    """One line for each machine, set of versions and commit that the records come from."""
    lines: dict[str, list[str]] = {}
    for record in records:
        where = record.environment
        commit = f"{str(where.get('commit'))[:10]}{' with changes' if where.get('modified') else ''}"
        place = (
            f"{where.get('cpu')}, {where.get('threads')} threads of {where.get('cores')} cores, "
            f"torch {where.get('torch')}, Python {where.get('python')}, commit {commit}"
        )
        benches = lines.setdefault(_plain(place), [])
        if record.bench not in benches:
            benches.append(record.bench)
    return "\n".join(f"- {', '.join(benches)}: {place}" for place, benches in lines.items())


def _plain(text: str) -> str:
    """Text as one cell of a Markdown table."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", " ".join(text.split()))
