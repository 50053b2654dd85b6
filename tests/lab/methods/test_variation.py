"""Options that vary make methods."""

import pytest

from aon.lab.errors import LabError
from aon.lab.methods.variation import vary_option


def test_each_value_makes_a_method_and_equal_ones_make_one():
    assert vary_option(["bn+aon:order=4"], "order", ["2", 2, 4]) == ("bn+aon", "bn+aon:order=4")
    assert vary_option(["bn+aon"], "prescale", [True, "off"]) == ("bn+aon:prescale=on", "bn+aon")


def test_a_value_without_effect_makes_no_second_method():
    assert vary_option(["aon:order=0"], "centre", ["one", "mean", "top"]) == ("aon:order=0",)
    varied = vary_option(["bn+aon:order=0:scale=none"], "centre", ["one", "mean"])
    assert varied == ("bn+aon:order=0:scale=none", "bn+aon:order=0:scale=none:centre=mean")


def test_methods_without_the_option_stay():
    assert vary_option(["iternorm", "bn"], "groups", [1, 4]) == ("iternorm", "iternorm:groups=4", "bn")


def test_an_option_of_two_words_is_ambiguous():
    with pytest.raises(LabError, match=r"vary = 'iterations': iternorm and aon both have it in iternorm\+aon; list"):
        vary_option(["iternorm+aon"], "iterations", [1, 2])


@pytest.mark.parametrize("value", ["much", "1:gain=on", None, "-1"])
def test_a_bad_value_is_named(value):
    with pytest.raises(LabError, match=r"vary\.beta: orth: beta"):
        vary_option(["bn+orth"], "beta", [value])
