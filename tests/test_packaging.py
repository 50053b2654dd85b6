"""Version, changelog, bounds and lock agree with one another."""

import re
import tomllib
from datetime import date
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import aon

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
DIRECT = [Requirement(line) for lines in [PROJECT["dependencies"], *EXTRAS.values()] for line in lines]
OUTSIDE = [requirement for requirement in DIRECT if requirement.name != "aon"]


def pins(name: str) -> dict[str, Version]:
    """Names and versions of a file in requirements/; every line must be of that kind."""
    lines = (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines()
    rows = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in rows}


def test_the_version_stands_in_the_changelog_with_its_date():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## \[{re.escape(aon.__version__)}\] - (\d{{4}}-\d\d-\d\d)$", text, re.MULTILINE)
    assert found, f"CHANGELOG.md has no dated entry for {aon.__version__}"
    assert date.fromisoformat(found[1])
    assert text.index("## [Unreleased]") < found.start()


@pytest.mark.parametrize("requirement", OUTSIDE, ids=lambda requirement: requirement.name)
def test_the_lock_holds_every_direct_dependency_within_its_bounds(requirement):
    locked = pins("ci.txt")
    name = canonicalize_name(requirement.name)
    assert name in locked, f"requirements/ci.txt has no {name}: run make lock"
    assert requirement.specifier.contains(locked[name]), f"{name} {locked[name]} of the lock: run make lock"


def test_the_lock_installs_on_any_machine():
    text = (ROOT / "requirements" / "ci.txt").read_text(encoding="utf-8")
    assert not re.search(r"://| @ |\+|^-", text, re.MULTILINE)


def test_the_makefile_and_the_lock_pin_the_same_torch():
    (found,) = re.findall(r"^TORCH := (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert pins("ci.txt")["torch"] == Version(found)


@pytest.mark.parametrize("line", [*PROJECT["dependencies"], *EXTRAS["lab"]])
def test_what_is_tested_as_oldest_is_the_lower_bound(line):
    requirement = Requirement(line)
    (lowest,) = [Version(bound.version) for bound in requirement.specifier if bound.operator == ">="]
    tested = pins("oldest.txt")[canonicalize_name(requirement.name)]
    assert tested.release[: len(lowest.release)] == lowest.release
    assert not any(tested.release[len(lowest.release) :]), f"{line}: {tested} is tested"


@pytest.mark.parametrize("line", [*PROJECT["dependencies"], *EXTRAS["lab"], *EXTRAS["bench"]])
def test_users_get_an_upper_bound(line):
    assert [bound for bound in Requirement(line).specifier if bound.operator == "<"]
