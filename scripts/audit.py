"""Check the installed packages: consistent, equal to the lock, without known vulnerabilities.

    make audit

The last check asks an advisory service. Where that does not answer, the program says that nothing was audited; it never
takes silence for a clean bill.
"""

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parents[1] / "requirements" / "ci.txt"


def pins(text: str) -> dict[str, str]:
    r"""Names and versions of a lock file.

    Example:
        >>> pins("# a comment\nJinja2==3.1.6\n")
        {'jinja2': '3.1.6'}
    """
    rows = [line.split("==") for line in text.splitlines() if line and not line.startswith("#")]
    return {canonical(name): version for name, version in rows}


def canonical(name: str) -> str:
    """The name of a package as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def differences(locked: dict[str, str], installed: dict[str, str]) -> list[str]:
    """What is installed in another version than the lock says, or not at all.

    Example:
        >>> differences({"a": "1", "b": "2"}, {"a": "1+cpu", "b": "3"})
        ['b: 3 is installed, the lock says 2']
    """
    return [
        f"{name}: {installed.get(name, 'nothing')} is installed, the lock says {version}"
        for name, version in locked.items()
        if installed.get(name, "").split("+")[0] != version
    ]


def verdict(found: list[dict[str, Any]]) -> tuple[bool, str]:
    """Whether what pip-audit found is acceptable, and a sentence about it.

    Example:
        >>> verdict([{"name": "a", "version": "1", "vulns": []}])
        (True, '1 packages audited, no known vulnerability')
        >>> verdict([{"name": "a", "skip_reason": "not found"}])
        (True, 'NOT AUDITED: the advisory service knows none of the 1 packages; it cannot be reached from here')
    """
    audited = [row for row in found if "skip_reason" not in row]
    unsafe = [f"{row['name']} {row['version']}: {v['id']}" for row in audited for v in row["vulns"]]
    if unsafe:
        return False, "; ".join(unsafe)
    if not audited:
        return True, (
            f"NOT AUDITED: the advisory service knows none of the {len(found)} packages; it cannot be reached from here"
        )
    left = f", {len(found) - len(audited)} unknown to the service" if len(audited) < len(found) else ""
    return True, f"{len(audited)} packages audited, no known vulnerability{left}"


def audit() -> tuple[bool, str]:
    """Ask the advisory service about every line of the lock."""
    args = ["-r", str(LOCK), "--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off"]
    command = [sys.executable, "-m", "pip_audit", *args, "--timeout", "15"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return verdict(json.loads(done.stdout)["dependencies"])
    except (json.JSONDecodeError, KeyError):
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return True, f"NOT AUDITED: the advisory service did not answer ({last})"


def main() -> int:
    """Print one line for each check; 1 where one fails."""
    fits = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    installed = {canonical(package.name): package.version for package in metadata.distributions()}
    wrong = differences(pins(LOCK.read_text(encoding="utf-8")), installed)
    safe, message = audit()
    print(f"pip check: {fits.stdout.strip()}")
    print(f"lock: {'; '.join(wrong) or 'every installed version is that of requirements/ci.txt'}")
    print(f"advisories: {message}")
    return int(fits.returncode != 0 or bool(wrong) or not safe)


if __name__ == "__main__":
    sys.exit(main())
