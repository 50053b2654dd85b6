"""W / sigma(W) against its definition; the power steps and gradients are also in test_fused.py, as order 0."""

import pytest
import torch

from aon.kernels.power import State
from aon.kernels.settings import Settings
from aon.kernels.spectral import Spectral


@pytest.mark.parametrize("shape", [(3, 7), (7, 3), (2, 3, 5)])
def test_from_the_leading_vector(shape):
    torch.manual_seed(0)
    W = torch.randn(shape, dtype=torch.float64)
    U, s, _ = torch.linalg.svd(W, full_matrices=False)
    u = U[..., 0]
    gain = torch.linspace(0.5, 2, W[..., 0].numel(), dtype=torch.float64)
    state = State(u, u, torch.full_like(u, torch.nan))
    H, start, moved, fingerprint, *_ = Spectral.apply(W, gain, state, Settings(0))
    torch.testing.assert_close(H, gain.reshape(*shape[:-1], 1) * W / s[..., :1, None])
    torch.testing.assert_close(moved, u)
    assert torch.equal(start, u)
    assert torch.equal(fingerprint, W.sum(-1))


def test_no_gram_matrix_is_made():
    W, u = torch.randn(300, 300), torch.ones(300) / 300**0.5
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        Spectral.apply(W, None, State(u, u, u), Settings(0))
    names = {row.key for row in profile.key_averages()}
    assert "aten::mv" in names
    assert "aten::mm" not in names
