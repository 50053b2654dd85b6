"""Inverse square roots against eigendecompositions in float64, and their pullbacks against finite differences."""

import pytest
import torch
from torch import Tensor

from aon.activations.roots import eigen_pullback, eigen_root, newton_pullback, newton_root

EPS = torch.finfo(torch.float64).eps


def covariance(groups: int, channels: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(groups, channels, 3 * channels, generator=generator, dtype=torch.float64)
    return X @ X.mT / (3 * channels)


def newton_scalar(x: Tensor, n_iterations: int) -> Tensor:
    """What the iteration makes of an eigenvalue of the trace-normalised matrix."""
    p = torch.ones_like(x)
    for _ in range(n_iterations):
        p = 1.5 * p - 0.5 * p**3 * x
    return p


@pytest.mark.parametrize("n_iterations", [1, 2, 5, 9])
def test_newton_acts_on_eigenvalues_only(n_iterations: int) -> None:
    S = covariance(2, 6)
    W, _ = newton_root(S, n_iterations)
    values, U = torch.linalg.eigh(S)
    trace = values.sum(-1, keepdim=True)
    expected = U @ torch.diag_embed(newton_scalar(values / trace, n_iterations) / trace.sqrt()) @ U.mT
    torch.testing.assert_close(W, expected, rtol=0, atol=1000 * 6 * EPS)


def test_newton_error_falls_with_the_number_of_steps() -> None:
    S = covariance(1, 5)
    exact, _ = eigen_root(S, 1e-12)
    errors = [(newton_root(S, n)[0] - exact).norm().item() for n in (1, 3, 6, 12)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-9 < errors[0]


def test_eigen_root_whitens() -> None:
    S = covariance(3, 7)
    W, _ = eigen_root(S, 1e-12)
    torch.testing.assert_close(W @ S @ W, torch.eye(7, dtype=torch.float64).expand(3, 7, 7))


def directional(root, S: Tensor, E: Tensor, direction: Tensor) -> Tensor:
    step = 1e-6
    ahead, behind = root(S + step * direction)[0], root(S - step * direction)[0]
    return (E * (ahead - behind)).sum() / (2 * step)


ROOTS = {
    "newton_1": (lambda S: newton_root(S, 1), newton_pullback),
    "newton_5": (lambda S: newton_root(S, 5), newton_pullback),
    "eigen": (lambda S: eigen_root(S, 1e-9), eigen_pullback),
}


@pytest.mark.parametrize("name", ROOTS)
@pytest.mark.parametrize("spectrum", ["distinct", "equal"])
def test_pullback_is_the_gradient(name: str, spectrum: str) -> None:
    root, pullback = ROOTS[name]
    S = covariance(2, 4) if spectrum == "distinct" else torch.eye(4, dtype=torch.float64).repeat(2, 1, 1)
    E, direction = covariance(2, 4, seed=1), covariance(2, 4, seed=2)
    _, saved = root(S)
    got = (pullback(saved, E) * direction).sum()
    torch.testing.assert_close(got, directional(root, S, E, direction), rtol=1e-7, atol=1e-7)


def test_a_covariance_that_is_not_finite_gives_nan_for_its_group_alone() -> None:
    S = covariance(2, 3)
    S[0, 1, 1] = torch.inf
    W, _ = eigen_root(S, 1e-9)
    assert W[0].isnan().all()
    assert W[1].isfinite().all()
