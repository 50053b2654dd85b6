"""Every peer computes what its name says, on the paper's matrix form of the weight."""

import pytest
import torch
from torch import nn

from aon.kernels.reference import normalise_reference
from aon.lab.bench.peers import PEERS, PLAIN, REFERENCE, Peer, ours, plain_autograd

BY_NAME = {peer.name: peer for peer in PEERS}
EXACT = ("polar-svd", "aon-polar", "orthogonium-qr", "torch-orthogonal-cayley", "torch-orthogonal-exp",
         "torch-orthogonal-householder", "geotorch-cayley", "geotorch-exp")  # fmt: skip
NEARLY = ("torchlip-bjorck", "orthogonium-bjorck", "orthogonium-cholesky")
SHAPES = {"wide": (6, 20), "tall": (20, 6), "square": (8, 8)}
SETTLED = 5e-3  # u moves only with W, and W rests here: 4e-4 measured
NEAR = 2e-2  # Bjorck's iterations end before they converge: 3e-3 measured


def matrix(shape):
    return nn.init.kaiming_uniform_(
        torch.empty(shape, dtype=torch.float32), a=5**0.5, generator=torch.Generator().manual_seed(3)
    )


def need(name):
    peer = BY_NAME[name]
    if not peer.is_installed:
        pytest.skip(f"{peer.package} is not installed (extra [bench])")
    return peer


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", [peer.name for peer in PEERS])
def test_forward_has_the_shape_and_backward_reaches_the_parameters(name, shape):
    read, parameters = need(name).install(matrix(shape))
    H = read()
    assert H.shape == shape
    gradients = torch.autograd.grad(H, parameters, torch.ones(shape))
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert any(gradient.abs().max() > 0 for gradient in gradients)


@pytest.mark.parametrize(
    ("name", "shape"),
    # Orthogonium's Cholesky factor is that of W W^T, which is singular for a tall W.
    [(n, s) for n in EXACT + NEARLY for s in ("wide", "tall") if (n, s) != ("orthogonium-cholesky", "tall")],
)
def test_peers_that_orthogonalise_do(name, shape):
    peer = need(name)
    assert peer.orthogonalises
    read, _ = peer.install(matrix(SHAPES[shape]))
    for _ in range(5):
        H = read()
    values = torch.linalg.svdvals(H)
    tolerance = 1e-4 if name in EXACT else NEAR
    assert (values - 1).abs().max() < tolerance, values


@pytest.mark.parametrize(
    ("order", "name"), [(2, PLAIN), (2, REFERENCE), (0, "torch-spectral-norm"), (0, "torch-spectral-norm-hook")]
)
def test_other_ways_to_the_same_map_agree_with_ours_but_for_how_far_u_has_come(order, name):
    torch.manual_seed(0)  # torch's own spectral_norm starts from a random vector
    W = matrix(SHAPES["wide"])
    reads = [BY_NAME[each].install(W)[0] for each in (ours(order), name)]
    for _ in range(30):
        fast, other = (read() for read in reads)
    ratio = (fast.norm() / other.norm()).item()
    assert ratio == pytest.approx(1, abs=SETTLED)
    assert torch.allclose(fast / ratio, other, atol=1e-6)


@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_plain_autograd_is_the_reference(order):
    W, u = matrix(SHAPES["square"]).double(), torch.ones(8, dtype=torch.float64) / 8**0.5
    for ours_, theirs in zip(plain_autograd(W, u, order), normalise_reference(W, u, order), strict=True):
        assert torch.allclose(ours_, theirs, atol=1e-13)


def test_a_missing_package_is_seen_without_importing_it():
    install = BY_NAME["polar-svd"].install
    assert not Peer("a", install, package="no_such_package").is_installed
    assert not Peer("a", install, package="no_such_package.part").is_installed
    assert Peer("a", install, package="torch").is_installed


def test_names_are_unique_and_ours_begin_with_aon():
    assert len(BY_NAME) == len(PEERS)
    assert all(peer.package is None for peer in PEERS if peer.name.startswith("aon"))
