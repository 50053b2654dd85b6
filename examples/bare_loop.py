"""Normalise a network of your own in a plain torch loop, look at its spectra, fold it back.

The network learns to tell two interleaved spirals apart. `aon.normalise` is the only line that the loop needs; the
spectra before and after training show what W and h(W) look like, and `aon.fold` gives plain torch layers again that
compute the same. `exclude` leaves the first layer, which has two inputs only, as it is.
The minimax expansion holds for weights of any size: with Adam's step of 0.01 they grow past the radius of the default.

    python examples/bare_loop.py
"""

import torch
from torch import Tensor, nn

import aon


def spirals(points: int) -> tuple[Tensor, Tensor]:
    """Points on two interleaved spirals, and which of the two each lies on."""
    label = torch.arange(points) % 2
    turn = 3 * torch.pi * torch.rand(points).sqrt()
    angle = turn + torch.pi * label
    place = torch.stack([turn * angle.cos(), turn * angle.sin()], dim=1) / (3 * torch.pi)
    return place + 0.02 * torch.randn_like(place), label


def train(model: nn.Module, x: Tensor, y: Tensor, steps: int) -> None:
    """The loop of every torch tutorial; nothing in it knows about the normalisation."""
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def main() -> None:
    """Train, and print what a reader can check."""
    torch.manual_seed(0)
    x, y = spirals(1000)
    model = nn.Sequential(
        nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
    )
    aon.normalise(model, exclude="0", expansion="minimax")
    print(f"Before training:\n{aon.spectra(model)}\n")
    train(model, x, y, steps=500)
    print(f"After training:\n{aon.spectra(model)}\n")

    with torch.no_grad():
        new, label = spirals(1000)
        before = model.eval()(new)
        after = aon.fold(model)(new)
    print(f"accuracy on new points: {100 * (before.argmax(1) == label).float().mean():.1f} %")
    print(f"layers after fold: {', '.join(sorted({type(layer).__name__ for layer in model}))}")
    print(f"fold keeps the outputs: {torch.allclose(before, after, atol=1e-5)}")


if __name__ == "__main__":
    main()
