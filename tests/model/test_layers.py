"""Normalised layers: classes, partial checkpoints, the choice of the cheaper form, memory formats."""

import copy
import inspect
import sys

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn import functional
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import aon
from aon.model.classes import NORMALISED, PLAIN
from aon.model.layers import NormalisedLayer
from aon.model.matrices import SUPPORTED


def test_every_supported_layer_has_a_class_of_its_own():
    assert set(NORMALISED) == {*SUPPORTED, nn.MultiheadAttention, NonDynamicallyQuantizableLinear}
    assert {ours: theirs for theirs, ours in NORMALISED.items()} == PLAIN
    for theirs, ours in NORMALISED.items():
        assert issubclass(ours, theirs)
        assert issubclass(ours, NormalisedLayer)


def test_classes_are_static():
    """pickle finds them by name: none is made at run time."""
    for ours in PLAIN:
        assert getattr(sys.modules[ours.__module__], ours.__name__) is ours


def test_repr_shows_layer_and_map():
    assert repr(aon.normalise(nn.Linear(3, 2))) == (
        "NormalisedLinear(\n  in_features=3, out_features=2, bias=True\n  (map): AON(order=2)\n)"
    )


def test_forward_takes_what_torchs_takes():
    for theirs, ours in NORMALISED.items():
        mine, its = (list(inspect.signature(c.forward).parameters) for c in (ours, theirs))
        assert mine == its


def test_output_size_of_transposed_convolutions():
    layer = aon.normalise(nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1))
    x = torch.randn(1, 3, 5, 5)
    assert layer(x).shape[-2:] == (9, 9)
    assert layer(x, output_size=[10, 10]).shape[-2:] == (10, 10)
    with torch.no_grad():
        assert layer.eval()(x, output_size=(10, 9)).shape[-2:] == (10, 9)


@pytest.mark.parametrize(
    "make", [lambda: nn.Conv2d(8, 4, 3, padding=1), lambda: nn.ConvTranspose2d(8, 4, 3, padding=1)]
)
@pytest.mark.parametrize("order", [0, 2])
def test_channels_last(make, order):
    torch.manual_seed(0)
    layer, x = aon.normalise(make(), order), torch.randn(2, 8, 5, 5)
    other = copy.deepcopy(layer).to(memory_format=torch.channels_last)
    x_last = x.to(memory_format=torch.channels_last)
    out = other(x_last)
    assert out.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(out, layer(x), atol=1e-5, rtol=0)
    with torch.no_grad():
        before = other.eval()(x_last)
        assert torch.equal(other(x_last), before)
        other.weight.data[0, 0, 1, 1] += 1
        assert not torch.equal(other(x_last), before)


def test_vector_to_parameters_is_seen_in_evaluation():
    layer, x = aon.normalise(nn.Linear(4, 3)).eval(), torch.randn(2, 4)
    with torch.no_grad():
        before = layer(x)
        vector_to_parameters(parameters_to_vector(layer.parameters()) + torch.linspace(0, 1, 18), layer.parameters())
        assert not torch.equal(layer(x), before)


def trained(options: dict[str, object]) -> nn.Module:
    torch.manual_seed(0)
    model = aon.normalise(nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3)), **options)
    model(torch.randn(2, 5)).sum().backward()
    return model


@pytest.mark.parametrize("order", [0, 2])
def test_a_checkpoint_without_the_maps_state_is_reported(order):
    """Neither plain nor whole: to take it in silence would pair a new W with an old u."""
    model = trained({"order": order})
    part = {key: value for key, value in model.state_dict().items() if ".map." not in key}
    lost = [f"{i}.map.{name}" for i in (0, 1) for name in ("u", "previous", "seen")]
    assert sorted(model.load_state_dict(part, strict=False).missing_keys) == sorted(lost)
    with pytest.raises(RuntimeError, match=r"Missing key\(s\) in state_dict: .*0\.map\.u"):
        model.load_state_dict(part)


def test_a_checkpoint_without_the_gain_is_reported():
    model = trained({})
    part = {key: value for key, value in model.state_dict().items() if not key.endswith("gain")}
    with pytest.raises(RuntimeError, match=r"Missing key\(s\) in state_dict: .*0\.gain"):
        model.load_state_dict(part)


def test_a_checkpoint_of_another_map_is_reported():
    model = trained({"gain": False})
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\) in state_dict: .*0\.map\.u"):
        trained({"map": aon.maps.WeightNorm(), "gain": False}).load_state_dict(model.state_dict())


def test_a_checkpoint_with_nothing_for_a_layer_reports_its_weight():
    model = trained({})
    part = {key: value for key, value in model.state_dict().items() if key.startswith("1.")}
    before = {key: value.clone() for key, value in model.state_dict().items()}
    missing = model.load_state_dict(part, strict=False).missing_keys
    assert {"0.weight", "0.bias", "0.gain", "0.map.u"} <= set(missing)
    assert all(torch.equal(v.nan_to_num(), before[k].nan_to_num()) for k, v in model.state_dict().items())


def test_a_plain_checkpoint_of_part_of_the_model():
    """Layer 0 comes from a plain model, layer 1 stays as it is."""
    model, plain = trained({}), nn.Linear(5, 4)
    kept = model[1].map.u.clone()
    model.load_state_dict({f"0.{key}": value for key, value in plain.state_dict().items()}, strict=False)
    expected = aon.normalise(plain)
    assert torch.equal(model[0].map.u, expected.map.u)
    assert torch.equal(model[1].map.u, kept)


def test_a_plain_checkpoint_starts_a_gain_that_matches():
    plain = nn.Linear(5, 4)
    layer = aon.normalise(nn.Linear(5, 4), gain_init="match")
    layer.load_state_dict(plain.state_dict())
    rows = (aon.normalised_weight(layer) * layer.gain[:, None]).norm(dim=1)
    torch.testing.assert_close(rows, plain.weight.norm(dim=1))


def test_a_plain_checkpoint_by_assignment():
    plain, x = nn.Linear(5, 4), torch.randn(2, 5)
    layer = aon.normalise(nn.Linear(5, 4)).eval()
    layer.load_state_dict(plain.state_dict(), assign=True)
    assert torch.equal(layer(x), aon.normalise(copy.deepcopy(plain)).eval()(x))


def test_checkpoints_between_precisions():
    single, half = trained({}), trained({}).half()
    half.load_state_dict(single.state_dict())
    assert half[0].map.u.dtype == torch.float32
    single.load_state_dict(half.state_dict())
    assert single[0].weight.dtype == torch.float32


def test_a_frozen_layer_in_training():
    layer = aon.normalise(nn.Linear(5, 4)).requires_grad_(False)
    x = torch.randn(2, 5, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad.abs().sum() > 0
    assert layer.weight.grad is None


def test_only_the_gain_is_trained():
    layer = aon.normalise(nn.Linear(5, 4))
    layer.weight.requires_grad_(False)
    layer(torch.randn(2, 5)).sum().backward()
    assert layer.weight.grad is None
    assert layer.gain.grad.abs().sum() > 0


@pytest.mark.parametrize("batch", [0, 1])
def test_empty_and_single_batches(batch):
    layer = aon.normalise(nn.Linear(5, 4))
    out = layer(torch.ones(batch, 5))
    assert out.shape == (batch, 4)
    out.sum().backward()
    assert layer.weight.grad.isfinite().all()
    with torch.no_grad():
        assert layer.eval()(torch.ones(batch, 5)).shape == (batch, 4)


@pytest.mark.parametrize("shape", [(0, 3, 4, 4), (0, 3, 1, 9)])
def test_empty_images(shape):
    layer = aon.normalise(nn.Conv2d(3, 4, 3, padding=1))
    assert layer(torch.ones(shape)).shape == (shape[0], 4, *shape[2:])


def test_evaluation_in_inference_mode_then_training():
    """What was stored in inference mode must not enter a graph."""
    layer, x = aon.normalise(nn.Linear(5, 4)).eval(), torch.randn(2, 5)
    with torch.inference_mode():
        layer(x)
    layer(x.requires_grad_()).sum().backward()
    layer.requires_grad_(False)
    layer(x).sum().backward()
    layer.requires_grad_(True).train()(x).sum().backward()
    assert x.grad.isfinite().all()


def test_a_model_made_in_inference_mode():
    with torch.inference_mode():
        layer = aon.normalise(nn.Linear(5, 4)).eval()
        x = torch.randn(2, 5)
        assert torch.equal(layer(x), layer(x))


def test_wrong_inputs_get_torchs_own_errors():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        aon.normalise(nn.Linear(5, 4))(torch.ones(2, 6))
    with pytest.raises(RuntimeError, match="expected input"):
        aon.normalise(nn.Conv2d(3, 4, 3))(torch.ones(2, 2, 5, 5))


@pytest.mark.filterwarnings("ignore:.torch.jit.* is deprecated:DeprecationWarning")
@pytest.mark.parametrize("make", [lambda: nn.Linear(4, 4), lambda: nn.MultiheadAttention(4, 2)], ids=["linear", "mha"])
@pytest.mark.parametrize("training", [True, False])
def test_tracers_are_refused_in_one_line(make, training):
    layer = aon.normalise(make()).train(training)
    x = [torch.randn(3, 4)] * (1 if isinstance(layer, nn.Linear) else 3)
    with pytest.raises(RuntimeError, match=r"cannot record a normalised layer: fold a copy first"):
        torch.jit.trace(layer, tuple(x))
    for record in (torch.fx.symbolic_trace, torch.jit.script):
        with pytest.raises(RuntimeError, match=r"^torch.jit and torch.fx cannot record a normalised layer"):
            record(layer)


def test_a_folded_copy_can_be_traced():
    folded, x = aon.fold(aon.normalise(nn.Linear(4, 4))), torch.randn(3, 4)
    assert torch.equal(torch.fx.symbolic_trace(folded)(x), folded(x))


FORWARD_MODE = pytest.mark.filterwarnings("ignore:.torch.jit.* is deprecated:DeprecationWarning")


def evaluated(options: dict[str, object]) -> tuple[nn.Module, torch.Tensor]:
    """A layer whose weight for evaluation is stored already."""
    torch.manual_seed(0)
    layer, x = aon.normalise(nn.Linear(5, 4), **options).eval(), torch.randn(2, 5)
    with torch.no_grad():
        layer(x)
    return layer, x


@FORWARD_MODE
def test_forward_mode_in_evaluation_has_a_tangent_or_an_error():
    """A stored weight would have none, without a word."""

    def tangent(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with forward_ad.dual_level(), torch.no_grad():
            W = forward_ad.make_dual(layer.weight.detach(), torch.ones_like(layer.weight))
            return forward_ad.unpack_dual(functional_call(layer, {"weight": W}, (x,))).tangent

    layer, x = evaluated({"map": aon.maps.WeightNorm()})
    W = layer.weight.detach()
    expected = (functional.normalize(W + 1e-3) - functional.normalize(W - 1e-3)) / 2e-3
    torch.testing.assert_close(tangent(layer, x), x @ expected.T, atol=1e-3, rtol=0)
    with pytest.raises(NotImplementedError, match="forward mode AD"):
        tangent(*evaluated({}))


@FORWARD_MODE
def test_forward_mode_through_the_input_in_evaluation():
    layer, x = evaluated({})
    with forward_ad.dual_level(), torch.no_grad():
        out = forward_ad.unpack_dual(layer(forward_ad.make_dual(x, torch.ones_like(x))))
        torch.testing.assert_close(out.tangent, layer(torch.ones_like(x)) - layer.bias)


def test_vmap_in_evaluation_does_not_depend_on_what_ran_before():
    (layer, x), (other, _) = evaluated({"map": aon.maps.WeightNorm()}), evaluated({})
    W = torch.stack([layer.weight.detach(), torch.randn(4, 5)])
    with torch.no_grad():
        out = torch.func.vmap(lambda w: functional_call(layer, {"weight": w}, (x,)))(W)
        for mine, w in zip(out, W, strict=True):
            torch.testing.assert_close(mine, functional_call(layer, {"weight": w}, (x,)))
        with pytest.raises(RuntimeError, match="You tried to vmap over Normalise"):
            torch.func.vmap(lambda w: functional_call(other, {"weight": w}, (x,)))(W)


@pytest.mark.parametrize("make", [lambda: nn.Linear(64, 64), lambda: nn.Conv2d(8, 64, 3)], ids=["linear", "conv"])
def test_resetting_a_layer_starts_its_map_and_gain_anew(make):
    torch.manual_seed(0)
    layer = aon.normalise(make(), 0)
    layer.gain.data.mul_(3)
    layer.reset_parameters()
    assert torch.linalg.matrix_norm(aon.normalised_weight(layer).flatten(1), 2) < 1.02  # 1.2 and more from the old u
    assert torch.equal(layer.gain, torch.ones(64))
    assert not hasattr(aon.normalise(nn.MultiheadAttention(4, 2)), "reset_parameters")
