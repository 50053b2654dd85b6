"""Write docs/reliability.md from the figures in results/reliability/."""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FIGURES, PAGE = ROOT / "results" / "reliability", ROOT / "docs" / "reliability.md"

TEXT = (Path(__file__).parent / "reliability_template.md").read_text(encoding="utf-8")


def load(name: str) -> dict[str, Any]:
    """The figures of one part; empty if it has not been done."""
    path = FIGURES / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def done(figures: dict[str, Any]) -> str:
    """How much was done, and whether that is the full number."""
    if not figures:
        return "-"
    partial = " (partial)" if figures["done"] < figures["asked"] else ""
    return f"{figures['done']:,}{partial}"


def row(what: str, short: str, long: str, name: str) -> str:
    """A guarantee with its figures."""
    figures = load(name)
    return f"| {what} | {short} | {long} | {done(figures)} | {len(figures['lost']) if figures else '-'} |"


def readers() -> str:
    """How many inputs each reader was given."""
    by_reader, atheris = load("fuzz").get("by_reader", {}), load("atheris").get("by_reader", {})
    lines = [
        f"| {name} | {count['inputs']:,} | {count['refused']:,} | {inputs(atheris.get(name, {}))} |"
        for name, count in by_reader.items()
    ]
    return "\n".join(lines) or "| - | - | - | - |"


def inputs(count: dict[str, Any]) -> str:
    """How many inputs there were."""
    return f"{count['inputs']:,}" if count else "-"


def counted(counts: dict[str, int]) -> str:
    """Counts as text."""
    return ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items())) or "-"


def page() -> str:
    """The page."""
    fuzz, many = load("fuzz"), load("many")
    steps, tiny, kills, comparisons = (load(name) for name in ("steps", "tiny", "kills", "comparisons"))
    versions = sorted(
        {f"torch {f['torch']}, Python {f['python']}, {f['cores']} cores" for f in parts() if "torch" in f}
    )
    bounds = (
        f"In the long form, the slowest of these inputs took {fuzz['longest_seconds']} s on a machine busy with other "
        f"work, the process never used more than {fuzz['peak_mib']:,} MiB, and {len(fuzz['lost'])} inputs gave "
        "anything but a result or a one-line error."
        if fuzz
        else ""
    )
    growth = [
        f"After {steps['steps']:,} steps: {steps['growth_mib']} MiB, {steps['handles']} file handles and "
        f"{steps['threads']} threads more."
        if steps
        else "",
        f"After {tiny['starts']:,} starts of {tiny['comparisons']:,} tiny comparisons, "
        f"{tiny['with_worker_processes']:,} of them with worker processes: {tiny['growth_mib']} MiB, "
        f"{tiny['handles']} file handles and {tiny['threads']} threads more."
        if tiny
        else "",
        f"`aon report` takes {many['many']['report_seconds']} s of CPU on {many['runs']:,} finished runs and "
        f"{many['few']['report_seconds']} s on {many['few']['runs']}; starting their comparison again takes "
        f"{many['many']['starting_seconds']} s and {many['few']['starting_seconds']} s."
        if many
        else "",
    ]
    return TEXT.format(
        state=f"Measured with {'; '.join(versions)}." if versions else "",
        lost="\n".join(
            [
                row("a killed run continues to the same bits", "50 kills", "200 kills", "kills"),
                row("a comparison under faults continues to the same bits", "8 faults", "80 faults", "comparisons"),
                row("every flipped bit and truncation is noticed", "1,002", "10,000", "damage"),
            ]
        ),
        ways=f"Kills by place: {counted(kills.get('by_way', {}))}. Faults: {counted(comparisons.get('by_fault', {}))}.",
        readers=readers(),
        bounds=bounds,
        mathematics="\n".join(
            [
                "| what | test in every run of CI | long form | done | broken |",
                "|---|---|---|---|---|",
                row("weights of scales 1e-30 to 1e30, ranks from 0, all maps", "4,000", "100,000", "mathematics"),
            ]
        ),
        long_use="\n".join(
            [
                row("memory, handles and threads stay flat over steps", "300", "20,000 steps", "steps"),
                row("compare, continue, add and report in one process", "-", "300 comparisons", "tiny"),
                row("a report of many finished runs, and a restart", "-", "2,000 runs", "many"),
            ]
        ),
        growth=" ".join(text for text in growth if text),
    )


def parts() -> list[dict[str, Any]]:
    """The figures of all parts."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FIGURES.glob("*.json"))]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.exit(0)
