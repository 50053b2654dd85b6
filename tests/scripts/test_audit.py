"""The audit fails where something is wrong, and says when nothing was audited."""

from scripts.audit import differences, pins, verdict

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
