"""Checks of arguments."""

import pytest

from aon.kernels.checks import check_count


@pytest.mark.parametrize("wrong", [0, -1, 2.0, True, "4", None])
def test_what_is_no_count_is_refused(wrong):
    with pytest.raises(ValueError, match=r"steps=.*: expected a whole number, 1 or more"):
        check_count("steps", wrong)


def test_counts_pass():
    check_count("steps", 1)
    check_count("order", 0, least=0)
