"""Records of benchmarks: every repeat, machine and versions, as validated JSON."""

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, ValidationError

import aon
from aon.lab.bench.rounds import Measured, Plan, Repeats, middle, ratio
from aon.lab.errors import LabError
from aon.lab.system.files import write_text
from aon.lab.training import machine
from aon.lab.training.allocator import keep_memory

FOLDER = Path("results") / "bench"
PACKAGES = ("numpy", "geotorch", "deel-torchlip", "orthogonium")
Unit = Literal["seconds", "bytes", "images a second", "calls"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class RatioRow(_Frozen):
    """As `rounds.Ratio`."""

    median: float
    low: float
    high: float
    n: int


class Variant(_Frozen):
    """One of the things that were compared: each repeat, their median, and the ratio to the case's base."""

    name: str
    repeats: tuple[float | None, ...]
    median: float | None
    ratio: RatioRow | None
    facts: dict[str, Any] = {}


class Case(_Frozen):
    """Variants that were measured in the same rounds; those that could not be, by name and with the reason."""

    name: str
    base: str
    variants: tuple[Variant, ...]
    absent: dict[str, str] = {}
    facts: dict[str, Any] = {}

    def variant(self, name: str) -> Variant | None:
        """The variant of that name, if it was measured."""
        return next((variant for variant in self.variants if variant.name == name), None)


class BenchRecord(_Frozen):
    """Result of one benchmark."""

    format: Literal[1] = 1
    bench: str
    command: tuple[str, ...] = ()
    settings: dict[str, Any]
    environment: dict[str, Any]
    unit: Unit
    cases: tuple[Case, ...]


def case(
    name: str,
    base: str,
    measured: Measured,
    *,
    absent: Mapping[str, str] | None = None,
    facts: Mapping[str, Any] | None = None,
    facts_of: Mapping[str, Mapping[str, Any]] | None = None,
) -> Case:
    """Make a case from measured times.

    Args:
        name: What was measured.
        base: The variant that the others are divided by.
        measured: The times.
        absent: Variants that were not even tried, with the reason.
        facts: What else there is to say about the case.
        facts_of: What else there is to say about a variant, by its name.

    Raises:
        LabError: if the base was not measured.
    """
    if base not in measured.seconds:
        raise LabError(f"{name}: the base {base!r} was not measured ({measured.failed.get(base, 'it is absent')})")
    variants = tuple(
        variant(
            each, repeats, measured.seconds[base], {"calls": measured.calls[each], **(facts_of or {}).get(each, {})}
        )
        for each, repeats in measured.seconds.items()
    )
    return Case(
        name=name, base=base, variants=variants, absent={**(absent or {}), **measured.failed}, facts=dict(facts or {})
    )


def variant(name: str, repeats: Repeats, base: Repeats, facts: Mapping[str, Any] | None = None) -> Variant:
    """A variant with its median, and its ratio to the base round by round.

    Example:
        >>> variant("b", [3.0, 4.0], [2.0, 2.0]).ratio.median
        1.75
    """
    found = ratio(repeats, base)
    row = RatioRow(**asdict(found)) if found else None
    return Variant(name=name, repeats=tuple(repeats), median=middle(repeats), ratio=row, facts=dict(facts or {}))


def make(
    bench: str,
    settings: Mapping[str, Any],
    cases: Sequence[Case],
    *,
    plan: Plan | None = None,
    device: torch.device | None = None,
    unit: Unit = "seconds",
    command: Sequence[str] = (),
) -> BenchRecord:
    """The record of a benchmark on this machine, as it is now."""
    return BenchRecord(
        bench=bench,
        command=tuple(command),
        settings={**settings, **(asdict(plan) if plan else {})},
        environment=environment(device or torch.device("cpu")),
        unit=unit,
        cases=tuple(cases),
    )


def environment(device: torch.device) -> dict[str, Any]:
    """Versions and machine, as for a run, and what matters for time besides: cores, load, other packages."""
    return {
        **machine.environment(device).model_dump(mode="json"),
        "cores": machine.cores(),
        "memory": "kept" if keep_memory() else "returned",
        "load": [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "machine": platform.machine(),
        "modified": _modified(),
        "blas": "mkl" if torch.backends.mkl.is_available() else "other",
        "packages": {name: _version(name) for name in PACKAGES},
    }


def make_folder(folder: Path) -> None:
    """Make a folder for records or figures, if it is not there.

    Raises:
        LabError: if it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"cannot make the folder {folder}: {error.strerror}") from error


def write(record: BenchRecord, path: Path) -> Path:
    """Write a record, whole or not at all; makes its folder."""
    make_folder(path.parent)
    write_text(path, json.dumps(record.model_dump(mode="json"), indent=1) + "\n")
    return path


def load(path: Path) -> BenchRecord:
    """Read a record.

    Raises:
        LabError: naming the file, if it cannot be read or is not such a record.
    """
    try:
        return BenchRecord.model_validate_json(path.read_bytes())
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise LabError(f"{path} is not a benchmark's record: {where}: {first['msg']}") from error


def load_all(folder: Path) -> list[BenchRecord]:
    """All records of a folder, oldest first; none if there is no such folder.

    Raises:
        LabError: if one cannot be read.
    """
    found = [load(path) for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda record: str(record.environment.get("started", "")))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _modified() -> bool | None:
    """Whether the library's source differs from the recorded commit; None when installed as a package."""
    root = Path(aon.__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "status", "--porcelain", "--", "src/aon"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return bool(done.stdout.strip())
