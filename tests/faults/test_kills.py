"""Killed runs and reports continue to the same bits."""

import json
import subprocess
import sys


def test_runs_and_reports_killed_at_any_moment_and_in_the_middle_of_any_file_end_with_the_same_bits(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.kills", "--kills", "50", "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["lost"] == []
    assert found["kills"] >= 50
    assert set(found["ways"]) == {"moment", "write", "before", "after", "table"}
