"""Inspect and fold weights files."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from aon.lab.errors import LabError, StoppedError
from aon.lab.experiment.config import RunConfig
from aon.lab.training import checkpoints, weights
from aon.lab.training.run import Watch, run

TINY = RunConfig(
    method="bn+aon", network="resnet20", width=0.25, train_size=40, test_size=20, batch_size=20, epochs=2, threads=1
)
ABOUT = {"config": TINY.identity(), "classes": ["a", "b"], "image": [3, 32, 32]}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped: it has a checkpoint and no weights yet."""
    folder = tmp_path_factory.mktemp("inspection")
    with pytest.raises(StoppedError, match="stopped"):
        run(TINY, folder, watch=Watch(stop=lambda: True))
    return folder


def test_a_checkpoint_is_inspected_and_folded(stopped, tmp_path):
    rows = weights.spectra(stopped).to_list()
    assert len(rows) == 20
    assert weights.spectra(stopped / checkpoints.CHECKPOINT).to_list() == rows
    weights.fold(stopped, tmp_path / "a.safetensors")
    assert (tmp_path / "a.safetensors").exists()


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: {"state_dict": s, "epoch": 3}, lambda s: {"model": s}])
def test_a_foreign_state_dict_is_inspected(tmp_path, wrap):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8, 2))
    torch.save(wrap(model.state_dict()), tmp_path / "a.pt")
    rows = weights.spectra(tmp_path / "a.pt").to_list()
    assert [(row["name"], tuple(row["shape"])) for row in rows] == [("0", (8, 27)), ("3", (2, 8))]
    expected = torch.linalg.svdvals(model[3].weight.detach().double())
    assert rows[1]["weight_max"] == pytest.approx(expected[0].item(), rel=1e-5)


def test_a_foreign_safetensors_file_is_inspected_but_not_folded(tmp_path):
    save_file({"layer.weight": torch.randn(4, 6), "layer.bias": torch.randn(4)}, tmp_path / "a.safetensors")
    assert [row["name"] for row in weights.spectra(tmp_path / "a.safetensors").to_list()] == ["layer"]
    with pytest.raises(LabError, match="does not say which network it belongs to"):
        weights.fold(tmp_path / "a.safetensors", tmp_path / "b.safetensors")


def test_what_cannot_be_inspected_is_named(tmp_path):
    with pytest.raises(LabError, match=r"holds no weights: none of model.safetensors"):
        weights.spectra(tmp_path)
    with pytest.raises(LabError, match="there is no"):
        weights.spectra(tmp_path / "a.pt")
    torch.save({"bias": torch.zeros(3)}, tmp_path / "a.pt")
    with pytest.raises(LabError, match=r"a.pt holds no weight matrices"):
        weights.spectra(tmp_path / "a.pt")


def test_weights_that_do_not_fit_their_configuration_are_refused(tmp_path):
    checkpoints.save_weights(tmp_path / "a.safetensors", {"w": torch.zeros(1)}, ABOUT)
    with pytest.raises(LabError, match="these weights do not fit resnet20: 1 numbers where about 17,"):
        weights.spectra(tmp_path / "a.safetensors")
    checkpoints.save_weights(tmp_path / "a.safetensors", {"w": torch.zeros(20_000)}, ABOUT)
    with pytest.raises(LabError, match=r"these weights do not fit resnet20 with bn\+aon"):
        weights.spectra(tmp_path / "a.safetensors")


def test_a_header_that_lies_is_refused(tmp_path):
    checkpoints.save_weights(tmp_path / "a.safetensors", {"w": torch.zeros(1)}, ABOUT | {"config": {"epochs": 0}})
    with pytest.raises(LabError, match="epochs = 0"):
        weights.spectra(tmp_path / "a.safetensors")
    checkpoints.save_weights(tmp_path / "a.safetensors", {"w": torch.zeros(1)}, {"config": TINY.identity()})
    with pytest.raises(LabError, match="does not say which network"):
        weights.fold(tmp_path / "a.safetensors", tmp_path / "b.onnx")


@pytest.mark.parametrize("network", ["evil:net", "http.server:test", "os:getcwd"])
@pytest.mark.parametrize("action", ["inspect", "fold"])
def test_a_file_names_networks_of_ours_only(tmp_path, monkeypatch, network, action):
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef net(): pass\n")
    monkeypatch.chdir(tmp_path)
    about = ABOUT | {"config": TINY.identity() | {"network": network}}
    checkpoints.save_weights(tmp_path / "a.safetensors", {"w": torch.zeros(1)}, about)
    checkpoints.save(tmp_path / "a.pt", {"model": {"w": torch.zeros(1)}, "about": about})
    for name in ("a.safetensors", "a.pt"):
        with pytest.raises(LabError, match=f"these weights belong to '{network}', which is not one of our networks"):
            weights.spectra(tmp_path / name) if action == "inspect" else weights.fold(
                tmp_path / name, tmp_path / "b.onnx"
            )
    assert not (tmp_path / "ran").exists()


def test_a_users_own_network_comes_from_the_command_line(tmp_path, monkeypatch):
    source = "from torch import nn\ndef net(classes): return nn.Sequential(nn.Flatten(), nn.Linear(3072, classes))\n"
    (tmp_path / "own_weights_net.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    config = TINY.but(method="none", network="own_weights_net:net")
    run(config.but(epochs=1), tmp_path / "run")
    assert [row["name"] for row in weights.spectra(tmp_path / "run", "own_weights_net:net").to_list()] == ["1"]
    weights.fold(tmp_path / "run", tmp_path / "a.safetensors", "own_weights_net:net")
    with pytest.raises(LabError, match="these weights belong to 'own_weights_net:net'"):
        weights.spectra(tmp_path / "run")


HEADERS = {
    "classes": {"classes": 3},
    "names": {"classes": [1, 2]},
    "image": {"image": "3x32x32"},
    "sides": {"image": [3, 32]},
    "huge": {"image": [3, 10**9, 32]},
    "config": {"config": ["bn"]},
    "method": {"config": {"method": 3}},
    "width": {"config": {"width": True}},
    "mean": {"mean": [0.5]},
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_of_wrong_types_is_named(tmp_path, name):
    checkpoints.save_weights(tmp_path / "a.safetensors", {"w": torch.zeros(1)}, ABOUT | HEADERS[name])
    with pytest.raises(LabError, match=r"damaged or not ours|should be") as caught:
        weights.spectra(tmp_path / "a.safetensors")
    assert "\n" not in str(caught.value)


def test_a_header_that_asks_for_too_much_memory_is_refused(tmp_path):
    config = TINY.identity() | {"network": "wrn-28-10", "width": 64}
    checkpoints.save_weights(tmp_path / "a.safetensors", {"w": torch.zeros(9)}, ABOUT | {"config": config})
    with pytest.raises(LabError, match=r"9 numbers where about 149,\d+,\d+,\d+ are needed"):
        weights.spectra(tmp_path / "a.safetensors")


def test_only_two_kinds_of_file_are_written(stopped, tmp_path):
    with pytest.raises(LabError, match=r"a.pt: the name should end in .safetensors or .onnx"):
        weights.fold(stopped, tmp_path / "a.pt")
