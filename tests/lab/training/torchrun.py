"""Starts of torchrun on 127.0.0.1, for tests."""

import json
import os
import subprocess
import sys
from pathlib import Path

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def launcher(ranks: int, *options: str) -> list[str]:
    return [
        sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}", "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:0", "--monitor-interval=0.1", *options,
    ]  # fmt: skip


def script(folder: Path, ranks: int, body: str, cases: object, timeout: float = 300) -> None:
    """The body on so many ranks, with a folder `out` and the cases as arguments."""
    path = folder / "ranks.py"
    path.write_text(body)
    command = [*launcher(ranks), str(path), str(folder / "out"), json.dumps(cases)]
    environment = {**os.environ, **ENVIRONMENT}
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    assert done.stdout.count("done") == ranks


def start(ranks: int, words: list[str], *options: str) -> subprocess.Popen:
    """`aon ...` on so many ranks."""
    command = [*launcher(ranks, *options), "-m", "aon.lab", *words]
    environment = {**os.environ, **ENVIRONMENT}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def command(ranks: int, words: list[str], timeout: float = 240) -> subprocess.CompletedProcess:
    process = start(ranks, words)
    told, complaint = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(words, process.returncode, told, complaint)


def pid_of(parent: int, rank: int) -> int:
    """The process of a rank."""
    children = Path(f"/proc/{parent}/task").glob("*/children")
    numbers = {int(number) for child in children for number in child.read_text().split()}
    (found,) = (n for n in numbers if f"\0RANK={rank}\0".encode() in Path(f"/proc/{n}/environ").read_bytes())
    return found
