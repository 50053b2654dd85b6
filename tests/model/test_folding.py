"""fold: plain layers with the same function, what it refuses, and what it warns of."""

import copy
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune

import aon
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


def test_fold_of_a_model():
    torch.manual_seed(0)
    model = aon.normalise(network(), include=["0", "3", "5"])
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimiser.zero_grad()
        model(images()).square().mean().backward()
        optimiser.step()
    with torch.no_grad():
        expected = model.eval()(images())
        assert torch.equal(aon.fold(model)(images()), expected)
    assert [type(module) for module in model] == [type(module) for module in network()]
    assert model.state_dict().keys() == network().state_dict().keys()
    fresh = network().eval()
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh(images()), expected)


def test_fold_leaves_a_plain_model_as_it_is():
    model = network()
    before = copy.deepcopy(model.state_dict())
    aon.fold(model)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_fold_of_a_layer_that_was_parametrised_afterwards_is_refused():
    model = aon.normalise(network())
    parametrize.register_parametrization(model[0], "weight", nn.Identity())
    with pytest.raises(ValueError, match=r"cannot fold '0': remove its other parametrisation first"):
        aon.fold(model)
    assert "5" in taken(model)


def test_a_folded_file_loads_where_aon_cannot_be_imported(tmp_path):
    torch.manual_seed(0)
    model = aon.fold(aon.normalise(network())).eval()
    torch.save(model, tmp_path / "model.pt")
    torch.save(model(images()).detach(), tmp_path / "expected.pt")
    program = (
        "import sys, torch\n"
        "sys.modules['aon'] = None\n"
        f"model = torch.load({str(tmp_path / 'model.pt')!r}, weights_only=False)\n"
        f"expected = torch.load({str(tmp_path / 'expected.pt')!r})\n"
        "x = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(0))\n"
        "assert torch.equal(model(x), expected)\n"
        "print('loaded')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "loaded", done.stderr


def halve(layer: nn.Module) -> None:
    prune.l1_unstructured(layer, "weight", 0.5)


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")
@pytest.mark.parametrize("change", [halve, torch.nn.utils.weight_norm], ids=["pruned", "weight_norm"])
def test_a_weight_that_a_hook_computes_is_not_folded(change):
    model, x = aon.normalise(network()), torch.randn(2, 3, 5, 5)
    change(model[0])
    before = model(x)
    with pytest.raises(ValueError, match=r"cannot fold '0': its weight is computed by a hook"):
        aon.fold(model)
    assert len(taken(model)) == len(taken(aon.normalise(network())))
    assert torch.equal(model(x), before)


def test_a_weight_that_was_tied_afterwards_is_not_folded():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5))
    aon.normalise(model)
    model[0].weight = model[1].weight
    before = model[1].weight.clone()
    with pytest.raises(ValueError, match=r"cannot fold '1': its weight is shared with 0\.weight"):
        aon.fold(model)
    assert torch.equal(model[0].weight, before)


def test_a_forward_of_the_instance_is_not_folded():
    """Hook libraries keep the bound forward of our class, which would look for the map in a plain layer."""
    model = aon.normalise(nn.Sequential(nn.Linear(4, 4)))
    kept = model[0].forward
    model[0].forward = lambda x: 2 * kept(x)
    with pytest.raises(ValueError, match=r"cannot fold '0': its forward was replaced on the instance"):
        aon.fold(model)
    assert taken(model) == ["0"]
    del model[0].forward
    aon.fold(model)


@pytest.mark.parametrize("options", [{"order": 0}, {}, {"centre": "top"}], ids=["spectral", "paper", "top"])
def test_a_weight_that_jumped_is_folded_with_a_warning(options):
    torch.manual_seed(0)
    model = aon.normalise(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)), **options)
    nn.init.xavier_normal_(model[1].weight)
    with pytest.warns(UserWarning, match=r"\|h\(W\)\| is far above 1 in 1 \(.*\): W jumped .*; call aon.refresh"):
        aon.fold(copy.deepcopy(model))
    folded = aon.fold(aon.refresh(model))  # warnings are errors
    assert torch.linalg.matrix_norm(folded[1].weight, 2) < 1.02


def test_least_deviation_is_guarded_and_folds_without_a_warning():
    torch.manual_seed(0)
    layer = aon.normalise(nn.Linear(64, 64), expansion="minimax")
    nn.init.xavier_normal_(layer.weight)
    assert torch.linalg.matrix_norm(aon.fold(layer).weight, 2) < 1.2


@pytest.mark.parametrize("scale", ["frobenius", None])
def test_other_scales_have_no_norm_to_warn_of(scale):
    layer = aon.normalise(nn.Linear(8, 8), scale=scale)
    with torch.no_grad():
        layer.weight.mul_(10)
    aon.fold(layer)
