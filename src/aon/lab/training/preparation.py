"""Build the data and the parts of a run from its configuration; check both before any work."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

import aon
from aon.activations.renorm import BatchRenorm
from aon.activations.whitening import DecorrelatedBatchNorm, IterNorm
from aon.lab import models
from aon.lab.data import Dataset, load
from aon.lab.errors import LabError
from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.records import Fingerprints, SpectrumRow
from aon.lab.methods.build import Prepared, prepare
from aon.lab.methods.grammar import parse
from aon.lab.system.shown import shortened
from aon.lab.training import machine
from aon.lab.training.loop import Parts
from aon.lab.training.ranks import ALONE, Ranks
from aon.lab.training.sources import fingerprints


def check(configs: Sequence[RunConfig], root: Path | None = None) -> Fingerprints:
    """Check device, threads, data, network and methods before any work is done.

    Args:
        configs: Runs that share their data.
        root: Where datasets are kept; the usual place if not given.

    Returns:
        The fingerprints of data and network.

    Raises:
        LabError: naming the first thing that cannot be.
    """
    machine.check_threads(configs[0].threads)
    data = load_data(configs[0], root)
    _check_memory(configs[0], data)
    for config in {config.method: config for config in configs}.values():
        machine.resolve_device(config.device)
        _check_forward(config, data)
    return fingerprints(configs[0], data)


@torch.no_grad()
def _check_forward(config: RunConfig, data: Dataset) -> None:
    """Put a few images through the network, as in training and as in evaluation."""
    images = torch.zeros(min(config.batch_size, 2), *data.x_train.shape[1:])
    size = "x".join(str(n) for n in data.x_train.shape[1:])
    what = f"{config.network} of width {config.width:g} with {config.method}"
    try:
        model = assemble(config, data, torch.device("cpu")).model
        outputs: list[object] = [model.train(training)(images) for training in (True, False)]
    except LabError:
        raise
    except Exception as error:  # a user's network may fail in any way
        reason = shortened(str(error) or type(error).__name__, 200)
        raise LabError(
            f"{what} cannot be computed on images of {size} in batches of {config.batch_size}: {reason}"
        ) from error
    _check_output(outputs[-1], (len(images), len(data.classes)), what)


def _check_output(output: object, expected: tuple[int, int], what: str) -> None:
    if not isinstance(output, torch.Tensor) or output.shape != expected:
        found = f"shape {tuple(output.shape)}" if isinstance(output, torch.Tensor) else f"a {type(output).__name__}"
        raise LabError(f"{what} gives {found} for {expected[0]} images, expected shape {expected}: one for each class")


def _check_memory(config: RunConfig, data: Dataset) -> None:
    """Refuse a network that does not fit into memory before it is built and the system kills this process."""
    if ":" in config.network:
        return  # a user's function may do anything; it is not called more often than needed
    channels, *size = data.x_train.shape[1:]
    with torch.device("meta"):
        model = models.build(
            config.network,
            classes=len(data.classes),
            width=config.width,
            in_channels=channels,
            image_size=(size[0], size[1]),
        )
    need = 3 * sum(4 * p.numel() for p in model.parameters())  # weights, gradients and momenta
    if machine.memory() and need > machine.memory():
        gib = [f"{size / machine.GIBIBYTE:.0f} GiB" for size in (need, machine.memory())]
        raise LabError(f"width = {config.width:g}: {config.network} then needs {gib[0]}, this machine has {gib[1]}")


def load_data(config: RunConfig, root: Path | None = None, source: Dataset | None = None) -> Dataset:
    """The images of a run, cut to the sizes it asks for.

    Args:
        config: The run.
        root: Where datasets are kept; the usual place if not given.
        source: The dataset, if it is already loaded.

    Raises:
        LabError: if there are none, or too few for one batch.
    """
    sizes = config.train_size, config.validation_size, config.test_size
    data = (source or load(config.dataset, root)).with_fingerprint().split(*sizes, seed=config.seed)
    if len(data.x_train) < config.batch_size:
        raise LabError(
            f"batch_size = {config.batch_size}: there are only {len(data.x_train)} training images, "
            "and a partial batch is dropped"
        )
    models.check_image_size(config.network, *data.x_train.shape[-2:])
    return data


def network(config: RunConfig, classes: int, image: Sequence[int]) -> Prepared:
    """The network of a run with its method; weights come from torch's global random generator.

    Args:
        config: The run.
        classes: Classes to tell apart.
        image: Channels, height and width of an image.
    """
    channels, height, width = image

    def make(ingredients: models.Ingredients) -> nn.Module:
        built = models.build(
            config.network,
            classes=classes,
            width=config.width,
            in_channels=channels,
            image_size=(height, width),
            ingredients=ingredients,
        )
        return models.redraw(built, config.initialisation)

    return prepare(parse(config.method), make, include_classifier=config.include_classifier)


def assemble(config: RunConfig, data: Dataset, device: torch.device, ranks: Ranks = ALONE) -> Parts:
    """Network, optimiser and what the method adds; weights come from torch's global random generator.

    Args:
        config: The run.
        data: Its images.
        device: Where it is computed.
        ranks: This process among those of the run.

    Raises:
        LabError: if the processes are to share statistics that they cannot share here.
    """
    prepared = network(config, len(data.classes), data.x_train.shape[1:])
    model = prepared.model.to(device)
    if config.sync_bn and ranks.world > 1:
        model = _synchronised(model, device)
    if config.channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = _optimiser(config, model, prepared.weight_decay or config.weight_decay)
    wrapped = ranks.wrap(model, device)
    return Parts(
        model=model,
        forward=torch.compile(wrapped) if config.compile else wrapped,
        forward_in_eval=_for_evaluation(config, model, ranks),
        optimiser=optimiser,
        memory_format=torch.channels_last if config.channels_last else torch.contiguous_format,
        scaler=torch.amp.GradScaler(device.type, enabled=config.precision == "fp16"),
        precision=config.precision,
        penalty=prepared.penalty,
        after_epoch=prepared.after_epoch,
        after_epoch_every=prepared.after_epoch_every,
        ranks=ranks,
    )


def _for_evaluation(config: RunConfig, model: nn.Module, ranks: Ranks) -> Callable[[Tensor], Tensor] | None:
    """The network without DDP, which would wait for processes that have one batch less."""
    if ranks.world == 1:
        return None
    return torch.compile(model) if config.compile else model


def _synchronised(model: nn.Module, device: torch.device) -> nn.Module:
    """The network with statistics of the whole batch in every layer that takes statistics."""
    plain = [name for name, layer in model.named_modules() if isinstance(layer, _BATCH_NORMS)]
    if plain and device.type != "cuda":
        where = f"{plain[0]} is a batch normalisation on {device.type}"
        raise LabError(f"sync_bn = True: torch's SyncBatchNorm needs CUDA, and {where}; leave sync_bn out")
    for layer in model.modules():
        if isinstance(layer, IterNorm | DecorrelatedBatchNorm | BatchRenorm):
            layer.sync = True
    made: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    return made


_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def _optimiser(config: RunConfig, model: nn.Module, weight_decay: float) -> torch.optim.Optimizer:
    if config.optimiser == "sgd":
        make: Callable[..., torch.optim.Optimizer] = partial(
            torch.optim.SGD, momentum=config.momentum, nesterov=config.nesterov
        )
    else:
        make = _OPTIMISERS[config.optimiser]
    return make(model.parameters(), lr=config.learning_rate, weight_decay=weight_decay)


_OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "amsgrad": partial(torch.optim.Adam, amsgrad=True),
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
}


def spectra(model: nn.Module, config: RunConfig) -> tuple[SpectrumRow, ...]:
    """Singular values of the layers that methods act on, whether or not this one does, for comparison.

    Args:
        model: The network.
        config: The run.
    """
    plain = () if config.include_classifier else models.classifier_names(model)
    rows = aon.spectra(model, plain=True).to_list()
    return tuple(SpectrumRow.model_validate(row) for row in rows if row["name"] not in plain)
