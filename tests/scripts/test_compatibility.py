"""Counts come from pytest's own file, and the document says what the records say."""

import subprocess
import sys

import pytest
from scripts.compatibility import DOCUMENT, document, outcome, table

TESTS = """
import pytest
def test_passes(): pass
def test_fails(): assert False
def test_is_skipped(): pytest.skip("a reason")
"""


def test_counts_of_a_real_run(tmp_path):
    (tmp_path / "test_three.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=out.xml", "test_three.py"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert outcome(tmp_path / "out.xml") == {
        "passed": 1, "failed": 1, "skipped": 1, "failures": ["test_three::test_fails"],
    }  # fmt: skip


def test_rows_are_sorted_by_number_and_not_by_letter():
    def record(torch):
        rest = {"python": "3.11.7", "paths": ["tests"], "passed": 1, "failed": 0, "skipped": 0, "date": "2026-01-01"}
        return {"versions": {"torch": torch}, **rest}

    rows = table([record("2.15.0+cu132"), record("2.4.0")]).splitlines()
    assert ["2.4.0" in rows[2], "2.15.0" in rows[3]] == [True, True]


def test_the_document_is_made_from_the_records():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == document(text), "run python scripts/compatibility.py table"


@pytest.mark.parametrize("args", [[], ["walk"], ["table", "more"]])
def test_other_words_end_in_one_line(args):
    program = str(DOCUMENT.parents[1] / "scripts" / "compatibility.py")
    done = subprocess.run([sys.executable, program, *args], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "expected run [PATH...] or table" in done.stderr
    assert len(done.stderr.splitlines()) == 1
