"""torch.export and ONNX of the folded model, run by onnxruntime, agree with the normalised one."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import aon


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=2),
        nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


@pytest.fixture
def trained() -> tuple[nn.Module, Tensor, Tensor]:
    """A normalised model after a few steps, an input, and its output in evaluation."""
    torch.manual_seed(0)
    model, x = aon.normalise(network()), torch.randn(2, 3, 4, 4)
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimiser.zero_grad()
        model(x).square().mean().backward()
        optimiser.step()
    with torch.no_grad():
        return model, x, model.eval()(x)


def test_export_of_the_folded_model(trained, tmp_path):
    model, x, expected = trained
    program = torch.export.export(aon.fold(model), (x,))
    torch.testing.assert_close(program.module()(x), expected, atol=1e-6, rtol=1e-5)
    torch.export.save(program, tmp_path / "model.pt2")
    again = torch.export.load(tmp_path / "model.pt2").module()
    torch.testing.assert_close(again(x), expected, atol=1e-6, rtol=1e-5)


def test_export_of_the_folded_model_for_any_batch(trained):
    model, x, _ = trained
    program = torch.export.export(aon.fold(model), (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    more = torch.randn(5, 3, 4, 4)
    torch.testing.assert_close(program.module()(more), model(more), atol=1e-6, rtol=1e-5)


def test_export_before_folding(trained):
    """The normalised model in evaluation exports as well; it carries the map along."""
    model, x, expected = trained
    program = torch.export.export(model, (x,))
    torch.testing.assert_close(program.module()(x), expected, atol=1e-5, rtol=1e-4)


# torch.onnx uses torch.export's own deprecated names.
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")
def test_onnx(trained, tmp_path):
    pytest.importorskip("onnxscript", reason="ONNX export is tested where the extra [lab] is installed")
    onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX is run where the extra [dev] is installed")
    model, x, expected = trained
    path = Path(tmp_path / "model.onnx")
    torch.onnx.export(aon.fold(model), (x,), path, dynamo=True, input_names=["x"], verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), expected, atol=1e-5, rtol=1e-4)
