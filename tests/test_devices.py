"""Devices this machine lacks: no tensor leaves the device of the weight, and the host never waits for it.

A tensor on the meta device has no values: to read one, or to mix it with a tensor of another device, is an error there.
Autograd runs on it, as it does not on the fake CUDA tensors of a build of torch without CUDA; those show the forward.
"""

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import aon
from aon.kernels import several
from aon.kernels.fused import Normalise, unpack
from aon.kernels.fused import _backward as fused_backward
from aon.kernels.power import State
from aon.kernels.settings import Settings
from aon.lab.bench.cases.calls import SEPARATE, TOGETHER, count, count_in_network
from aon.lab.bench.peers import PEERS, PLAIN, aon_peer

LAYERS = {
    "wide": (lambda: nn.Linear(12, 6), (5, 12)),
    "tall": (lambda: nn.Linear(6, 12), (5, 6)),
    "applied": (lambda: nn.Linear(12, 6), (1, 12)),
    "conv": (lambda: nn.Conv2d(4, 6, 3), (2, 4, 5, 5)),
    "grouped": (lambda: nn.Conv2d(4, 6, 3, groups=2), (2, 4, 5, 5)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3), (2, 4, 5, 5)),
}
MAPS = {
    "aon2": {},
    "aon0": {"order": 0},
    "aon3_mean": {"order": 3, "centre": "mean"},
    "minimax": {"expansion": "minimax"},
    "frobenius": {"scale": "frobenius"},
    "top": {"centre": "top"},
    "wn": {"map": aon.maps.WeightNorm()},
    "cwn": {"map": aon.maps.CentredWeightNorm()},
    "oni": {"map": aon.maps.ONI()},
    "polar": {"map": aon.maps.Polar()},
}
each_layer = pytest.mark.parametrize(("make", "shape"), LAYERS.values(), ids=LAYERS)
each_map = pytest.mark.parametrize("options", MAPS.values(), ids=MAPS)
WAITS = ("_local_scalar_dense", "equal", "item", "is_nonzero", "nonzero")


def on_meta(make, options) -> nn.Module:
    return aon.normalise(make(), **options).to("meta")


class Recorded(TorchDispatchMode):
    """Names of the operations that ran, and those with tensors of more than one device."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.mixed: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        self.names.append(str(function).removeprefix("aten.").split(".")[0])
        if len({x.device.type for x in tree_leaves((args, kwargs, out)) if isinstance(x, Tensor)}) > 1:
            self.mixed.append(self.names[-1])
        return out


def test_a_read_on_the_meta_device_is_an_error():
    """The guard of the tests below."""
    x = torch.ones(2, device="meta")
    with pytest.raises((RuntimeError, NotImplementedError)):
        bool((x > 0).all())
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.equal(x, x)


@each_layer
@each_map
def test_a_training_step_and_evaluation(make, shape, options):
    layer, x = on_meta(make, options), torch.empty(shape, device="meta")
    with Recorded() as recorded:
        for _ in range(2):
            layer(x).sum().backward()
        layer.eval()
        with torch.no_grad():
            layer(x)
            layer(x)
    assert not recorded.mixed
    assert not set(recorded.names) & set(WAITS)
    assert {t.device.type for t in (*layer.parameters(), *layer.buffers())} == {"meta"}


@each_layer
@each_map
def test_accumulate(make, shape, options):
    layer, x = on_meta(make, options), torch.empty(shape, device="meta")
    with Recorded() as recorded, aon.accumulate(layer, 2):
        for _ in range(2):
            layer(x).sum().backward()
    assert not recorded.mixed
    assert not set(recorded.names) & set(WAITS)
    assert layer.weight.grad.device.type == "meta"


@each_layer
@each_map
def test_folding_and_penalties(make, shape, options):
    layer = on_meta(make, options)
    aon.penalties.orthonormal(layer).backward()
    aon.fold(layer)
    assert layer(torch.empty(shape, device="meta")).device.type == "meta"


def cuda(mode: FakeTensorMode, tensor: Tensor) -> FakeTensor:
    return FakeTensor(mode, tensor.detach().to("meta"), torch.device("cuda", 0))


@pytest.mark.parametrize("shape", [(6, 12), (12, 6), (2, 3, 8)], ids=["wide", "tall", "grouped"])
@pytest.mark.parametrize(
    "settings",
    [Settings(), Settings(3, centre="mean"), Settings(expansion="minimax"), Settings(scale="frobenius")],
    ids=["aon2", "aon3_mean", "minimax", "frobenius"],
)
def test_fake_cuda_tensors(shape, settings):
    """Forward and backward of the fused map, without autograd around them, which would end the process here."""
    mode = FakeTensorMode()
    W, u, previous = (cuda(mode, torch.ones(size)) for size in (shape, shape[:-1], shape[:-1]))
    state = State(u, previous, cuda(mode, torch.ones((*shape[:-2], min(shape[-2:])))))
    with mode, torch.no_grad(), Recorded() as recorded:
        H, start, moved, fingerprint, *kept = Normalise.forward(W, None, state, settings, True)
        found = unpack(kept, settings, shape[-2] > shape[-1])
        dW, _ = fused_backward(W, None, moved, found, torch.ones_like(H), settings, True)
    assert {t.device.type for t in (H, start, moved, fingerprint, dW)} == {"cuda"}
    assert not recorded.mixed
    assert not set(recorded.names) & set(WAITS)


@pytest.mark.parametrize("options", [{}, {"order": 3}, {"expansion": "minimax"}, {"gain": False}], ids=str)
def test_small_layers_together(options):
    """A training step on the meta device, and the mathematics of it on fake CUDA tensors."""
    layers = (nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 4))
    model, x = on_meta(lambda: nn.Sequential(*layers), options), torch.empty(5, 12, device="meta")
    with Recorded() as recorded:
        for _ in range(2):
            model(x).sum().backward()
    assert not recorded.mixed
    assert not set(recorded.names) & set(WAITS)
    assert recorded.names.count("bmm") > 0
    mode = FakeTensorMode()
    weights = [cuda(mode, torch.ones(shape)) for shape in ((6, 12), (4, 6))]
    states = [State(*(cuda(mode, torch.ones(len(W))) for _ in range(3))) for W in weights]
    settings = Settings(**{key: value for key, value in options.items() if key != "gain"})
    with mode, torch.no_grad(), Recorded() as recorded:
        mapped, kept, u, moved = several.forward(weights, None, states, settings)
        found, _ = several.backward(weights, None, mapped, u, kept, settings)
    assert {t.device.type for t in (*mapped, *found, *moved.u, *moved.start, *moved.fingerprint)} == {"cuda"}
    assert not recorded.mixed
    assert not set(recorded.names) & set(WAITS)


def fake_model(mode: FakeTensorMode) -> nn.Module:
    model = aon.normalise(nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8, 4)))
    for module in model.modules():
        for group in (module._parameters, module._buffers):
            for name, tensor in group.items():
                if tensor is not None:
                    fake = cuda(mode, tensor)
                    group[name] = nn.Parameter(fake, requires_grad=False) if group is module._parameters else fake
    return model


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")  # a real one has a pointer
def test_fake_cuda_tensors_through_layers():
    mode = FakeTensorMode()
    model, x = fake_model(mode), cuda(mode, torch.ones(2, 3, 3, 3))
    with mode, torch.no_grad(), Recorded() as recorded:
        outputs = [model.train()(x), model.eval()(x), model(x)]
    assert {out.device.type for out in outputs} == {"cuda"}
    assert not recorded.mixed
    assert not set(recorded.names) & set(WAITS)


class Answered(Recorded):
    """Reads of tensors without values give 1."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if str(function).startswith("aten._local_scalar_dense"):
            self.names.append("_local_scalar_dense")
            return 1.0
        if str(function).startswith("aten._to_copy") and (kwargs or {}).get("device") == torch.device("cpu"):
            return torch.ones(args[0].shape, dtype=args[0].dtype)  # tolist() reads the whole tensor
        return super().__torch_dispatch__(function, types, args, kwargs)


@each_layer
@each_map
def test_spectra_and_folding(make, shape, options):
    """They read values, but mix no devices."""
    layer = on_meta(make, options)
    with Answered() as recorded:
        rows = aon.spectra(layer).rows
        aon.fold(layer)
    assert len(rows) == 1
    assert "_local_scalar_dense" in recorded.names
    assert not recorded.mixed
    assert {parameter.device.type for parameter in layer.parameters()} == {"meta"}


# Calls of one map, forward and backward: on the CPU, and on any other device, where each is the launch of a kernel.
CALLS = {
    "wide": ((16, 64), {}, (16, 11), (33, 14)),
    "tall": ((64, 16), {}, (20, 10), (36, 15)),
    "aon0": ((16, 64), {"order": 0}, (24, 12), (24, 12)),
    "aon4": ((16, 64), {"order": 4}, (24, 28), (41, 32)),
    "minimax": ((16, 64), {"expansion": "minimax"}, (79, 32), (79, 32)),
}


@pytest.mark.parametrize(("shape", "options", "on_cpu", "elsewhere"), CALLS.values(), ids=CALLS)
def test_the_number_of_calls_of_a_map_does_not_grow(shape, options, on_cpu, elsewhere):
    peer = aon_peer(**{"order": 2, **options})
    for device, expected in (("cpu", on_cpu), ("meta", elsewhere)):
        there, back = count(peer, shape, torch.device(device))
        assert len(there) <= expected[0]
        assert len(back) <= expected[1]


def test_on_the_cpu_the_default_map_makes_fewer_calls_than_plain_autograd():
    plain = next(peer for peer in PEERS if peer.name == PLAIN)
    ours, theirs = (sum(map(len, count(peer, (16, 64), torch.device("cpu")))) for peer in (aon_peer(2), plain))
    assert ours < theirs


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_in_a_network_the_maps_make_a_fraction_of_the_calls_of_plain_autograd(device):
    plain = next(peer for peer in PEERS if peer.name == PLAIN)
    found, theirs = count_in_network(torch.device(device)), sum(map(len, count(plain, (16, 64), torch.device(device))))
    there, back = found[TOGETHER]
    assert there <= 7.3
    assert back <= 3.9
    assert there + back < sum(found[SEPARATE]) / 2
    assert there + back < theirs / 3
