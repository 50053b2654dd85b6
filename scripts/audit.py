"""Check the installed packages: consistent, equal to the lock, without known vulnerabilities.

    make audit [AUDIT=--advise]

The last check asks an advisory service. Where that does not answer, the program says that nothing was audited; it never
takes silence for a clean bill. With --advise a vulnerability is told but does not fail: CI judges a change, which is
not to blame for what was published since the last one.
"""

import argparse
import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PATIENCE = 300  # seconds for all questions to the advisory service
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
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        return verdict(json.loads(done.stdout)["dependencies"])
    except subprocess.TimeoutExpired:
        return True, f"NOT AUDITED: the advisory service did not answer in {PATIENCE} s"
    except (json.JSONDecodeError, KeyError):
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return True, f"NOT AUDITED: the advisory service did not answer ({last})"


def main() -> int:
    """Print one line for each check; 1 where one fails."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--advise", action="store_true", help="tell a known vulnerability, but do not fail for it")
    given = options.parse_args()
    fits = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    installed = {canonical(package.name): package.version for package in metadata.distributions()}
    wrong = differences(pins(LOCK.read_text(encoding="utf-8")), installed)
    safe, message = audit()
    print(f"pip check: {fits.stdout.strip()}")
    print(f"lock: {'; '.join(wrong) or 'every installed version is that of requirements/ci.txt'}")
    print(f"advisories: {'' if safe else 'VULNERABLE: '}{message}")
    return int(fits.returncode != 0 or bool(wrong) or not (safe or given.advise))


if __name__ == "__main__":
    sys.exit(main())
