"""Write requirements/ci.txt: the versions that CI installs, as pip resolves `.[dev]` in an empty environment.

make lock
"""

import re
import subprocess
import sys
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements" / "ci.txt"
HEADER = (
    "# Versions that CI installs (Python 3.11, Linux), as `make lock` resolved them from pyproject.toml. Do not edit.\n"
)


def locked(frozen: str) -> str:
    r"""Lines `name==version` of a `pip freeze`, without local builds (`+cpu`), paths and editable packages.

    Raises:
        ValueError: A line is not of that kind, so that the lock would depend on this machine.

    Example:
        >>> print(locked("torch==2.13.0+cpu\nnumpy==2.4.6\n").splitlines()[1:])
        ['numpy==2.4.6', 'torch==2.13.0']
    """
    rows = []
    for line in frozen.splitlines():
        found = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!-]+)(\+[A-Za-z0-9.]+)?", line.strip())
        if found is None:
            raise ValueError(f"{line!r}: expected NAME==VERSION, which every machine can install")
        rows.append(f"{found[1]}=={found[2]}")
    return HEADER + "".join(f"{row}\n" for row in sorted(rows, key=str.lower))


def main() -> None:
    """Freeze the environment that runs this program."""
    command = [sys.executable, "-m", "pip", "freeze", "--exclude-editable", "--exclude", "aon"]
    text = locked(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    LOCK.parent.mkdir(exist_ok=True)
    part = LOCK.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(LOCK)


if __name__ == "__main__":
    main()
