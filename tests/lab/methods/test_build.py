"""Methods: what each part does to a model and its loss, and that all combinations train."""

import copy
import inspect
import math
import warnings
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.versions import follows_maps
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import aon
from aon import bounding, penalties
from aon.kernels.settings import Settings
from aon.lab import models
from aon.lab.errors import LabError
from aon.lab.methods.build import Prepared, ingredients_of, prepare
from aon.lab.methods.grammar import parse
from aon.lab.methods.vocabulary import NOTHING, VOCABULARY
from aon.lab.models import Ingredients
from aon.lab.models.ingredients import ImageClassifier, Unit
from aon.maps import AON, ONI, CentredWeightNorm, Polar, WeightNorm
from aon.model.layers import NormalisedLayer
from aon.renorm import BatchRenorm
from aon.whitening import DecorrelatedBatchNorm, IterNorm


def words(family: str) -> list[str]:
    return [word.name for word in VOCABULARY.values() if word.family == family]


NORMS, MAPS, PENALTIES = words("norm"), words("map"), words("penalty")
NETWORK, WIDTH, CLASSES = "resnet20", 1 / 4, 5
# Without the deep ones, which have the blocks of resnet20, and those that do not take every normaliser.
NETWORKS = [name for name in models.names() if name not in ("resnet56", "resnet110", "mlp", "vit")]


def prepared(name: str, network: str = NETWORK, *, width: float = WIDTH, include_classifier: bool = False) -> Prepared:
    def make(ingredients: Ingredients) -> nn.Module:
        return models.build(network, classes=CLASSES, width=width, ingredients=ingredients)

    torch.manual_seed(0)
    return prepare(parse(name), make, include_classifier=include_classifier)


def images(count: int = 8) -> tuple[Tensor, Tensor]:
    stream = torch.Generator().manual_seed(1)
    return torch.randn(count, 3, 16, 16, generator=stream), torch.arange(count) % CLASSES


def steps(made: Prepared, count: int = 3) -> list[float]:
    """Losses of a few training steps, as the laboratory's loop takes them."""
    optimiser = torch.optim.SGD(made.model.parameters(), lr=0.05, momentum=0.9, weight_decay=made.weight_decay)
    x, y = images()
    losses = []
    for _ in range(count):
        loss = cross_entropy(made.model(x), y) + (made.penalty() if made.penalty else 0.0)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if made.after_epoch:
            made.after_epoch()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", VOCABULARY)
def test_every_word_alone_trains(name: str) -> None:
    made = prepared(name)
    losses = steps(made, 6)
    assert all(math.isfinite(loss) for loss in losses)
    made.model.eval()
    assert made.model(images()[0]).isfinite().all()


@pytest.mark.parametrize("weight_map", MAPS)
@pytest.mark.parametrize("norm", NORMS)
def test_every_normaliser_goes_with_every_map_and_a_penalty(norm: str, weight_map: str) -> None:
    made = prepared(f"{norm}+{weight_map}+orth")
    assert all(math.isfinite(loss) for loss in steps(made, 2))
    for key, parameter in made.model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key


@settings(max_examples=10, deadline=None)
@given(
    norm=st.sampled_from(NORMS),
    weight_map=st.sampled_from(["", *MAPS]),
    chosen=st.lists(st.sampled_from(PENALTIES), unique=True),
    rest=st.lists(st.sampled_from(["selu", "svb", "dropout"]), unique=True),
    network=st.sampled_from(NETWORKS),
)
def test_any_combination_on_any_network(
    norm: str, weight_map: str, chosen: list[str], rest: list[str], network: str
) -> None:
    name = "+".join([word for word in (norm, weight_map) if word] + chosen + rest)
    made = prepared(name, network, width=1 / 32)
    x = torch.randn(3, 3, 32, 32)
    (made.model(x).square().sum() + (made.penalty() if made.penalty else 0.0)).backward()
    if made.after_epoch:
        made.after_epoch()
    assert made.model.eval()(x).isfinite().all()


@pytest.mark.parametrize(
    ("network", "norm"), [("vit", "ln"), ("vit", "none"), *(("mlp", norm) for norm in NORMS if norm != "in")]
)
@pytest.mark.parametrize("rest", ["aon", "polar+orth", "cwn+svb", "oni+selu+dropout"])
def test_methods_on_networks_of_linear_layers(network: str, norm: str, rest: str) -> None:
    made = prepared(f"{norm}+{rest}", network, width=1 / 16)
    x = torch.randn(8, 3, 32, 32)
    (made.model(x).square().sum() + (made.penalty() if made.penalty else 0.0)).backward()
    if made.after_epoch:
        made.after_epoch()
    assert made.model.eval()(x).isfinite().all()
    mapped = sum(isinstance(layer, NormalisedLayer) for layer in made.model.modules())
    assert mapped == {"vit": 37, "mlp": 8}[network]


def test_layer_normalisation_of_tokens_has_the_method_s_eps() -> None:
    norms = [m for m in prepared("ln:eps=0.1", "vit", width=1 / 16).model.modules() if isinstance(m, nn.LayerNorm)]
    assert [norm.eps for norm in norms] == [0.1] * 13


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bn", nn.BatchNorm2d),
        ("ln", nn.GroupNorm),
        ("in", nn.InstanceNorm2d),
        ("gn", nn.GroupNorm),
        ("brn", BatchRenorm),
        ("dbn", DecorrelatedBatchNorm),
        ("iternorm", IterNorm),
        ("none", nn.Identity),
    ],
)
def test_each_normaliser_is_the_layer_it_should_be(name: str, kind: type[nn.Module]) -> None:
    ingredients = ingredients_of(parse(name))
    assert type(ingredients.norm(8)) is kind
    assert ingredients.normalises == (name != NOTHING)


def test_layer_and_instance_normalisation_are_what_they_are_called() -> None:
    x = torch.randn(2, 6, 4, 4)
    layer = ingredients_of(parse("ln")).norm(6)
    torch.testing.assert_close(layer(x), nn.functional.layer_norm(x, (6, 4, 4)))
    instance = ingredients_of(parse("in")).norm(6)
    torch.testing.assert_close(instance(x), nn.functional.instance_norm(x))
    assert [parameter.shape for parameter in instance.parameters()] == [(6,), (6,)]


@pytest.mark.parametrize(
    ("name", "channels", "groups"),
    [
        ("iternorm", 48, 1),
        ("iternorm:groups=4", 48, 4),
        ("iternorm:groups=4", 6, 3),
        ("dbn", 48, 3),
        ("dbn", 6, 1),
        ("dbn", 24, 2),
        ("dbn:size=5", 12, 3),
        ("dbn:size=512", 64, 1),
    ],
)
def test_groups_and_sizes_are_lowered_until_they_divide_the_channels(name: str, channels: int, groups: int) -> None:
    layer = ingredients_of(parse(name)).norm(channels)
    assert isinstance(layer, IterNorm | DecorrelatedBatchNorm)
    assert layer.num_groups == groups


def test_options_reach_the_normalisers() -> None:
    layer = ingredients_of(parse("iternorm:groups=2:iterations=7:eps=0.01:momentum=0.3")).norm(8)
    assert isinstance(layer, IterNorm)
    assert (layer.num_groups, layer.eps, layer.momentum, layer.n_iterations) == (2, 0.01, 0.3, 7)
    layer = ingredients_of(parse("brn:r_max=2:d_max=1:warm_up=10:momentum=0.2")).norm(8)
    assert isinstance(layer, BatchRenorm)
    assert (layer.r_max, layer.d_max, layer.momentum) == (2.0, 1.0, 0.2)
    assert (layer.warm_up, layer.d_ramp_end, layer.r_ramp_end) == (10, 50, 80)
    assert ingredients_of(parse("bn:eps=0.1")).norm(3).eps == 0.1
    assert ingredients_of(parse("gn:groups=3")).norm(6).num_groups == 3


@pytest.mark.parametrize(
    ("name", "kind"),
    [("aon", AON), ("sn", AON), ("wn", WeightNorm), ("cwn", CentredWeightNorm), ("polar", Polar), ("oni", ONI)],
)
def test_maps_act_on_convolutions_and_leave_the_classifier_plain(name: str, kind: type[nn.Module]) -> None:
    model = prepared(f"bn+{name}").model
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    assert len(layers) == 19
    assert all(isinstance(layer, NormalisedLayer) and type(layer.map) is kind for layer in layers)
    assert type(model.classifier) is nn.Linear


def test_the_classifier_is_included_on_request() -> None:
    model = prepared("bn+aon", include_classifier=True).model
    assert isinstance(model.classifier, NormalisedLayer)
    plain, whole = (prepared("bn+orth", include_classifier=choice).penalty for choice in (False, True))
    assert plain is not None
    assert whole is not None
    assert whole() > plain()


def test_options_reach_the_maps() -> None:
    model = prepared("bn+aon:order=4:centre=mean:scale=frobenius:prescale=on:iterations=3").model
    settings = next(layer.map.settings for layer in model.modules() if isinstance(layer, NormalisedLayer))
    assert settings == Settings(4, "frobenius", "mean", True, 3)
    assert first_map("bn+aon:scale=none").settings.scale is None
    assert first_map("bn+aon:centre=top").settings == Settings(centre="top")
    given = first_map("bn+aon:order=4:expansion=minimax:lower=0.1").settings
    assert given == Settings(4, expansion="minimax", lower=0.1)
    assert first_map("bn+sn:iterations=2").settings == Settings(0, n_power_iterations=2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("aon:order=0:expansion=minimax", "aon:order=0:expansion=minimax: order=0: expected 1 or more"),
        ("aon:order=24:expansion=minimax", "order=24 with lower=0.2: float32 would be wrong by"),
    ],
)
def test_orders_that_the_minimax_polynomial_does_not_have(name: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        prepared(name)
    assert first_map("bn+cwn:magnitude=2").magnitude == 2.0
    assert (first_map("bn+oni:iterations=9:centre=on").iterations, first_map("bn+oni:centre=on").centre) == (9, True)


def first_map(name: str):  # type: ignore[no-untyped-def]
    return next(layer.map for layer in prepared(name).model.modules() if isinstance(layer, NormalisedLayer))


@pytest.mark.parametrize(("name", "gains"), [("bn+aon", 0), ("bn+aon:gain=on", 19), ("aon", 19), ("aon:gain=off", 0)])
def test_a_gain_is_learnt_only_where_nothing_removes_it(name: str, gains: int) -> None:
    model = prepared(name).model
    assert sum(key.endswith("gain") for key, _ in model.named_parameters()) == gains


@pytest.mark.parametrize(
    ("name", "gain"),
    [
        ("bn+aon", True),
        ("brn+polar", True),
        ("in+wn", True),
        ("iternorm+aon", True),
        ("bn+aon:gain=on", True),
        ("aon:gain=off", False),
        ("iternorm+aon:gain=off", False),
    ],
)
def test_an_included_classifier_has_a_gain_unless_the_name_says_otherwise(name: str, gain: bool) -> None:
    model = prepared(name, include_classifier=True).model
    assert isinstance(model.classifier, NormalisedLayer)
    assert ("classifier.gain" in dict(model.named_parameters())) is gain
    assert not any("classifier.gain" in key for key, _ in prepared(name).model.named_parameters())


def test_the_gain_of_the_classifier_starts_at_one_and_is_learnt() -> None:
    made = prepared("bn+aon", include_classifier=True)
    others = [key for key, _ in made.model.named_parameters() if key.endswith("gain") and "classifier" not in key]
    gain = made.model.get_parameter("classifier.gain")
    assert others == []
    assert torch.equal(gain, torch.ones(CLASSES))
    steps(made, 3)
    assert not torch.equal(gain, torch.ones(CLASSES))
    x, _ = images()
    before = made.model.eval()(x)
    torch.testing.assert_close(aon.fold(made.model)(x), before, rtol=1e-4, atol=1e-5)


def test_a_network_that_is_a_classifier_only_has_a_gain_too() -> None:
    model = prepare(parse("bn+aon"), lambda _: nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), include_classifier=True)
    assert torch.equal(model.model.get_parameter("1.gain"), torch.ones(2))


def test_two_names_of_one_method_give_the_same_losses() -> None:
    for one, other in (
        ("aon:order=0", "aon:order=0:centre=mean"),
        ("aon:order=0", "aon:order=0:prescale=on"),
        ("aon:centre=top", "aon:centre=top:prescale=on"),
        ("aon:scale=frobenius", "aon:scale=frobenius:iterations=3"),
        ("ln:eps=0.001+aon", "gn:groups=1:eps=0.001+aon"),
    ):
        assert parse(one).effective == parse(other).effective
        assert steps(prepared(one)) == steps(prepared(other))


@pytest.mark.parametrize(
    ("name", "removed"),
    [
        ("bn", True),
        ("brn:warm_up=0:momentum=1", True),
        ("in", True),
        ("ln", False),
        ("gn:groups=2", False),
        ("iternorm", False),
        ("dbn", False),
    ],
)
def test_a_scale_of_each_channel_is_removed_by_these_normalisers_and_not_by_those(name: str, removed: bool) -> None:
    stream = torch.Generator().manual_seed(3)
    mixing = torch.randn(6, 6, generator=stream)
    x, *earlier = (torch.randn(16, 6, 8, 8, generator=stream).mul(3).transpose(1, 3) @ mixing for _ in range(3))
    scale = torch.tensor([0.5, 2.0, 1.0, 3.0, 1.5, 0.7])

    def output(factor: Tensor | float) -> Tensor:
        layer = ingredients_of(parse(name)).norm(6)
        for batch in earlier:  # batch renormalisation corrects by its averages, which see the scale as well
            layer((batch * factor).transpose(1, 3))
        return layer((x * factor).transpose(1, 3))

    change = (output(scale) - output(1.0)).norm() / output(1.0).norm()
    assert change < 1e-4 if removed else change > 0.1
    assert parse(f"{name}+aon").gain is not removed


def test_batch_normalisation_removes_a_gain_so_leaving_it_out_changes_nothing() -> None:
    x, _ = images()
    one, other = prepared("bn+aon").model, prepared("bn+aon:gain=on").model
    for key, parameter in other.named_parameters():
        if key.endswith("gain"):
            nn.init.constant_(parameter, 3.0)
    torch.testing.assert_close(one(x), other(x), rtol=1e-2, atol=1e-4)  # the eps of BN remains


def test_spectral_normalisation_is_aon_of_order_0() -> None:
    assert parse("bn+sn") == parse("bn+aon:order=0")
    assert first_map("bn+sn").settings.order == 0


@pytest.mark.parametrize("include_classifier", [False, True])
@pytest.mark.parametrize("name", ["bn+aon", "bn+orth", "bn+cwn", "bn+svb", "gn+aon", "bn+polar"])
def test_methods_start_from_the_same_weights(name: str, include_classifier: bool) -> None:
    plain, changed = prepared("bn").model, prepared(name, include_classifier=include_classifier).model
    for key, parameter in plain.named_parameters():
        torch.testing.assert_close(changed.get_parameter(key), parameter, rtol=0, atol=0)


LIBRARY: dict[str, Callable[..., Tensor]] = {
    "orth": penalties.orthonormal,
    "dso": penalties.double_sided,
    "mc": penalties.mutual_coherence,
    "srip": penalties.restricted_isometry,
    "snr": penalties.spectral_norm,
}


@pytest.mark.parametrize("name", LIBRARY)
def test_a_penalty_is_the_library_s_over_all_but_the_classifier(name: str) -> None:
    made = prepared(f"bn+{name}:beta=3")
    assert made.penalty is not None
    torch.testing.assert_close(made.penalty(), LIBRARY[name](made.model, beta=3.0, exclude="classifier"))
    made.penalty().backward()
    touched = {key for key, parameter in made.model.named_parameters() if parameter.grad is not None}
    assert touched == {key for key, p in made.model.named_parameters() if p.dim() == 4}


def test_penalties_add_up() -> None:
    both = prepared("bn+orth+mc:beta=2").penalty
    alone = [prepared(f"bn+{name}").penalty for name in ("orth", "mc:beta=2")]
    assert both is not None
    torch.testing.assert_close(both(), sum(term() for term in alone if term))


def test_a_penalty_follows_the_weights() -> None:
    made = prepared("bn+orth")
    assert made.penalty is not None
    before = made.penalty().item()
    for layer in made.model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.orthogonal_(layer.weight)
    assert made.penalty().item() < 1e-3 < before


def test_methods_without_penalty_or_step_have_none() -> None:
    made = prepared("bn+aon")
    assert (made.penalty, made.after_epoch, made.weight_decay) == (None, None, 0.0)


def test_weight_decay_is_the_optimiser_s() -> None:
    made = prepared("bn+wd:rate=0.01")
    assert made.weight_decay == 0.01
    assert made.penalty is None
    assert prepared("bn+wd").weight_decay == 5e-4


def test_bounding_leaves_singular_values_in_their_band() -> None:
    made = prepared("bn+svb:eps=0.1:every=7")
    assert made.after_epoch is not None
    assert made.after_epoch_every == 7
    assert prepared("bn+svb").after_epoch_every == 1
    head = made.model.classifier.weight.clone()
    made.after_epoch()
    for row in aon.spectra(made.model, plain=True):
        if row.name != "classifier":
            assert 1 / 1.1 - 1e-4 <= row.weight_min <= row.weight_max <= 1.1 + 1e-4
    torch.testing.assert_close(made.model.classifier.weight, head, rtol=0, atol=0)


def test_selu_comes_with_its_initialisation_and_no_normaliser() -> None:
    made = prepared("selu", "vgg16-iternorm")
    kinds = {type(module) for module in made.model.modules()}
    assert nn.SELU in kinds
    assert not kinds & {nn.ReLU, nn.BatchNorm2d}
    for layer in made.model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            fan_in = layer.weight[0].numel()
            assert layer.weight.std().item() == pytest.approx(fan_in**-0.5, rel=0.2)
            assert layer.bias is not None
            assert not layer.bias.any()


def test_selu_keeps_the_activations_size_through_sixteen_layers() -> None:
    def last_std(name: str) -> float:
        model = prepared(name, "vgg16-iternorm", width=1 / 4).model
        return model.features(torch.randn(8, 3, 32, 32)).std().item()  # type: ignore[operator]

    assert 0.2 < last_std("selu") < 5
    assert last_std("none") < 0.05  # the naive network fades away


@pytest.mark.parametrize(
    ("name", "kind"), [("bn+dropout:rate=0.3", nn.Dropout), ("selu+dropout:rate=0.3", nn.AlphaDropout)]
)
def test_dropout_is_alpha_dropout_with_selu(name: str, kind: type[nn.Dropout]) -> None:
    layers = [m for m in prepared(name).model.modules() if isinstance(m, nn.Dropout | nn.AlphaDropout)]
    assert [(type(layer), layer.p) for layer in layers] == [(kind, 0.3)]


# word and option -> the library's own argument
DEFAULTS = [
    ("aon", "order", AON, "order"),
    ("aon", "scale", AON, "scale"),
    ("aon", "centre", AON, "centre"),
    ("aon", "prescale", AON, "prescale"),
    ("aon", "expansion", AON, "expansion"),
    ("aon", "lower", AON, "lower"),
    ("aon", "iterations", AON, "n_power_iterations"),
    ("sn", "iterations", AON, "n_power_iterations"),
    ("cwn", "magnitude", CentredWeightNorm, "magnitude"),
    ("oni", "iterations", ONI, "iterations"),
    ("oni", "centre", ONI, "centre"),
    ("iternorm", "iterations", IterNorm, "n_iterations"),
    ("brn", "r_max", BatchRenorm, "r_max"),
    ("brn", "d_max", BatchRenorm, "d_max"),
    ("brn", "eps", BatchRenorm, "eps"),
    ("brn", "momentum", BatchRenorm, "momentum"),
    ("bn", "eps", nn.BatchNorm2d, "eps"),
    ("bn", "momentum", nn.BatchNorm2d, "momentum"),
    ("ln", "eps", nn.GroupNorm, "eps"),
    ("in", "eps", nn.InstanceNorm2d, "eps"),
    ("srip", "iterations", penalties.restricted_isometry, "n_power_iterations"),
    ("snr", "iterations", penalties.spectral_norm, "n_power_iterations"),
    ("svb", "eps", bounding.bound_singular_values, "eps"),
    *((name, "beta", function, "beta") for name, function in LIBRARY.items()),
]


@pytest.mark.parametrize(("word", "option", "function", "argument"), DEFAULTS)
def test_defaults_are_the_library_s(word: str, option: str, function: Callable[..., object], argument: str) -> None:
    assert VOCABULARY[word].option(option).default == inspect.signature(function).parameters[argument].default


# A single group holds all of 8 channels under either default.
@pytest.mark.parametrize("name", ["iternorm", "dbn"])
def test_whitening_defaults_are_the_library_s(name: str) -> None:
    by_default = {"iternorm": IterNorm, "dbn": DecorrelatedBatchNorm}[name](8)
    assert repr(ingredients_of(parse(name)).norm(8)) == repr(by_default)


def hidden(ingredients: Ingredients) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), ingredients.activation(), nn.Linear(6, 2))


def test_hidden_linear_layers_are_mapped_too() -> None:
    model = prepare(parse("aon"), hidden).model
    assert [isinstance(model[i], NormalisedLayer) for i in (0, 2)] == [True, False]  # type: ignore[index]


@pytest.mark.parametrize("name", ["aon", "orth", "svb"])
def test_a_network_with_nothing_to_act_on_is_refused(name: str) -> None:
    with pytest.raises(LabError, match=f"'{name}' finds no convolution and no hidden linear layer to act on in Seq"):
        prepare(parse(name), lambda _: nn.Sequential(nn.Flatten(), nn.Linear(4, 2)))


def test_a_layer_that_cannot_be_normalised_is_told_as_a_user_s_error() -> None:
    with pytest.raises(LabError, match="float"):
        prepare(parse("aon"), lambda _: nn.Sequential(nn.Linear(4, 4, dtype=torch.complex64), nn.Linear(4, 2)))


def test_methods_without_anything_to_act_on_suit_any_network() -> None:
    made = prepare(parse("wd"), lambda _: nn.Linear(4, 2))
    assert made.weight_decay == 5e-4


def two_units(ingredients: Ingredients) -> nn.Module:
    features = nn.Sequential(Unit(ingredients, 3, 4), Unit(ingredients, 4, 6))
    return ImageClassifier(features, 6, CLASSES, ingredients.maybe_dropout())


# Dynamo itself makes an instance of torch.autograd.Function, which torch warns of.
@follows_maps
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("name", ["bn+aon", "bn+aon:expansion=minimax", "iternorm:groups=2+aon", "brn+cwn", "selu+sn"])
def test_prepared_models_compile_without_a_graph_break(name: str) -> None:
    torch.compiler.reset()
    x, _ = images()
    torch.manual_seed(0)
    model = prepare(parse(name), two_units).model
    compiled = torch.compile(copy.deepcopy(model), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("name", ["bn+aon", "bn+orth+srip", "iternorm+aon", "bn+svb", "selu+dropout"])
def test_the_same_seed_gives_the_same_losses(name: str) -> None:
    assert steps(prepared(name)) == steps(prepared(name))


@pytest.mark.parametrize("network", ["vgg16-iternorm", "vgg16", "resnet18", "resnet20"])
def test_the_papers_networks_start_inside_the_radius(network: str) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prepare(parse("bn+aon"), lambda given: models.build(network, classes=10, ingredients=given, width=0.25))


def test_a_folded_model_computes_the_same() -> None:
    x, _ = images()
    made = prepared("bn+aon")
    steps(made)
    before = made.model.eval()(x)
    torch.testing.assert_close(aon.fold(made.model)(x), before, rtol=1e-4, atol=1e-5)
