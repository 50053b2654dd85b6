"""The lock holds only versions that every machine can install."""

import pytest
from scripts.lock import locked


def test_local_builds_become_public_versions():
    assert locked("torch==2.13.0+cpu\nJinja2==3.1.6\n").splitlines()[1:] == ["Jinja2==3.1.6", "torch==2.13.0"]


@pytest.mark.parametrize("line", ["torch @ file:///tmp/torch.whl", "-e git+ssh://somewhere#egg=aon", "numpy>=2"])
def test_lines_that_depend_on_the_machine_are_refused(line):
    with pytest.raises(ValueError, match="expected NAME==VERSION"):
        locked(line)
