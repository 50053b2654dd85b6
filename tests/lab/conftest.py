"""Fixtures of the laboratory's tests."""

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Small work on several threads waits for the slowest of them, which on a busy machine may take seconds."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
