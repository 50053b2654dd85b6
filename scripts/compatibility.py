"""Run the tests on the installed torch, record the outcome, and write docs/compatibility.md's table from the records.

    python scripts/compatibility.py run [PATH...]      # in any environment; results/compatibility/PYTHON-TORCH.json
    python scripts/compatibility.py table              # the table, from all records

Warnings are not errors here: another torch may deprecate other names.
"""

import json
import platform
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
RECORDS = REPOSITORY / "results" / "compatibility"
DOCUMENT = REPOSITORY / "docs" / "compatibility.md"
BEGIN, END = "<!-- records: begin -->", "<!-- records: end -->"
SCOPE = ["tests", "src"]


def outcome(junit: Path) -> dict[str, Any]:
    """Counts of a pytest run, and the names of the tests that failed."""
    cases = list(ET.parse(junit).iter("testcase"))
    failed = [f"{case.get('classname')}::{case.get('name')}" for case in cases if _has(case, "failure", "error")]
    skipped = sum(_has(case, "skipped") for case in cases)
    return {"passed": len(cases) - len(failed) - skipped, "failed": len(failed), "skipped": skipped, "failures": failed}


def _has(case: ET.Element, *tags: str) -> bool:
    return any(case.find(tag) is not None for tag in tags)


def run(paths: list[str]) -> int:
    """Run pytest on the paths, and leave a record whatever happens to single tests."""
    with tempfile.TemporaryDirectory() as folder:
        junit = Path(folder, "junit.xml")
        args = ["-m", "pytest", "-W", "default", "-n", "2", "--dist", "load", f"--junitxml={junit}", *paths]
        done = subprocess.run([sys.executable, *args], cwd=REPOSITORY, check=False)
        if not junit.exists():
            sys.exit(f"pytest ended with status {done.returncode} and left no result")
        counts = outcome(junit)
    keep(counts, paths)
    return int(counts["failed"] > 0)


def keep(counts: dict[str, Any], paths: list[str]) -> None:
    """Write the record of a run in this environment."""
    packages = ("torch", "numpy", "pydantic", "typer", "transformers")
    record = {
        "python": platform.python_version(),
        "versions": {name: version for name in packages if (version := _version(name))},
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "paths": paths,
        **counts,
    }
    name = f"python{record['python']}-torch{metadata.version('torch')}.json"
    write(RECORDS / name, json.dumps(record, indent=2) + "\n")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    command = ["git", "-C", str(REPOSITORY), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def write(path: Path, text: str) -> None:
    """Write a file under a temporary name, then rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def table(records: list[dict[str, Any]]) -> str:
    """A row for each record, oldest torch first."""
    rows = ["| Python | torch | tests | passed | failed | skipped | date |", "|---|---|---|--:|--:|--:|---|"]
    for record in sorted(records, key=lambda record: (_order(record["versions"]["torch"]), _order(record["python"]))):
        cells = (
            record["python"], record["versions"]["torch"], " ".join(f"`{path}`" for path in record["paths"]),
            record["passed"], record["failed"], record["skipped"], record["date"],
        )  # fmt: skip
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("+")[0].split("."))


def document(text: str) -> str:
    """The document with the table of all records in its place."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RECORDS.glob("*.json"))]
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(records)}\n\n{END}{after}"


def main() -> int:
    """Run the tests or write the table."""
    if sys.argv[1:2] == ["run"]:
        return run(sys.argv[2:] or SCOPE)
    if sys.argv[1:] == ["table"]:
        write(DOCUMENT, document(DOCUMENT.read_text(encoding="utf-8")))
        return 0
    sys.exit(f"{' '.join(sys.argv[1:])!r}: expected run [PATH...] or table")


if __name__ == "__main__":
    sys.exit(main())
