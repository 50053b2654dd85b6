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


@pytest.mark.parametrize("requirement", OUTSIDE, ids=lambda requirement: requirement.name)
def test_every_bound_was_tried(requirement):
    """The lower one on the oldest versions or, for tools and peers, by CI; above, what the lock has is the newest."""
    bounds = {bound.operator: Version(bound.version) for bound in requirement.specifier}
    assert set(bounds) == {">=", "<"}
    name = canonicalize_name(requirement.name)
    tried = pins("oldest.txt").get(name) or pins("ci.txt")[name]
    lowest = bounds[">="].release
    assert tried.release[: len(lowest)] == lowest
    assert not any(tried.release[len(lowest) :]), f"{requirement}: {tried} was tried"


@pytest.mark.parametrize("line", [*PROJECT["dependencies"], *EXTRAS["lab"]])
def test_what_a_user_installs_was_tried_at_its_oldest(line):
    assert canonicalize_name(Requirement(line).name) in pins("oldest.txt")
