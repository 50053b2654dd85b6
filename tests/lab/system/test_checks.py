"""Numbers below a limit are refused."""

import pytest

from aon.lab.errors import LabError
from aon.lab.system.checks import check_at_least


def test_the_limit_itself_is_allowed():
    check_at_least("rounds", 1)
    check_at_least("workers", 0, least=0)


@pytest.mark.parametrize(
    ("value", "least", "message"), [(0, 1, "rounds = 0: should be at least 1"), (-1, 0, "= -1: should be at least 0")]
)
def test_less_is_refused(value, least, message):
    with pytest.raises(LabError, match=message):
        check_at_least("rounds", value, least)
