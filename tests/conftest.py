"""Fixtures and options shared by all tests."""

import os
import signal

import hypothesis
import pytest
import torch
from tests.network import stay_off
from tests.pairs import covering

stay_off()

# Tensors here are tiny: a second thread would only be waited for, and on a busy machine for long.
torch.set_num_threads(1)

# A shell that starts the tests in the background ignores SIGINT for them. A program passes on that it ignores a signal,
# and the tests of Ctrl-C would wait for nothing.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)

# No test has an opinion on time; the examples are the same in every run, so that a failure can be seen again.
hypothesis.settings.register_profile("aon", deadline=None, derandomize=True)
hypothesis.settings.load_profile("aon")

FULL = os.environ.get("AON_FULL") == "1"  # `make test-full`


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the tests of every map on every layer keep those that cover all pairs, unless AON_FULL=1."""
    grid = [item for item in items if isinstance(item, pytest.Function) and _is_of_grid(item)]
    if FULL or not grid:
        return
    kept = covering([{"test": item.originalname, **_values(item)} for item in grid])
    left_out = {id(item) for number, item in enumerate(grid) if number not in kept}
    config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
    items[:] = [item for item in items if id(item) not in left_out]


def _values(item: pytest.Function) -> dict[str, int]:
    """The values of a test's parameters, each told from the others by its identity."""
    return {name: id(value) for name, value in item.callspec.params.items()}


def _is_of_grid(item: pytest.Function) -> bool:
    return hasattr(item, "callspec") and {"options", "kind"} <= item.callspec.params.keys()
