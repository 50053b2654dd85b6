"""Every option is checked, and the error names the option, the value and what it may be."""

import pytest

from aon.settings import Settings, check_settings

GOOD = Settings()._asdict()


def test_defaults_are_those_of_normalise():
    assert check_settings(**GOOD) == Settings(2, "spectral", "one", False, 1, 1e-12)


@pytest.mark.parametrize("scale", ["spectral", "frobenius", None])
@pytest.mark.parametrize("centre", ["one", "mean"])
def test_every_word_is_taken(scale, centre):
    assert check_settings(**GOOD | {"scale": scale, "centre": centre}).scale == scale


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("order", -1, r"order=-1: expected a whole number, 0 or more"),
        ("order", 1.5, r"order=1.5: expected a whole number, 0 or more"),
        ("scale", "nuclear", r"scale='nuclear': expected one of 'spectral', 'frobenius', None"),
        ("centre", "median", r"centre='median': expected one of 'one', 'mean'"),
        ("centre", None, r"centre=None: expected one of 'one', 'mean'"),
        ("prescale", 1, r"prescale=1: expected True or False"),
        ("n_power_iterations", 0, r"n_power_iterations=0: expected a whole number, 1 or more"),
        ("n_power_iterations", True, r"n_power_iterations=True: expected a whole number, 1 or more"),
        ("n_power_iterations", 1.0, r"n_power_iterations=1.0: expected a whole number, 1 or more"),
        ("eps", 0.0, r"eps=0.0: expected a number between 0 and 1"),
        ("eps", float("nan"), r"eps=nan: expected a number between 0 and 1"),
        ("eps", "small", r"eps='small': expected a number between 0 and 1"),
    ],
)
def test_refused(option, value, message):
    with pytest.raises(ValueError, match=message):
        check_settings(**GOOD | {option: value})
