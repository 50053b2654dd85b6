"""The audit fails where something is wrong, and says when nothing was audited."""

from subprocess import CompletedProcess

import pytest
from scripts.audit import differences, pins, verdict

from scripts import audit

SAFE = {"name": "a", "version": "1", "vulns": []}
UNSAFE = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1"}]}
UNKNOWN = {"name": "c", "skip_reason": "not found"}


def test_another_version_and_a_missing_package_are_named():
    assert pins("# comment\nA_b==1\n") == {"a-b": "1"}
    assert differences({"a": "1", "b": "2", "c": "3"}, {"a": "1+cpu", "b": "4"}) == [
        "b: 4 is installed, the lock says 2",
        "c: nothing is installed, the lock says 3",
    ]


def test_a_known_vulnerability_fails():
    assert verdict([SAFE, UNSAFE]) == (False, "b 2: PYSEC-1")


def test_packages_that_were_not_audited_are_counted():
    assert verdict([SAFE, UNKNOWN]) == (True, "1 packages audited, no known vulnerability, 1 unknown to the service")
    ok, args = verdict([UNKNOWN])
    assert ok
    assert args.startswith("NOT AUDITED")


@pytest.mark.parametrize(("options", "status"), [([], 1), (["--advise"], 0)])
def test_a_known_vulnerability_is_told_and_fails_unless_it_is_only_to_be_told(monkeypatch, capsys, options, status):
    monkeypatch.setattr(audit, "audit", lambda: verdict([UNSAFE]))
    monkeypatch.setattr(audit, "differences", lambda *_: [])
    monkeypatch.setattr(audit.subprocess, "run", lambda *_, **__: CompletedProcess([], 0, "consistent"))
    monkeypatch.setattr("sys.argv", ["audit.py", *options])
    assert audit.main() == status
    assert "advisories: VULNERABLE: b 2: PYSEC-1" in capsys.readouterr().out


def test_a_service_that_never_answers_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(audit, "PATIENCE", 0.01)
    assert audit.audit() == (True, "NOT AUDITED: the advisory service did not answer in 0.01 s")
