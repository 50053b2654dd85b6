"""Every option is checked, and the error names the option, the value and what it may be."""

import subprocess
import sys

import pytest
import torch

from aon.kernels import settings
from aon.kernels.settings import Settings, check_settings

GOOD = Settings()._asdict()


def test_defaults_are_those_of_normalise():
    assert check_settings(**GOOD) == Settings(2, "spectral", "one", False, 1, 1e-12, "taylor", 0.2)


@pytest.mark.parametrize("scale", ["spectral", "frobenius", None])
@pytest.mark.parametrize("option", [{"centre": "one"}, {"centre": "mean"}, {"centre": "top"}, {"expansion": "minimax"}])
def test_every_word_is_taken(scale, option):
    assert check_settings(**GOOD | {"scale": scale} | option).scale == scale


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("order", -1, r"order=-1: expected a whole number, 0 or more"),
        ("order", 1.5, r"order=1.5: expected a whole number, 0 or more"),
        ("scale", "nuclear", r"scale='nuclear': expected one of 'spectral', 'frobenius', None"),
        ("centre", "median", r"centre='median': expected one of 'one', 'mean', 'top'"),
        ("centre", None, r"centre=None: expected one of 'one', 'mean', 'top'"),
        ("expansion", "pade", r"expansion='pade': expected one of 'taylor', 'minimax'"),
        ("lower", 0.3, r"lower=0.3: expected with expansion='minimax' only"),
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


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("lower", 0.0, r"lower=0.0: expected a number between 0.001 and 0.9"),
        ("lower", 1.0, r"lower=1.0: expected a number between 0.001 and 0.9"),
        ("lower", True, r"lower=True: expected a number between 0.001 and 0.9"),
        ("lower", "low", r"lower='low': expected a number between 0.001 and 0.9"),
        ("lower", float("nan"), r"lower=nan: expected a number between 0.001 and 0.9"),
        ("centre", "mean", r"centre='mean': expected with expansion='taylor' only"),
        ("centre", "top", r"centre='top': expected with expansion='taylor' only"),
        ("prescale", True, r"prescale=True: expected with expansion='taylor' only"),
        ("order", 0, r"order=0: expected 1 or more with expansion='minimax'"),
        ("order", 24, r"order=24 with lower=0.2: float32 would be wrong by .*, more than 0.0001"),
        ("order", 1000, r"order=1000: expected at most 32"),
    ],
)
def test_refused_with_minimax(option, value, message):
    with pytest.raises(ValueError, match=message):
        check_settings(**GOOD | {"expansion": "minimax", option: value})


def test_the_polynomial_is_a_constant_for_the_compiler_which_is_not_loaded_for_that():
    marked = torch.compiler.assume_constant_result(lambda: None)
    assert vars(marked) == vars(settings._constant)
    code = "import sys, aon; aon.normalise; aon.functional; sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
