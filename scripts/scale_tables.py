"""Write the tables of docs/scale.md from the records in results/scale.

python scripts/scale_tables.py
"""

import json
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
DOCUMENT = REPOSITORY / "docs" / "scale.md"
RECORDS = REPOSITORY / "results" / "scale"
BEGIN, END = "<!-- scale: begin (made by scripts/scale_tables.py) -->", "<!-- scale: end -->"


def tables(folder: Path = RECORDS) -> str:
    """All tables, from the records there are."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    parts = [_verified(found), _paper(found), _imagenet(found), _transformer(found), _soak(found)]
    return "\n\n".join(part for part in parts if part)


def put(text: str, made: str) -> str:
    """The document with the tables between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{after}"


def _table(title: str, head: list[str], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join([f"**{title}**", "", *lines])


def _verified(found: dict[str, Any]) -> str:
    rows = []
    for name, record in found.items():
        for one in record.get("comparisons", ()):
            if one["measured_seconds"] is not None:
                settings, rows_of = one["settings"], one["prediction"]["rows"]
                what = f"{settings['network']}, width {settings['width']:g}, batch {settings['batch_size']}"
                seconds = one["prediction"]["device_seconds"], one["measured_seconds"]
                off = f"{100 * (one['ratio'] - 1):+.1f} %"
                runs = str(sum(row["runs"] for row in rows_of))
                rows.append([what, runs, *(f"{s:.1f}" for s in seconds), off, f"`{name}.json`"])
    head = ["comparison", "runs", "predicted, CPU s", "measured, CPU s", "off by", "record"]
    return _table("Predictions held to measured runs", head, rows) if rows else ""


def _paper(found: dict[str, Any]) -> str:
    record = found.get("plan-paper")
    if record is None:
        return ""
    rows, totals = [], [0.0, 0.0, 0.0]
    for one in record["comparisons"]:
        prediction = one["prediction"]
        numbers = [
            sum(row["runs"] for row in prediction["rows"]),
            prediction["device_seconds"] / 3600,
            prediction["cost"],
        ]
        totals = [total + number for total, number in zip(totals, numbers, strict=True)]
        peak = max(row["memory"] for row in prediction["rows"]) / 2**30
        rows.append([one["name"], *_cells(numbers), f"{peak:.2f} GiB"])
    rows.append(["one after the other", *_cells(totals), ""])
    device = record["comparisons"][0]["prediction"]["device"]
    speed = f"{device['count']} devices at {device['efficiency']:.0%} of {device['flops']:.3g} FLOP/s"
    cost = f"cost at {device['price']:g} an hour"
    head = ["comparison", "runs", "device hours", cost, "memory of a run"]
    return _table(f"The paper's comparisons, {speed}", head, rows)


def _cells(numbers: list[float]) -> list[str]:
    runs, hours, cost = numbers
    return [f"{runs:.0f}", f"{hours:.1f}", f"{cost:.1f}"]


def _imagenet(found: dict[str, Any]) -> str:
    record = found.get("plan-imagenet")
    if record is None:
        return ""
    device = record["device"]
    rows = []
    for row in record["rows"]:
        cost, memory = row["hours"] * device["count"] * device["price"], row["memory"] / 2**30
        share = row["map"] * row["ranks"] / row["network"]
        rows.append(
            [str(row["batch"]), f"{100 * share:.1f} %", f"{row['hours']:.1f}", f"{cost:.0f}", f"{memory:.1f} GiB"]
        )
    speed = f"{device['count']} devices at {device['efficiency']:.0%} of {device['flops']:.3g} FLOP/s"
    head = [
        "batch",
        "AON of order 2 adds",
        "hours",
        f"cost at {device['price']:g} an hour",
        "memory of a device, float32",
    ]
    return _table(f"ResNet-50 on ImageNet, 90 epochs, {speed}", head, rows)


def _transformer(found: dict[str, Any]) -> str:
    record = found.get("plan-7b")
    if record is None:
        return ""
    rows = [
        [f"{row['tokens']:,}", str(row["ranks"]), *(f"{100 * row[key]:.1f} %" for key in ("added", "added_shared"))]
        for row in record["rows"]
    ]
    head = ["tokens a step", "devices", "every device maps all weights", "each maps its share"]
    title = "What AON of order 2 adds to the operations of a step, weights of a 7B transformer"
    note = (
        "The map's work does not grow with the batch, but every device repeats it. Sharing the maps (and their Gram "
        "matrices) out over the devices would pay where the third column is large and the fourth is not; the library "
        "does not do so today."
    )
    return f"{_table(title, head, rows)}\n\n{note}"


def _soak(found: dict[str, Any]) -> str:
    record = found.get("soak-ray")
    if record is None:
        return ""
    before, after = (record["driver_bytes"][key] / 2**20 for key in ("after_a_tenth", "at_the_end"))
    clock, cpu = record["seconds"], record["cpu_seconds"]
    return (
        f"**Ray, {record['runs']:,} runs on {record['nodes']} nodes here** ({record['cores']} cores, load average "
        f"{record['load_average']['after']:.0f}): {record['done']:,} done. A run took {clock['of_a_slot']:.2f} s of a "
        f"node, and at the same time {clock['alone']:.2f} s in a process of its own: {clock['overhead']:.2f} s of "
        f"overhead, {cpu['overhead']:.2f} s of it CPU time. The driver held {before:.0f} MiB after a tenth of the runs "
        f"and {after:.0f} MiB at the end (`soak-ray.json`)."
    )


if __name__ == "__main__":
    DOCUMENT.write_text(put(DOCUMENT.read_text(encoding="utf-8"), tables()), encoding="utf-8")
