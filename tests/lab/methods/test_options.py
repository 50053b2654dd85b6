"""Options: read, refuse, write back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aon.lab.errors import LabError
from aon.lab.methods.options import choice, flag, integer, number, written


@given(st.floats(min_value=0, allow_nan=False, allow_infinity=False))
def test_numbers_are_written_so_that_they_read_the_same(value: float) -> None:
    assert number("x", 1.0).read(written(value)) == value
    assert "+" not in written(value)


@pytest.mark.parametrize("text", ["on", "yes", "true", "1"])
def test_flags_that_are_on(text: str) -> None:
    assert flag("x", False).read(text) is True


@pytest.mark.parametrize("text", ["off", "no", "false", "0"])
def test_flags_that_are_off(text: str) -> None:
    assert flag("x", False).read(text) is False


def test_minus_nought_is_nought() -> None:
    assert written(number("x", 1.0).read("-0")) == "0"


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        (integer("n", 2, least=0, most=4), "5", "n=5: expected a whole number of 0 or more and at most 4"),
        (integer("n", 2, least=0, most=4), "1_0", "n=1_0: expected a whole number"),
        (integer("n", 2, least=0, most=4), "9" * 5000, r"n=9+\.\.\.9+ \(5,000 characters\): expected a whole number"),
        (number("x", 1.0), "nan", "x=nan: expected a number of 0 or more"),
        (number("x", 1.0, above=True), "0", "x=0: expected a number above 0"),
        (number("x", 1.0, most=2.0), "1e9", "expected a number of 0 or more and at most 2"),
        (flag("f", None), "2", "f=2: expected on or off"),
        (
            choice("c", "one", "mean"),
            "main",
            r"unknown c 'main'; did you mean 'mean'\? \(there are: one, mean\)",
        ),
    ],
)
def test_bad_values_are_refused(option, text: str, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(LabError, match=message):
        option.read(text)


def test_a_choice_defaults_to_its_first_word() -> None:
    assert choice("c", "one", "mean").default == "one"
    assert choice("c", "one", "mean").expected == "one of one, mean"
