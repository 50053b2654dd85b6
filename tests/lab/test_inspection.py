import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from aon.lab import checkpoints, inspection
from aon.lab.config import RunConfig
from aon.lab.errors import LabError, StoppedError
from aon.lab.training import Watch, run

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
    rows = inspection.spectra(stopped).to_list()
    assert len(rows) == 20
    assert inspection.spectra(stopped / checkpoints.CHECKPOINT).to_list() == rows
    inspection.fold(stopped, tmp_path / "a.safetensors")
    assert (tmp_path / "a.safetensors").exists()


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: {"state_dict": s, "epoch": 3}, lambda s: {"model": s}])
def test_a_foreign_state_dict_is_inspected(tmp_path, wrap):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8, 2))
    torch.save(wrap(model.state_dict()), tmp_path / "a.pt")
    rows = inspection.spectra(tmp_path / "a.pt").to_list()
    assert [(row["name"], tuple(row["shape"])) for row in rows] == [("0", (8, 27)), ("3", (2, 8))]
    expected = torch.linalg.svdvals(model[3].weight.detach().double())
    assert rows[1]["weight_max"] == pytest.approx(expected[0].item(), rel=1e-5)


def test_a_foreign_safetensors_file_is_inspected_but_not_folded(tmp_path):
    save_file({"layer.weight": torch.randn(4, 6), "layer.bias": torch.randn(4)}, tmp_path / "a.safetensors")
    assert [row["name"] for row in inspection.spectra(tmp_path / "a.safetensors").to_list()] == ["layer"]
    with pytest.raises(LabError, match="does not say which network it belongs to"):
        inspection.fold(tmp_path / "a.safetensors", tmp_path / "b.safetensors")


def test_what_cannot_be_inspected_is_named(tmp_path):
    with pytest.raises(LabError, match=r"holds no weights: none of model.safetensors"):
        inspection.spectra(tmp_path)
    with pytest.raises(LabError, match="there is no"):
        inspection.spectra(tmp_path / "a.pt")
    torch.save({"bias": torch.zeros(3)}, tmp_path / "a.pt")
    with pytest.raises(LabError, match=r"a.pt holds no weight matrices"):
        inspection.spectra(tmp_path / "a.pt")


def test_weights_that_do_not_fit_their_configuration_are_refused(tmp_path):
    checkpoints.save_weights(tmp_path / "a.safetensors", {"w": torch.zeros(1)}, ABOUT)
    with pytest.raises(LabError, match="these weights do not fit resnet20 with bn"):
        inspection.spectra(tmp_path / "a.safetensors")


def test_a_header_that_lies_is_refused(tmp_path):
    checkpoints.save_weights(tmp_path / "a.safetensors", {"w": torch.zeros(1)}, ABOUT | {"config": {"epochs": 0}})
    with pytest.raises(LabError, match="epochs = 0"):
        inspection.spectra(tmp_path / "a.safetensors")
    checkpoints.save_weights(tmp_path / "a.safetensors", {"w": torch.zeros(1)}, {"config": TINY.identity()})
    with pytest.raises(LabError, match="does not say which network"):
        inspection.fold(tmp_path / "a.safetensors", tmp_path / "b.onnx")


def test_only_two_kinds_of_file_are_written(stopped, tmp_path):
    with pytest.raises(LabError, match=r"a.pt: the name should end in .safetensors or .onnx"):
        inspection.fold(stopped, tmp_path / "a.pt")
