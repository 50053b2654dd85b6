"""The arguments include and exclude: names, patterns, types, predicates, and lists of them."""

import pytest
from torch import nn

from aon.model.selection import choose, select


def model() -> nn.Module:
    return nn.ModuleDict(
        {
            "features": nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=4)),
            "head": nn.ModuleDict({"hidden": nn.Linear(4, 4), "classifier": nn.Linear(4, 2)}),
        }
    )


FEATURES, HEAD = ["features.0"], ["head.hidden", "head.classifier"]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (None, None, FEATURES + HEAD),
        ("features", None, FEATURES),
        ("features.*", None, FEATURES),
        ("*.h*", None, ["head.hidden"]),
        ("head.[ch]*", None, HEAD),
        (nn.Linear, None, HEAD),
        (nn.Sequential, None, FEATURES),
        (lambda name, module: isinstance(module, nn.Linear) and module.out_features == 2, None, ["head.classifier"]),
        ("features.2", None, ["features.2"]),
        (["features.2", nn.Linear], None, ["features.2", *HEAD]),
        (("features", "head.hidden"), None, ["features.0", "head.hidden"]),
        (lambda name, module: True, None, ["features.0", "features.2", *HEAD]),
        (None, "head", FEATURES),
        (None, "head.classifier", ["features.0", "head.hidden"]),
        (None, [nn.Conv2d, "head.classifier"], ["head.hidden"]),
        (None, lambda name, module: "class" in name, ["features.0", "head.hidden"]),
        ("head", "head.classifier", ["head.hidden"]),
        ("features.2", "features.2", []),
        ([], None, []),
        (None, "*", []),
    ],
)
def test_chosen(include, exclude, expected):
    assert [name for name, _ in select(model(), include, exclude)] == expected


def test_a_single_layer_is_a_model():
    layer = nn.Linear(2, 2)
    assert select(layer) == [("", layer)]


def test_every_layer_gets_a_reason():
    reasons = {
        choice.name: choice.reason for choice in choose(model(), include=["features", "head"], exclude="head.hidden")
    }
    assert reasons == {
        "features.0": "",
        "features.2": "depthwise convolution; give its own name to include it",
        "head.hidden": "excluded",
        "head.classifier": "",
    }
    assert {choice.reason for choice in choose(model(), include="features.0")[1:]} == {"not included"}


def test_a_name_that_matches_nothing_is_refused_with_the_nearest():
    with pytest.raises(
        ValueError, match=r"no module of the model is called 'head.clasifier'; did you mean 'head.classifier'"
    ):
        select(model(), exclude="head.clasifier")


def test_a_pattern_that_matches_nothing_is_refused():
    with pytest.raises(ValueError, match=r"no module of the model is called 'blocks\.\*'"):
        select(model(), include=["features.*", "blocks.*"])


@pytest.mark.parametrize("word", [3, int, object(), {"features"}, ["features", 1.5]])
@pytest.mark.parametrize("argument", ["include", "exclude"])
def test_a_word_of_no_kind_is_refused(word, argument):
    with pytest.raises(
        TypeError, match=rf"{argument}=.*: expected a module name, a pattern, a module type or a predicate"
    ):
        select(model(), **{argument: word})


def test_a_module_under_two_names_is_chosen_once_and_meant_by_either():
    shared = nn.Linear(2, 2)
    twice = nn.ModuleDict({"encoder": shared, "decoder": shared, "other": nn.Linear(2, 2)})
    assert [name for name, _ in select(twice)] == ["encoder", "other"]
    assert [name for name, _ in select(twice, exclude="encoder")] == ["other"]
    assert [name for name, _ in select(twice, exclude="decoder")] == ["other"]
    assert [name for name, _ in select(twice, include="decoder")] == ["encoder"]
