"""Data and parts of a run, built and checked."""

import numpy
import pytest
import torch
from torch import nn

from aon.lab.errors import LabError
from aon.lab.experiment.config import RunConfig
from aon.lab.training import preparation

TINY = RunConfig(
    method="bn+aon", network="resnet20", width=0.25, train_size=40, test_size=20, batch_size=20, device="cpu"
)


def test_what_is_right_passes():
    preparation.check([TINY, TINY.but(method="bn+orth"), TINY.but(method="bn+cwn")])


def test_a_network_that_no_memory_holds_is_refused_before_it_is_made():
    with pytest.raises(LabError, match=r"width = 60: vgg16-iternorm then needs \d+ GiB, this machine has"):
        preparation.check([TINY.but(network="vgg16-iternorm", width=60)])


def test_a_network_that_does_not_take_the_images_is_refused(tmp_path, monkeypatch):
    (tmp_path / "own_net.py").write_text(
        "from torch import nn\n"
        "def net(classes):\n"
        "    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(7, classes))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(LabError, match=r"own_net:net of width 0.25 with bn.* cannot be computed on images of 3x32x32"):
        preparation.check([TINY.but(network="own_net:net")])


@pytest.fixture
def smallest(tmp_path):
    """Images of 4x4, of which resnet20 leaves 1x1."""
    path, draw = tmp_path / "smallest.npz", numpy.random.default_rng(0)
    images = {f"x_{part}": draw.integers(0, 256, (40, 4, 4, 3), dtype=numpy.uint8) for part in ("train", "test")}
    numpy.savez(path, **images, y_train=numpy.arange(40) % 2, y_test=numpy.arange(40) % 2)
    return TINY.but(dataset=str(path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "in"}, r"with in cannot be computed on images of 3x4x4 .*: Expected more than 1 spatial element"),
        ({"method": "bn", "batch_size": 1}, r"in batches of 1: Expected more than 1 value per channel"),
        ({"method": "iternorm", "batch_size": 1}, r"in batches of 1: expected more than 1 value per channel"),
        ({"method": "in", "network": "mlp"}, r"mlp .* with in cannot be computed .* spatial element"),
        ({"method": "bn", "network": "vit"}, r"network 'vit' takes the normalisers ln and none"),
    ],
)
def test_what_only_training_would_show_is_refused_before_it(smallest, changes, message):
    with pytest.raises(LabError, match=message) as caught:
        preparation.check([smallest.but(**changes)])
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("changes", [{"method": "ln+aon", "network": "vit"}, {"method": "bn+aon", "network": "mlp"}])
def test_networks_of_linear_layers_take_small_images(smallest, changes):
    preparation.check([smallest.but(**changes)])


def test_images_are_cut_to_the_sizes_asked_for():
    data = preparation.load_data(TINY)
    assert (len(data.x_train), len(data.x_test)) == (40, 20)
    with pytest.raises(LabError, match="9000"):
        preparation.load_data(TINY.but(train_size=9000))


def test_parts_follow_the_configuration():
    data = preparation.load_data(TINY)
    config = TINY.but(method="bn+orth", momentum=0.5, nesterov=True, weight_decay=0.01, precision="fp16")
    parts = preparation.assemble(config, data, torch.device("cpu"))
    group = parts.optimiser.param_groups[0]
    assert (group["lr"], group["momentum"], group["nesterov"], group["weight_decay"]) == (0.1, 0.5, True, 0.01)
    assert parts.scaler.is_enabled()
    assert parts.penalty is not None
    assert parts.forward is parts.model
    assert len(parts.optimiser.param_groups[0]["params"]) == len(list(parts.model.parameters()))


@pytest.mark.parametrize(
    ("name", "kind", "amsgrad"),
    [
        ("sgd", torch.optim.SGD, None),
        ("adam", torch.optim.Adam, False),
        ("amsgrad", torch.optim.Adam, True),
        ("adamw", torch.optim.AdamW, False),
        ("rmsprop", torch.optim.RMSprop, None),
        ("adagrad", torch.optim.Adagrad, None),
    ],
)
def test_an_optimiser_is_the_one_its_name_says(name, kind, amsgrad):
    optimiser = preparation.assemble(
        TINY.but(optimiser=name), preparation.load_data(TINY), torch.device("cpu")
    ).optimiser
    assert type(optimiser) is kind
    assert optimiser.param_groups[0].get("amsgrad") == amsgrad


def test_adamw_without_weight_decay_is_adam():
    data, found = preparation.load_data(TINY), []
    for name in ("adam", "adamw"):
        torch.manual_seed(0)
        parts = preparation.assemble(TINY.but(optimiser=name), data, torch.device("cpu"))
        for _ in range(2):
            parts.optimiser.zero_grad()
            parts.model(data.x_train[:4].float()).square().sum().backward()
            parts.optimiser.step()
        found.append(parts.model.state_dict())
    assert all(torch.equal(one, other) for one, other in zip(found[0].values(), found[1].values(), strict=True))


def test_a_methods_own_weight_decay_reaches_the_optimiser():
    data = preparation.load_data(TINY)
    parts = preparation.assemble(TINY.but(method="bn+wd:rate=0.3"), data, torch.device("cpu"))
    assert parts.optimiser.param_groups[0]["weight_decay"] == 0.3


def test_spectra_leave_the_classifier_out_unless_it_takes_part():
    data = preparation.load_data(TINY)
    for config in (TINY, TINY.but(include_classifier=True), TINY.but(method="bn")):
        model = preparation.assemble(config, data, torch.device("cpu")).model
        names = [row.name for row in preparation.spectra(model, config)]
        assert ("classifier" in names) == config.include_classifier
        assert len(names) == 19 + config.include_classifier


def test_the_initialisation_is_drawn_for_all_layers_but_the_classifier():
    data = preparation.load_data(TINY)

    def weights(**changes: str) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        model = preparation.assemble(TINY.but(method="bn", **changes), data, torch.device("cpu")).model
        return {
            name: layer.weight.detach()
            for name, layer in model.named_modules()
            if isinstance(layer, nn.Conv2d | nn.Linear)
        }

    start, he, xavier = weights(), weights(initialisation="he"), weights(initialisation="xavier")
    assert all(torch.equal(start[name], other[name]) == (name == "classifier") for other in (he, xavier) for name in he)
    widest = max(he, key=lambda name: he[name].numel())
    inputs, outputs = he[widest][0].numel(), len(he[widest]) * he[widest][0, 0].numel()
    assert float(he[widest].std()) == pytest.approx((2 / inputs) ** 0.5, rel=0.1)
    assert float(xavier[widest].abs().max()) == pytest.approx((6 / (inputs + outputs)) ** 0.5, rel=0.05)
