"""Start torchrun on 127.0.0.1, for tests."""

import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from tests.processes import completed, started

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def launcher(ranks: int, *options: str) -> list[str]:
    return [
        sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}", "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1", "--monitor-interval=0.1", *options,
    ]  # fmt: skip


def script(folder: Path, ranks: int, body: str, cases: object) -> None:
    """The body on so many ranks, with a folder `out` and the cases as arguments."""
    path = folder / "ranks.py"
    path.write_text(body)
    done = completed(
        [*launcher(ranks), str(path), str(folder / "out"), json.dumps(cases)], env={**os.environ, **ENVIRONMENT}
    )
    assert done.returncode == 0, done.stderr[:3000]
    assert done.stdout.count("done") == ranks


def start(ranks: int, args: list[str], *options: str) -> "AbstractContextManager[subprocess.Popen[str]]":
    """`aon ...` on so many ranks, until the context ends."""
    command = [*launcher(ranks, *options), "-m", "aon.lab", *args]
    return started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **ENVIRONMENT})


def command(ranks: int, args: list[str]) -> "subprocess.CompletedProcess[str]":
    """`aon ...` on so many ranks, to its end."""
    return completed([*launcher(ranks), "-m", "aon.lab", *args], env={**os.environ, **ENVIRONMENT})


def pid_of(parent: int, rank: int) -> int | None:
    """The process of a rank, if there is one just now."""
    for child in Path(f"/proc/{parent}/task").glob("*/children"):
        for number in child.read_text().split():
            with suppress(OSError):  # it has ended
                if f"\0RANK={rank}\0".encode() in Path(f"/proc/{number}/environ").read_bytes():
                    return int(number)
    return None
