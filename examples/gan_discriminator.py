"""Normalise the discriminator of a GAN, where spectral normalisation is usually used.

The generator learns points on a bent line in the plane. Only the discriminator is normalised, and without the gain:
every h(W) has spectral norm 1, as far as the power iteration is exact, so its output changes no faster than its input.
`order=0` would be the spectral normalisation of Miyato et al. (2018). `prescale=True` lets the weights have any size.

    python examples/gan_discriminator.py
"""

import torch
from torch import Tensor, nn

import aon


def real(points: int) -> Tensor:
    """Samples of the data: a bent line with a little noise."""
    x = 4 * torch.rand(points) - 2
    return torch.stack([x, x.square() / 2], dim=1) + 0.1 * torch.randn(points, 2)


def network(inputs: int, outputs: int) -> nn.Module:
    """A small network with two hidden layers."""
    return nn.Sequential(
        nn.Linear(inputs, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, outputs)
    )


def train(generator: nn.Module, discriminator: nn.Module, steps: int) -> None:
    """Alternate updates with the hinge loss."""
    of_generator = torch.optim.Adam(generator.parameters(), 1e-3, betas=(0.5, 0.9))
    of_discriminator = torch.optim.Adam(discriminator.parameters(), 4e-3, betas=(0.5, 0.9))
    for _ in range(steps):
        fake = generator(torch.randn(128, 4)).detach()
        loss = (1 - discriminator(real(128))).relu().mean() + (1 + discriminator(fake)).relu().mean()
        of_discriminator.zero_grad()
        loss.backward()
        of_discriminator.step()

        loss = -discriminator(generator(torch.randn(128, 4))).mean()
        of_generator.zero_grad()
        loss.backward()
        of_generator.step()


@torch.no_grad()
def distance(generator: nn.Module) -> float:
    """Energy distance between generated and real points: 0 where the two distributions are the same."""
    made, data = generator(torch.randn(1000, 4)), real(1000)
    between, within = torch.cdist(made, data).mean(), (torch.cdist(made, made) + torch.cdist(data, data)).mean()
    return float(2 * between - within)


def steepest(discriminator: nn.Module) -> float:
    """The largest norm of the discriminator's gradient at 1,000 points of the plane."""
    points = (6 * torch.rand(1000, 2) - 3).requires_grad_()
    (slope,) = torch.autograd.grad(discriminator.eval()(points).sum(), points)
    return float(slope.norm(dim=1).max())


def main() -> None:
    """Train, then say how near the generator came and what bounds the discriminator."""
    torch.manual_seed(0)
    generator = network(4, 2)
    discriminator = aon.normalise(network(2, 1), gain=False, prescale=True)
    print(f"distance between generated and real points before: {distance(generator):.3f}")
    train(generator, discriminator, steps=300)
    print(f"distance between generated and real points after: {distance(generator):.3f}")
    print(f"\n{aon.spectra(discriminator)}\n")
    print(f"steepest slope of the discriminator (at most 1 by its norms): {steepest(discriminator):.2f}")


if __name__ == "__main__":
    main()
