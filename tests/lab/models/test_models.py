"""Networks: shapes, sizes against the literature, initialisation, ingredients, a user's own."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from aon.lab import models
from aon.lab.errors import LabError
from aon.lab.models import Ingredients
from aon.lab.models.ingredients import ImageClassifier
from aon.lab.models.vit import Attention, Block

SMALL = 1 / 16
CONVOLUTIONAL = [name for name in models.names() if name not in ("mlp", "vit")]
# ResNet-56 and ResNet-110 are ResNet-20 with more blocks: one pass through each is enough.
SHALLOW = [name for name in models.names() if name not in ("resnet56", "resnet110")]

NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm2d,
    "layer": lambda channels: nn.GroupNorm(1, channels),
    "instance": lambda channels: nn.InstanceNorm2d(channels, affine=True),
    "none": lambda _: nn.Identity(),
}


def convolutions(model: nn.Module) -> list[nn.Conv2d]:
    return [module for module in model.modules() if isinstance(module, nn.Conv2d)]


def hidden_layers(model: nn.Module) -> list[nn.Linear]:
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return [layer for layer in linear if layer is not model.get_submodule("classifier")]


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


# Known numbers at width 1 and 10 classes: convolutions, weights in them, all parameters.
@pytest.mark.parametrize(
    ("name", "layers", "weights", "parameters"),
    [
        ("vgg16-iternorm", 16, 20_018_880, 20_035_018),
        ("vgg16", 13, 14_710_464, 14_724_042),
        ("resnet18", 20, 11_159_232, 11_173_962),
        ("resnet20", 19, 267_696, 269_722),
        ("resnet56", 55, 848_304, 853_018),
        ("resnet110", 109, 1_719_216, 1_727_962),
        ("wrn-28-10", 28, 36_454_832, 36_479_194),
    ],
)
def test_sizes_are_those_of_the_literature(name: str, layers: int, weights: int, parameters: int) -> None:
    with torch.device("meta"):
        model = models.build(name, classes=10)
    assert len(convolutions(model)) == layers
    assert sum(convolution.weight.numel() for convolution in convolutions(model)) == weights
    assert count(model) == parameters


# Hidden linear layers, weights in them, all parameters, counted by hand from the sizes in the docstrings.
@pytest.mark.parametrize(
    ("name", "layers", "weights", "parameters"),
    [
        ("mlp", 8, 3072 * 512 + 7 * 512**2, 3_421_194),
        ("vit", 36, 6 * (4 + 2 * 4) * 192**2, 2_693_002),
    ],
)
def test_sizes_are_those_of_the_description(name: str, layers: int, weights: int, parameters: int) -> None:
    with torch.device("meta"):
        model = models.build(name, classes=10)
    assert len(hidden_layers(model)) == layers
    assert sum(layer.weight.numel() for layer in hidden_layers(model)) == weights
    assert count(model) == parameters


def test_there_are_these_networks() -> None:
    residual = ("resnet18", "resnet20", "resnet56", "resnet110", "wrn-28-10")
    assert models.names() == ("vgg16-iternorm", "vgg16", *residual, "mlp", "vit")


def test_the_paper_s_network_is_the_recipe_s() -> None:
    model = models.build("vgg16-iternorm", classes=10, width=SMALL)
    assert isinstance(model, ImageClassifier)
    kinds = [type(module).__name__ for module in model.features]  # type: ignore[attr-defined]
    stage = [["Unit"] * 2, ["Unit"] * 2, ["Unit"] * 4, ["Unit"] * 4, ["Unit"] * 4]
    assert kinds == [*stage[0], *(kind for units in stage[1:] for kind in ("MaxPool2d", *units))]
    assert [type(module) for module in model.features[0]] == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU]  # type: ignore[index]
    for convolution in convolutions(model):
        assert (convolution.kernel_size, convolution.padding, convolution.bias) == ((3, 3), (1, 1), None)


def test_the_mean_over_the_area_is_the_recipe_s_average_pool() -> None:
    model = models.build("vgg16-iternorm", classes=10, width=SMALL).eval()
    images = torch.randn(2, 3, 32, 32)
    pooled = nn.functional.avg_pool2d(model.features(images), 2).flatten(1)  # type: ignore[operator]
    torch.testing.assert_close(model(images), model.classifier(pooled))  # type: ignore[operator]


@pytest.mark.parametrize("name", SHALLOW)
def test_initialisation_is_the_recipe_s(name: str) -> None:
    torch.manual_seed(0)
    model = models.build(name, classes=100, width=1 / 4)
    for layer in (*convolutions(model), *hidden_layers(model)):
        bound = 1 / math.sqrt(layer.weight[0].numel())
        assert layer.weight.abs().max() <= bound
        # A uniform law on (-b, b) has standard deviation b / sqrt 3: eigenvalues of W W^T near 1/3.
        assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.25)
    classifier = model.get_submodule("classifier")
    assert isinstance(classifier, nn.Linear)
    assert classifier.weight.std().item() == pytest.approx(0.01, rel=0.1)
    assert not classifier.bias.any()


def check_gradients(model: nn.Module) -> None:
    logits = model(torch.randn(2, 3, 32, 32))
    assert logits.shape == (2, 7)
    nn.functional.cross_entropy(logits, torch.tensor([0, 6])).backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_forward_and_backward_with_each_normaliser(name: str, norm: str) -> None:
    ingredients = Ingredients(norm=NORMS[norm], normalises=norm != "none")
    check_gradients(models.build(name, classes=7, width=SMALL, ingredients=ingredients))


@pytest.mark.parametrize("norm", ["batch", "layer", "none"])
def test_the_perceptron_with_each_normaliser(norm: str) -> None:
    ingredients = Ingredients(norm=NORMS[norm], normalises=norm != "none")
    model = models.build("mlp", classes=7, width=SMALL, ingredients=ingredients)
    assert all((layer.bias is None) == (norm != "none") for layer in hidden_layers(model))
    check_gradients(model)


@pytest.mark.parametrize("norm", [nn.LayerNorm, lambda _: nn.Identity()])
def test_the_transformer_with_each_normaliser(norm: Callable[[int], nn.Module]) -> None:
    model = models.build("vit", classes=7, width=SMALL, ingredients=Ingredients(token_norm=norm))
    check_gradients(model)
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    assert len(blocks) == 6
    assert all(type(place) is type(norm(3)) for block in blocks for place in (block.norm1, block.norm2))


def test_the_transformer_normalises_tokens_by_layer_or_not_at_all() -> None:
    with pytest.raises(LabError, match=r"^network 'vit' takes the normalisers ln and none, .*; got BatchNorm2d$"):
        models.build("vit", classes=2, ingredients=Ingredients())


def test_attention_is_that_of_the_textbook() -> None:
    torch.manual_seed(0)
    attention = Attention(12)
    x = torch.randn(2, 5, 12)
    heads = []
    for head in range(3):
        q, k, v = (
            layer(x)[..., 4 * head : 4 * head + 4] for layer in (attention.query, attention.key, attention.value)
        )
        heads.append((q @ k.mT / 2).softmax(-1) @ v)
    torch.testing.assert_close(attention(x), attention.output(torch.cat(heads, -1)))


def test_the_transformer_sees_where_a_patch_is() -> None:
    torch.manual_seed(0)
    model = models.build("vit", classes=5, width=1 / 4).eval()
    image = torch.randn(1, 3, 32, 32)
    moved = image.roll(4, dims=3)  # the same patches in other places
    assert not torch.allclose(model(image), model(moved), atol=1e-4)
    nn.init.zeros_(model.get_parameter("features.0.positions"))
    torch.testing.assert_close(model(image), model(moved))


@pytest.mark.parametrize(("name", "size"), [("mlp", (5, 7)), ("vit", (28, 28)), ("vit", (9, 14))])
def test_networks_that_depend_on_the_image_size_are_told(name: str, size: tuple[int, int]) -> None:
    model = models.build(name, classes=2, width=SMALL, in_channels=1, image_size=size).eval()
    assert model(torch.randn(3, 1, *size)).shape == (3, 2)


@settings(max_examples=15, deadline=None)
@given(
    name=st.sampled_from(SHALLOW),
    classes=st.integers(1, 20),
    width=st.floats(0.01, 0.15),
    in_channels=st.integers(1, 4),
    batch=st.integers(1, 3),
    side=st.sampled_from([32, 40, 48]),
)
def test_shape_at_any_width(name: str, classes: int, width: float, in_channels: int, batch: int, side: int) -> None:
    shape = {"in_channels": in_channels, "image_size": (side, side)}
    model = models.build(name, classes=classes, width=width, **shape).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        assert model(torch.randn(batch, in_channels, side, side)).shape == (batch, classes)


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_convolutions_have_a_bias_only_where_no_normaliser_removes_it(name: str) -> None:
    normalised = models.build(name, classes=2, width=SMALL)
    plain = models.build(
        name, classes=2, width=SMALL, ingredients=Ingredients(lambda _: nn.Identity(), normalises=False)
    )
    assert all(convolution.bias is None for convolution in convolutions(normalised))
    assert all(convolution.bias is not None for convolution in convolutions(plain))


@pytest.mark.parametrize(("name", "places"), [("vgg16-iternorm", 1), ("resnet18", 1), ("wrn-28-10", 12)])
def test_dropout_is_placed_where_asked_for(name: str, places: int) -> None:
    model = models.build(name, classes=2, width=SMALL, ingredients=Ingredients(dropout=lambda: nn.Dropout(0.3)))
    assert sum(isinstance(module, nn.Dropout) for module in model.modules()) == places
    assert not any(isinstance(module, nn.Dropout) for module in models.build(name, classes=2, width=SMALL).modules())


@pytest.mark.parametrize("name", SHALLOW)
def test_networks_compile_without_a_graph_break(name: str) -> None:
    torch.compiler.reset()
    model = models.build(name, classes=3, width=1 / 64)
    images = torch.randn(2, 3, 32, 32)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(images), model(images))


@pytest.mark.parametrize("name", models.names())
def test_the_classifier_is_known_by_name(name: str) -> None:
    assert models.classifier_names(models.build(name, classes=2, width=SMALL)) == ["classifier"]


def test_the_classifier_of_another_network_is_its_last_linear_layer() -> None:
    hidden = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    assert models.classifier_names(nn.Sequential(hidden, nn.Softmax(1))) == ["0.2"]
    assert models.classifier_names(nn.Sequential(nn.Conv2d(1, 2, 1))) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"name": "vgg61"},
            r"unknown network 'vgg61'; did you mean 'vgg16'\? \(there are: vgg16-iternorm, .*function",
        ),
        ({"width": 0.0}, "width = 0.0: should be a positive number"),
        ({"width": math.nan}, "width = nan: should be a positive number"),
        ({"width": math.inf}, "width = inf: should be a positive number"),
        ({"classes": 0}, "classes = 0: should be at least 1"),
        ({"in_channels": 0}, "in_channels = 0: should be at least 1"),
    ],
)
def test_bad_arguments_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(LabError, match=message):
        models.build(**({"name": "resnet20", "classes": 10} | change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "side"),
    [("vgg16-iternorm", 16), ("vgg16", 32), ("resnet18", 8), ("resnet20", 4), ("wrn-28-10", 4), ("vit", 4)],
)
def test_the_smallest_image_is_taken_and_a_smaller_one_refused(name: str, side: int) -> None:
    models.check_image_size(name, side, side + 1)
    model = models.build(name, classes=2, width=SMALL, image_size=(side, side)).eval()
    assert model(torch.randn(1, 3, side, side)).shape == (1, 2)
    with pytest.raises(LabError, match=f"too small for '{name}', which needs {side}x{side} at least"):
        models.check_image_size(name, side, side - 1)


OWN = """
from torch import nn
from aon.lab import models

def placed(classes, ingredients):
    unit = nn.Conv2d(3, 4, 1), ingredients.norm(4), ingredients.activation()
    return nn.Sequential(*unit, nn.Flatten(), nn.Linear(256, classes))

def torch_only(classes, width=1.0):
    channels = int(8 * width)
    shared = nn.ReLU()
    unit = nn.Conv2d(3, channels, 3), nn.BatchNorm2d(channels, eps=1e-3), shared, shared
    return nn.Sequential(*unit, nn.Flatten(), nn.Linear(channels * 36, classes))

def everything(**given):
    return models.build("resnet20", **given)

def bare(classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(192, classes))

def demanding(classes, colour):
    return nn.Linear(1, classes)

def not_a_network():
    return 3

def lazy(classes):
    return nn.LazyLinear(classes)

def failing():
    raise RuntimeError("no luck\\nat all")

value = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(OWN)
    (tmp_path / "broken_module_of_a_user.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/nowhere"] + [entry for entry in __import__("sys").path if entry])
    return name


def selu_group() -> Ingredients:
    return Ingredients(norm=lambda channels: nn.GroupNorm(2, channels), activation=nn.SELU)


def test_a_user_s_function_takes_what_its_signature_names(own: str) -> None:
    model = models.build(f"{own}:torch_only", classes=5, width=0.5)
    assert model(torch.randn(2, 3, 8, 8)).shape == (2, 5)
    assert isinstance(model[1], nn.BatchNorm2d)  # type: ignore[index]
    assert model[1].eps == 1e-3  # its own settings are kept  # type: ignore[index]
    model = models.build(f"{own}:everything", classes=5, width=0.5, in_channels=1)
    assert model(torch.randn(2, 1, 8, 8)).shape == (2, 5)


def test_a_user_s_network_gets_the_ingredients_either_way(own: str) -> None:
    placed = models.build(f"{own}:placed", classes=5, ingredients=selu_group())
    assert [type(module) for module in placed][1:3] == [nn.GroupNorm, nn.SELU]  # type: ignore[call-overload]
    adopted = models.build(f"{own}:torch_only", classes=5, ingredients=selu_group())
    assert [type(module) for module in adopted][1:4] == [nn.GroupNorm, nn.SELU, nn.SELU]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("{own}:absent", "has no callable 'absent'"),
        ("{own}:value", "has no callable 'value'"),
        ("{own}:", "is not of the form package.module:function"),
        ("no_such_package_anywhere:f", "cannot import 'no_such_package_anywhere' for .*: No module named"),
        ("broken_module_of_a_user:f", "cannot import 'broken_module_of_a_user' .*: division by zero"),
        ("{own}:demanding", "needs colour, but is given only classes, width, in_channels, image_size, ingredients"),
        ("{own}:not_a_network", "returned a int, expected a torch.nn.Module"),
        ("{own}:lazy", "has lazy layers without weights: run one batch through it"),
        ("{own}:failing", "failed: RuntimeError: no luck$"),
        ("{own}:bare", "the method has a normaliser of activations and .*:bare no place for it"),
    ],
)
def test_a_user_s_mistake_is_told_in_one_line(own: str, reference: str, message: str) -> None:
    with pytest.raises(LabError, match=message) as caught:
        models.build(reference.format(own=own), classes=2)
    assert len(str(caught.value).splitlines()) == 1


def test_dropout_needs_a_function_that_places_it(own: str) -> None:
    ingredients = Ingredients(dropout=nn.Dropout)
    with pytest.raises(LabError, match=r"the method has dropout and .* no place for it"):
        models.build(f"{own}:torch_only", classes=2, ingredients=ingredients)


def test_a_user_s_network_without_a_normaliser_suits_a_method_without_one(own: str) -> None:
    ingredients = Ingredients(norm=lambda _: nn.Identity(), normalises=False)
    model = models.build(f"{own}:bare", classes=2, ingredients=ingredients)
    assert model(torch.randn(1, 3, 8, 8)).shape == (1, 2)
