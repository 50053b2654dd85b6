"""The process group that shares statistics."""

from aon.activations.processes import group_of


def test_a_process_that_is_alone_shares_with_nobody():
    """Sums over several processes, and their gradients: tests/lab/training/test_ranks.py (IterNorm, DBN, BRN)."""
    assert group_of(False) is None
    assert group_of(True) is None
