"""From a configuration to the data and the parts of a run; and the checks that come before any work."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

import aon
from aon.lab import machine, models
from aon.lab.config import RunConfig
from aon.lab.data import Dataset, load
from aon.lab.errors import LabError
from aon.lab.grammar import parse
from aon.lab.loop import Parts
from aon.lab.methods import Prepared, prepare
from aon.lab.records import SpectrumRow


def check(configs: Sequence[RunConfig], root: Path | None = None) -> None:
    """Find out what would fail before any work is done: device, data, network and methods.

    Args:
        configs: Runs that share their data.
        root: Where datasets are kept; the usual place if not given.

    Raises:
        LabError: naming the first thing that cannot be.
    """
    data = load_data(configs[0], root)
    _check_size(configs[0], len(data.classes))
    for method, config in {config.method: config for config in configs}.items():
        machine.resolve_device(config.device)
        try:
            with torch.no_grad():
                model = assemble(config, data, torch.device("cpu")).model.eval()
                model(torch.zeros(2, *data.x_train.shape[1:]))
        except (RuntimeError, MemoryError) as error:
            size = "x".join(str(n) for n in data.x_train.shape[1:])
            reason = " ".join(str(error).split())[:200]
            what = f"{config.network} of width {config.width:g} with {method}"
            raise LabError(f"{what} cannot be computed on images of {size}: {reason}") from error


def _check_size(config: RunConfig, classes: int) -> None:
    """Refuse a network that no memory holds before it is made, not by the system's killing this process."""
    if ":" in config.network:
        return  # a user's function may do anything; it is not called more often than needed
    with torch.device("meta"):
        model = models.build(config.network, classes=classes, width=config.width)
    need = 3 * sum(4 * p.numel() for p in model.parameters())  # weights, gradients and momenta
    if machine.memory() and need > machine.memory():
        gib = [f"{size / machine.GIBIBYTE:.0f} GiB" for size in (need, machine.memory())]
        raise LabError(f"width = {config.width:g}: {config.network} then needs {gib[0]}, this machine has {gib[1]}")


def load_data(config: RunConfig, root: Path | None = None) -> Dataset:
    """The images of a run, cut to the sizes it asks for.

    Args:
        config: The run.
        root: Where datasets are kept; the usual place if not given.

    Raises:
        LabError: if there are none, or too few for one batch.
    """
    data = load(config.dataset, root).subset(config.train_size, config.test_size)
    if len(data.x_train) < config.batch_size:
        raise LabError(
            f"batch_size = {config.batch_size}: there are only {len(data.x_train)} training images, "
            "and a partial batch is dropped"
        )
    models.check_image_size(config.network, *data.x_train.shape[-2:])
    return data


def network(config: RunConfig, classes: int, channels: int) -> Prepared:
    """The network of a run with its method, drawn from torch's global random stream.

    Args:
        config: The run.
        classes: Classes to tell apart.
        channels: Channels of an image.
    """

    def make(ingredients: models.Ingredients) -> nn.Module:
        return models.build(
            config.network,
            classes=classes,
            width=config.width,
            in_channels=channels,
            ingredients=ingredients,
        )

    return prepare(parse(config.method), make, include_classifier=config.include_classifier)


def assemble(config: RunConfig, data: Dataset, device: torch.device) -> Parts:
    """Network, optimiser and what the method adds to them, drawn from torch's global random stream.

    Args:
        config: The run.
        data: Its images.
        device: Where it is computed.
    """
    prepared = network(config, len(data.classes), data.x_train.shape[1])
    model = prepared.model.to(device)
    optimiser = torch.optim.SGD(
        model.parameters(),
        lr=config.learning_rate,
        momentum=config.momentum,
        nesterov=config.nesterov,
        weight_decay=prepared.weight_decay or config.weight_decay,
    )
    return Parts(
        model=model,
        forward=torch.compile(model) if config.compile else model,
        optimiser=optimiser,
        scaler=torch.amp.GradScaler(device.type, enabled=config.precision == "fp16"),
        precision=config.precision,
        penalty=prepared.penalty,
        after_step=prepared.after_step,
        after_step_every=prepared.after_step_every,
    )


def spectra(model: nn.Module, config: RunConfig) -> tuple[SpectrumRow, ...]:
    """Singular values of the layers that methods act on, whether or not this one does, for comparison.

    Args:
        model: The network.
        config: The run.
    """
    plain = () if config.include_classifier else models.classifier_names(model)
    rows = aon.spectra(model, plain=True).to_list()
    return tuple(SpectrumRow.model_validate(row) for row in rows if row["name"] not in plain)
