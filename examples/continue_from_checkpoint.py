"""Load a plain checkpoint into a normalised model, train on, and go back to a plain model.

`weight` stays the raw parameter under its own key, so the file of a network that was trained without `aon` loads with
`strict=True`. The normalised network computes with h(W) instead of W, so its outputs differ at first;
`gain_init="match"` keeps the norm of each row. After `fold`, the file loads into the plain network without `aon`.

    python examples/continue_from_checkpoint.py
"""

import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import aon


def network() -> nn.Module:
    """A plain torch network."""
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))


def train(model: nn.Module, x: Tensor, y: Tensor, steps: int) -> float:
    """Fit y, and return the mean squared error at the end."""
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimiser.step()
    return error(model, x, y)


@torch.no_grad()
def error(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Mean squared error in evaluation."""
    return float(nn.functional.mse_loss(model.eval()(x), y))


def main() -> None:
    """Plain file -> normalised model -> training -> plain file -> plain model."""
    torch.manual_seed(0)
    x = torch.randn(500, 20)
    y = (x[:, :1] * x[:, 1:2]).tanh() + 0.5 * x[:, 2:3]
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(folder, "plain.pt"), Path(folder, "folded.pt")
        plain = network()
        print(f"error of the plain network: {train(plain, x, y, 60):.4f}")
        torch.save(plain.state_dict(), old)

        model = aon.normalise(network(), gain_init="match")
        model.load_state_dict(torch.load(old, weights_only=True), strict=True)
        print(f"error after loading it into a normalised network: {error(model, x, y):.4f}")
        print(f"error after training on: {train(model.train(), x, y, 100):.4f}")
        expected = model.eval()(x)

        torch.save(aon.fold(model).state_dict(), new)
        again = network()
        again.load_state_dict(torch.load(new, weights_only=True), strict=True)
        print(f"the plain network computes the same: {torch.allclose(again(x), expected, atol=1e-5)}")


if __name__ == "__main__":
    main()
