"""Run the long form of the reliability tests: inject faults, fuzz, and test long use; write the figures to results/.

    python scripts/soak.py                     every part, as long as it takes
    python scripts/soak.py --seconds 60        every part for a minute at most; figures are marked as partial
    python scripts/soak.py fuzz mathematics    some parts; others keep the figures they have

Each part writes results/reliability/PART.json: the number requested, done and lost, and the versions.
A part that has reached its number is not repeated without --again; one that has not continues with another seed.
`scripts/write_reliability.py` makes docs/reliability.md from the figures.
"""

import argparse
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tests.extremes import faults
from tests.faults import long_use
from tests.faults.comparisons import inject_faults
from tests.fuzz.mutations import mutated, random_mutations
from tests.fuzz.readers import READ, SEEDS
from tests.lab.system.test_checksums import WRITERS

import aon
from aon.lab.errors import LabError

ROOT = Path(__file__).parent.parent
OUT = ROOT / "results" / "reliability"
Figures = dict[str, Any]


def kills(folder: Path, number: int, seed: int, seconds: float) -> Figures:
    """Kill single runs; in a process of its own, which forks."""
    args = ["--kills", str(number), "--seed", str(seed), "--seconds", str(seconds), "--folder", str(folder)]
    process = subprocess.run(
        [sys.executable, "-m", "tests.faults.kills", *args], capture_output=True, text=True, check=True, cwd=ROOT
    )
    found: Figures = json.loads(process.stdout.splitlines()[-1])
    return {"done": found["kills"], "by_way": found["ways"], "runs": found["runs"], "lost": found["lost"]}


def comparisons(folder: Path, number: int, seed: int, seconds: float) -> Figures:
    """Inject faults into whole comparisons."""
    found = inject_faults(folder, number, seed, time.monotonic() + seconds)
    done = sum(found["faults"].values())
    return {"done": done, "by_fault": found["faults"], "comparisons": found["comparisons"], "lost": found["lost"]}


def damage(folder: Path, number: int, seed: int, seconds: float) -> Figures:
    """Flip bits and cut files; count what is not noticed."""
    draw, end, done, unnoticed = random.Random(seed), time.monotonic() + seconds, 0, []
    files = {kind: write(folder) for kind, write in WRITERS.items()}
    wholes = {kind: path.read_bytes() for kind, (path, _) in files.items()}
    while done < number and time.monotonic() < end:
        kind = draw.choice(list(files))
        path, load = files[kind]
        content = bytearray(wholes[kind])
        at = draw.randrange(len(content))
        if draw.random() < 0.7:
            content[at] ^= 1 << draw.randrange(8)
        else:
            del content[at:]
        path.write_bytes(content)
        try:
            load()
            unnoticed.append(f"{kind} at byte {at}")
        except LabError:
            done += 1
    return {"done": done, "lost": unnoticed}


def fuzz(_folder: Path, number: int, seed: int, seconds: float) -> Figures:
    """Give every reader mutated inputs."""
    resource.setrlimit(resource.RLIMIT_AS, (16 * 2**30, resource.getrlimit(resource.RLIMIT_AS)[1]))
    counts, lost, longest = {}, [], 0.0
    for name, read in READ.items():
        draw, end, done, refused = random.Random(f"{seed} {name}"), time.monotonic() + seconds / len(READ), 0, 0
        while done < number and time.monotonic() < end:
            content = mutated(draw.choice(SEEDS[name]), random_mutations(draw))
            began = time.perf_counter()
            try:
                refused += not read(content)
            except BaseException as error:
                lost.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
            longest = max(longest, time.perf_counter() - began)
            done += 1
        counts[name] = {"inputs": done, "refused": refused}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    least = min(count["inputs"] for count in counts.values())
    return {
        "done": least,
        "by_reader": counts,
        "longest_seconds": round(longest, 2),
        "peak_mib": round(peak),
        "lost": lost,
    }


def mathematics(_folder: Path, number: int, seed: int, seconds: float) -> Figures:
    """Try weights at the edges of arithmetic."""
    draw, end, done, lost = random.Random(seed), time.monotonic() + seconds, 0, []
    torch.set_num_threads(1)
    while done < number and time.monotonic() < end:
        weights, found = faults(draw)
        done, lost = done + weights, lost + found
    return {"done": done, "lost": lost[:20], "lost_in_all": len(lost)}


def steps(_folder: Path, number: int, _seed: int, seconds: float) -> Figures:
    """Train, evaluate, copy and save for long."""
    torch.set_num_threads(1)
    found = long_use.steps(number, deadline=time.monotonic() + seconds)
    grown = found["growth_mib"] > 50 or found["handles"] > 0 or found["threads"] > 0
    return {"done": found["steps"], **found, "lost": [f"grown: {found}"] if grown else []}


def tiny(folder: Path, number: int, _seed: int, seconds: float) -> Figures:
    """Compare, continue, add and report, many times in one process."""
    found = long_use.tiny_comparisons(folder, number, time.monotonic() + seconds)
    grown = found["growth_mib"] > 50 or found["handles"] > 2 or found["threads"] > 2
    return {"done": found["comparisons"], **found, "lost": found["failed"] + ([f"grown: {found}"] if grown else [])}


def many(folder: Path, number: int, _seed: int, _seconds: float) -> Figures:
    """Look through a directory of many finished runs."""
    found = long_use.finished_runs(folder, number)
    slow = [
        f"{key} grows by more than 10 s"
        for key in ("report_seconds", "starting_seconds")
        if found["many"][key] > found["few"][key] + 10
    ]
    return {"done": found["runs"], **found, "lost": slow}


PARTS: dict[str, tuple[Callable[[Path, int, int, float], Figures], int]] = {
    "many": (many, 2_000),
    "damage": (damage, 10_000),
    "mathematics": (mathematics, 100_000),
    "steps": (steps, 20_000),
    "fuzz": (fuzz, 10_000),
    "kills": (kills, 200),
    "comparisons": (comparisons, 80),
    "tiny": (tiny, 300),
}


def sum_up(old: Figures, new: Figures) -> Figures:
    """Figures of two sessions as one: numbers of work are added, everything else is the worse of both or the newer."""
    merged = {**old, **new}
    for key in ("done", "runs", "comparisons", "with_worker_processes", "starts", "steps", "lost_in_all"):
        if key in new and key in old and isinstance(new[key], int):
            merged[key] = old[key] + new[key]
    for key in ("by_way", "by_fault"):
        if key in new:
            merged[key] = {k: old.get(key, {}).get(k, 0) + v for k, v in new[key].items()} | {
                k: v for k, v in old.get(key, {}).items() if k not in new[key]
            }
    if "by_reader" in new and "by_reader" in old:
        merged["by_reader"] = {
            name: {key: count[key] + old["by_reader"].get(name, {}).get(key, 0) for key in count}
            for name, count in new["by_reader"].items()
        }
        merged["done"] = min(count["inputs"] for count in merged["by_reader"].values())
        merged["longest_seconds"] = max(old["longest_seconds"], new["longest_seconds"])
        merged["peak_mib"] = max(old["peak_mib"], new["peak_mib"])
    merged["lost"] = [*old.get("lost", []), *new["lost"]]
    return merged


def do(name: str, seconds: float, again: bool) -> None:
    """Do one part, or what is left of it."""
    part, number = PARTS[name]
    path = OUT / f"{name}.json"
    old: Figures = json.loads(path.read_text()) if path.exists() and not again else {}
    if old.get("done", 0) >= number and not old["lost"]:
        return
    whole = name in ("many", "steps")  # these cannot be done in pieces
    left = number if whole else number - old.get("done", 0)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = part(Path(folder), left, len(old.get("seeds", [])), seconds)
    figures = found if whole or not old else sum_up(old, found)
    figures |= {
        "asked": number,
        "seeds": [*old.get("seeds", []), len(old.get("seeds", []))],
        "seconds": round(old.get("seconds", 0) * (not whole) + time.monotonic() - began, 1),
        "version": aon.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    OUT.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=1) + "\n")
    sys.stdout.write(f"{name}: {figures['done']} of {number}, lost {len(figures['lost'])}, {figures['seconds']} s\n")
    sys.stdout.flush()


def main() -> int:
    """Do the parts that were named, or all; the status is 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="some parts; all if none is named")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="most time for each part")
    parser.add_argument("--again", action="store_true", help="start over")
    args = parser.parse_args()
    for name in args.parts or PARTS:
        do(name, args.seconds, args.again)
    lost = [path.stem for path in OUT.glob("*.json") if json.loads(path.read_text())["lost"]]
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
