"""Device, threads and deterministic settings of the machine."""

import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import torch

import aon
from aon.lab.errors import LabError
from aon.lab.experiment.records import Environment
from aon.lab.training.allocator import keep_memory

GIBIBYTE = 2**30


def resolve_device(name: str) -> torch.device:
    """The device a setting means; `auto` is CUDA, else MPS, else the CPU.

    Args:
        name: auto, cpu, cuda, cuda:N or mps.

    Raises:
        LabError: if there is no such device, or this machine does not have it.

    Example:
        >>> resolve_device("cpu")
        device(type='cpu')
    """
    mps = torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if mps else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise LabError(f"device = {name!r}: expected auto, cpu, cuda, cuda:N or mps") from None
    if device.type == "mps" and not mps:
        raise LabError("device = 'mps': this machine has none; use auto or cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise LabError(f"device = {name!r}: this machine has {torch.cuda.device_count()} CUDA devices; use auto or cpu")
    return device


def cores() -> int:
    """CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_threads() -> int:
    """Default number of threads of a run: OMP_NUM_THREADS, else all cores."""
    setting = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    known = setting.isascii() and setting.isdigit() and len(setting) < 5 and int(setting) >= 1
    return min(int(setting), most_threads()) if known else cores()


def most_threads() -> int:
    """Upper limit of the number of threads: more only wait for each other, and torch cannot start many more."""
    return 8 * cores()


def check_threads(threads: int | None) -> None:
    """Refuse a number of threads that the machine cannot serve.

    Args:
        threads: The setting; None for the default.

    Raises:
        LabError: if it is far beyond the number of cores.
    """
    if threads is not None and threads > most_threads():
        raise LabError(f"threads = {threads}: this machine has {cores()} cores, expected {most_threads()} at most")


def memory() -> int:
    """Bytes of main memory; 0 if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


@contextmanager
def deterministic(device: torch.device, threads: int, seed: int) -> Iterator[None]:
    """Fix threads, algorithms and random streams, so that a run repeats itself bit for bit.

    The threads and the choice of algorithms are put back afterwards; torch's random streams are not, and freed memory
    stays with the process.

    Args:
        device: Where the run is computed.
        threads: CPU threads; sums are split among them, so their number is part of the result's last bits.
        seed: Start of the random streams.
    """
    keep_memory()
    before = torch.get_num_threads(), torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    torch.set_num_threads(threads)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    if device.type == "cuda":  # cuBLAS reads it when its first handle is made
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = before[1:]


def environment(device: torch.device, ranks: int = 1) -> Environment:
    """Versions and machine, for the record.

    Args:
        device: Where the run is computed.
        ranks: Processes that compute it together.
    """
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return Environment(
        python=platform.python_version(),
        torch=torch.__version__,
        aon=aon.__version__,
        platform=platform.platform(),
        cpu=_cpu_name(),
        threads=torch.get_num_threads(),
        ranks=ranks,
        device=f"{device} {name}".strip(),
        commit=_commit(),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _commit() -> str | None:
    """The commit of our own source tree; None when installed as a package."""
    root = Path(aon.__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
