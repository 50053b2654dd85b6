"""Checks of arguments."""

import pytest

from aon.kernels.checks import check_count, check_that, nearest


@pytest.mark.parametrize("wrong", [0, -1, 2.0, True, "4", None])
def test_what_is_no_count_is_refused(wrong):
    with pytest.raises(ValueError, match=r"steps=.*: expected a whole number, 1 or more"):
        check_count("steps", wrong)


def test_counts_pass():
    check_count("steps", 1)
    check_count("order", 0, least=0)


def test_a_condition():
    check_that(True, "eps", 1.0, "a number above 0")
    with pytest.raises(ValueError, match=r"^eps=nan: expected a number above 0$"):
        check_that(float("nan") > 0, "eps", float("nan"), "a number above 0")


@pytest.mark.parametrize(
    ("word", "found"), [("ordr", "order"), ("ORDER", "order"), ("zzz", None), ("o" * 1000, None), ("ab", "abc")]
)
def test_the_nearest_word(word, found):
    assert nearest(word, ["abd", "order", "abc"] if word != "ab" else ["abc", "abd"]) == found
