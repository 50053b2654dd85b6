"""normalise and fold: what they change, what they refuse, and that a refusal changes nothing."""

import copy
import logging

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

import aon
from aon.kernels.settings import Settings
from aon.maps import AON, ONI, WeightMap, WeightNorm
from aon.model.layers import NormalisedLayer


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3, groups=6),
        nn.Flatten(), nn.Linear(54, 4),
    )  # fmt: skip


def images() -> torch.Tensor:
    return torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(0))


def taken(model: nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if isinstance(module, NormalisedLayer)]


def test_the_model_is_changed_in_place_and_returned():
    model = network()
    parameters = dict(model.named_parameters())
    assert aon.normalise(model) is model
    assert taken(model) == ["0", "5"]
    assert all(dict(model.named_parameters())[name] is p for name, p in parameters.items())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"exclude": "5"}, ["0"]),
        ({"include": nn.Linear}, ["5"]),
        ({"include": ["3", "5"]}, ["3", "5"]),
        ({"include": lambda name, module: name == "3"}, ["3"]),
        ({"exclude": [nn.Linear]}, ["0"]),
    ],
)
def test_words(words, expected):
    assert taken(aon.normalise(network(), **words)) == expected


def test_a_single_layer():
    layer = aon.normalise(nn.Linear(4, 3))
    assert isinstance(layer, nn.Linear)
    assert isinstance(layer, NormalisedLayer)


def test_a_depthwise_convolution_that_is_asked_for():
    layer = aon.normalise(nn.Conv2d(4, 4, 3, groups=4), include=lambda *_: True)
    norms = aon.normalised_weight(layer).flatten(1).norm(dim=1)
    torch.testing.assert_close(norms, torch.ones(4))


def test_options_reach_every_layer():
    model = aon.normalise(network(), 4, scale="frobenius", centre="mean", prescale=True, n_power_iterations=2, eps=1e-8)
    for name in taken(model):
        assert model.get_submodule(name).map.settings == Settings(4, "frobenius", "mean", True, 2, 1e-8)


def test_the_expansion_reaches_every_layer():
    model = aon.normalise(network(), 4, expansion="minimax", lower=0.1)
    for name in taken(model):
        assert model.get_submodule(name).map.settings == Settings(4, expansion="minimax", lower=0.1)


def test_another_map_is_copied_for_each_layer():
    prototype = WeightNorm()
    model = aon.normalise(network(), map=prototype)
    maps = [model[0].map, model[5].map]
    assert all(type(m) is WeightNorm for m in maps)
    assert len({id(m) for m in [prototype, *maps]}) == 3


def test_map_of_aon_equals_its_options():
    torch.manual_seed(0)
    model = network().eval()
    other = aon.normalise(copy.deepcopy(model), map=AON(3, centre="mean"))
    aon.normalise(model, 3, centre="mean")
    assert torch.equal(model(images()), other(images()))


def test_without_gain():
    model = aon.normalise(network(), gain=False)
    assert "0.gain" not in model.state_dict()
    assert model[0].gain is None


def test_with_gain():
    model = aon.normalise(network())
    assert torch.equal(model[0].gain, torch.ones(6))
    assert model[0].gain.requires_grad


@pytest.mark.parametrize("options", [{"order": 0}, {"order": 2}, {"scale": "frobenius"}, {"map": ONI()}])
def test_gain_that_matches_keeps_the_norm_of_every_row(options):
    torch.manual_seed(0)
    model = network()
    before = [model[i].weight.detach().flatten(1).norm(dim=1) for i in (0, 5)]
    aon.fold(aon.normalise(model, gain_init="match", **options))
    for i, norms in zip((0, 5), before, strict=True):
        torch.testing.assert_close(model[i].weight.flatten(1).norm(dim=1), norms)


def test_a_trained_model_survives_conversion_that_matches():
    """Rows that are orthogonal already come back as they were: nothing to flatten, and the norms are restored."""
    layer = nn.Linear(8, 4)
    with torch.no_grad():
        layer.weight.copy_(torch.linalg.qr(torch.randn(8, 4))[0].T * 0.9)
    x = torch.randn(5, 8)
    expected = layer(x)
    torch.testing.assert_close(aon.normalise(layer, gain_init="match")(x), expected, atol=1e-5, rtol=0)


def test_what_was_done_is_logged(caplog):
    with caplog.at_level(logging.INFO, logger="aon"):
        aon.normalise(network(), exclude="5")
    assert "normalised 1 layers, left 2" in caplog.text
    assert "excluded" in caplog.text
    assert "depthwise" in caplog.text


REFUSED = {
    "order": ({"order": -1}, r"order=-1: expected a whole number, 0 or more"),
    "scale": ({"scale": "nuclear"}, r"scale='nuclear': expected one of 'spectral', 'frobenius', None"),
    "gain": ({"gain": "yes"}, r"gain='yes': expected True or False"),
    "gain_init": ({"gain_init": "zeros"}, r"gain_init='zeros': expected one of 'ones', 'match'"),
    "no gain to start": ({"gain": False, "gain_init": "match"}, r"gain_init='match' was given with gain=False"),
    "map with options": ({"map": WeightNorm(), "order": 4}, r"was given with options of AON"),
    "name": ({"include": "fc"}, r"no module of the model is called 'fc'"),
    "nothing left": ({"exclude": "*"}, r"nothing to normalise: 0: excluded; 3: excluded; 5: excluded"),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_changes_nothing(options, message):
    model = network()
    with pytest.raises(ValueError, match=message):
        aon.normalise(model, **options)
    assert taken(model) == []
    assert model.state_dict().keys() == network().state_dict().keys()


@pytest.mark.parametrize("wrong", [WeightNorm, "wn", nn.Linear(2, 2)])
def test_a_map_that_is_none(wrong):
    model = network()
    with pytest.raises(TypeError, match=r"map=.*: expected a weight map such as aon.maps.WeightNorm\(\), not a"):
        aon.normalise(model, map=wrong)
    assert taken(model) == []


def test_lazy_layers_are_refused_by_name_with_what_to_do():
    model = nn.Sequential(nn.Linear(4, 4), nn.LazyLinear(3))
    with pytest.raises(ValueError, match=r"cannot normalise '1' \(LazyLinear\): lazy, .* run one batch .* first"):
        aon.normalise(model)
    assert taken(model) == []
    model(torch.ones(1, 4))
    assert taken(aon.normalise(model)) == ["0", "1"]


def test_lazy_layers_may_be_excluded():
    assert taken(aon.normalise(nn.Sequential(nn.Linear(4, 4), nn.LazyLinear(3)), exclude=nn.LazyLinear)) == ["0"]


def test_a_layer_that_is_named_and_cannot_be_normalised():
    model = nn.Sequential(nn.Linear(4, 4), parametrizations.spectral_norm(nn.Linear(4, 4)))
    with pytest.raises(ValueError, match=r"cannot normalise '1' .*: its weight is computed by another parametrisation"):
        aon.normalise(model, include=["0", "1"])
    assert taken(model) == []
    assert taken(aon.normalise(model)) == ["0"]


def test_a_predicate_leaves_what_cannot_be_normalised():
    model = nn.TransformerEncoderLayer(8, 2, 16)
    with pytest.warns(UserWarning, match=r"left 1 weight as they are: self_attn\.out_proj"):
        aon.normalise(model, include=lambda name, module: isinstance(module, nn.Linear))
    assert taken(model) == ["linear1", "linear2"]


def test_twice_is_refused():
    model = aon.normalise(network())
    with pytest.raises(ValueError, match=r"nothing to normalise: 0: normalised already; fold it first"):
        aon.normalise(model, exclude="3")


def test_a_model_without_layers():
    with pytest.raises(ValueError, match=r"nothing to normalise: the model has no Linear or convolution"):
        aon.normalise(nn.Sequential(nn.ReLU()))


def test_fold_then_normalise_again():
    model = aon.fold(aon.normalise(network()))
    assert taken(aon.normalise(model)) == ["0", "5"]


def test_normalised_weight_is_h_without_the_gain_and_differentiable():
    layer = aon.normalise(nn.Linear(6, 4))
    with torch.no_grad():
        layer.gain.fill_(3)
    H = aon.normalised_weight(layer)
    assert torch.linalg.matrix_norm(H, 2).item() == pytest.approx(1, abs=1e-2)
    H.square().sum().backward()
    assert layer.weight.grad.abs().sum() > 0


def test_normalised_weight_of_a_plain_layer():
    with pytest.raises(TypeError, match=r"Linear is not a normalised layer: expected one changed by aon.normalise"):
        aon.normalised_weight(nn.Linear(2, 2))


def test_the_global_random_stream_is_not_touched():
    """A seeded run draws the same numbers with AON as without."""
    model, plain = network(), network().state_dict()
    before = torch.get_rng_state()
    for options in ({}, {"order": 0}, {"gain_init": "match"}, {"map": ONI()}):
        aon.normalise(model, **options)
        model(images()).sum().backward()
        aon.spectra(model)
        model.load_state_dict(plain)
        aon.fold(copy.deepcopy(model).eval())
        aon.fold(model)
    assert torch.equal(torch.get_rng_state(), before)


def test_torchs_own_parametrisation_does_touch_it():
    """The guard of the test above."""
    layer = nn.Linear(4, 4)
    before = torch.get_rng_state()
    parametrizations.spectral_norm(layer)
    assert not torch.equal(torch.get_rng_state(), before)


def test_two_conversions_start_alike():
    """No stream at all: all ranks agree, whatever their seed."""
    torch.manual_seed(0)
    a = network()
    b = copy.deepcopy(a)
    aon.normalise(a)
    torch.manual_seed(99)
    aon.normalise(b)
    assert torch.equal(a[0].map.u, b[0].map.u)
    assert torch.equal(a(images()), b(images()))


def test_the_gain_of_a_frozen_layer_is_frozen():
    layer = nn.Linear(3, 2).requires_grad_(False)
    assert not aon.normalise(layer).gain.requires_grad
    assert aon.normalise(nn.Linear(3, 2)).gain.requires_grad


def test_a_model_in_ddp_is_refused(tmp_path):
    """DDP has listed the parameters: gains that are added later are never synchronised."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        wrapped = nn.parallel.DistributedDataParallel(network())
        for model in (wrapped, nn.Sequential(wrapped)):
            with pytest.raises(ValueError, match="normalise first, then wrap it"):
                aon.normalise(model)
        assert not taken(wrapped.module)
    finally:
        torch.distributed.destroy_process_group()


class Refusing(WeightMap):
    """A map that fails for the second layer."""

    def attach(self, W: torch.Tensor) -> None:
        if W.shape[0] == 2:
            raise RuntimeError("not this one")

    def forward(self, W: torch.Tensor, gain: torch.Tensor | None = None) -> torch.Tensor:
        return W


def test_a_map_that_raises_leaves_the_model_as_it_was():
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    keys = list(model.state_dict())
    with pytest.raises(RuntimeError, match="not this one"):
        aon.normalise(model, map=Refusing())
    assert not taken(model)
    assert list(model.state_dict()) == keys
    assert type(model[0]) is nn.Linear


@pytest.mark.filterwarnings("error")
def test_a_warning_that_is_an_error_leaves_the_model_as_it_was():
    model = nn.Sequential(nn.LSTM(4, 3), nn.Linear(3, 2))
    with pytest.raises(UserWarning, match="left 1 weight"):
        aon.normalise(model)
    assert not taken(model)


@pytest.mark.parametrize("options", [{}, {"order": 0}, {"order": 1}, {"map": WeightNorm()}, {"gain_init": "match"}])
def test_the_default_device_is_not_that_of_the_weight(options):
    """State lies beside the weight; seen with meta, which holds no numbers at all."""
    layer, x = nn.Linear(4, 3), torch.randn(2, 4)
    expected = aon.normalise(copy.deepcopy(layer), **options)(x)
    torch.set_default_device("meta")
    try:
        aon.normalise(layer, **options)
        out = layer(x)
        layer.eval()
        with torch.no_grad():
            layer(x)
        aon.penalties.spectral_norm(layer)
        aon.spectra(layer)
    finally:
        torch.set_default_device(None)
    assert {t.device.type for t in (*layer.parameters(), *layer.buffers())} == {"cpu"}
    assert torch.equal(out, expected)


@pytest.mark.parametrize("order", [1, 3])
def test_odd_orders_start_with_the_right_sigma(order):
    """f of odd order falls beyond 1, where a tall weight has its largest singular values: u is that of P_q(W) W."""
    torch.manual_seed(0)
    layer = aon.normalise(nn.Linear(64, 256), order)
    norm = torch.linalg.matrix_norm(aon.normalised_weight(layer), 2)
    assert 0.99 < norm < 1.02  # 1.006 and 1.000; 5.9 from a u that was warmed up on W


def test_refresh_after_reinitialisation():
    torch.manual_seed(0)
    layer = aon.normalise(nn.Linear(64, 64), 0)
    nn.init.kaiming_normal_(layer.weight)
    gain = layer.gain.detach().clone().mul_(2)
    layer.gain.data.copy_(gain)
    stale = torch.linalg.matrix_norm(aon.normalised_weight(layer), 2)
    assert aon.refresh(layer) is layer
    fresh = torch.linalg.matrix_norm(aon.normalised_weight(layer), 2)
    assert stale > 1.2
    assert fresh < 1.02
    assert torch.equal(layer.gain, gain)
