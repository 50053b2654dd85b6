"""The numbers of the paper's tables, and where a run departs from the paper's protocol."""

from dataclasses import dataclass

from aon.lab.experiment.config import RunConfig

NETWORK = "vgg16-iternorm"
"""What the paper calls VGG16: the network of the IterNorm code it built on, 16 convolutions."""


@dataclass(frozen=True)
class Published:
    """One cell of the paper's tables: accuracy in percent over five repetitions, seconds of an epoch."""

    accuracy: float
    spread: float
    seconds: float


TABLES: dict[str, dict[str, Published]] = {
    "cifar10": {  # Tables I and II; q=2 is the same run in both
        "BN": Published(92.22, 0.09, 17.2),
        "BN+CWN": Published(92.68, 0.08, 20.7),
        "IterNorm": Published(92.66, 0.21, 37.1),
        "BN+orthonormal": Published(93.09, 0.09, 21.1),
        "BN+AON(q=0)": Published(92.28, 0.12, 20.0),
        "BN+AON(q=2)": Published(93.51, 0.05, 27.1),
        "BN+AON(q=4)": Published(93.21, 0.10, 32.5),
    },
    "cifar100": {  # Table III
        "BN": Published(67.20, 0.33, 17.3),
        "BN+orthonormal": Published(70.92, 0.34, 21.1),
        "BN+AON(q=2)": Published(72.10, 0.44, 27.2),
    },
}

_ALIASES = {"BN+SN": "BN+AON(q=0)", "BN+orth": "BN+orthonormal"}


def published(config: RunConfig, label: str) -> Published | None:
    """The paper's number for this method, if network and data are the paper's; otherwise None.

    The network must be the paper's at full width with its classifier left plain, the data one of its two
    datasets, whole. Length and settings of the training are not looked at: see `departures`.

    Example:
        >>> published(RunConfig(dataset="cifar100"), "BN+AON(q=2)").accuracy
        72.1
        >>> published(RunConfig(dataset="cifar10", width=0.25), "BN+AON(q=2)") is None
        True
    """
    if config.network != NETWORK or config.width != 1.0 or config.include_classifier:
        return None
    if (config.train_size, config.validation_size, config.test_size) != (None, None, None):
        return None
    return TABLES.get(config.dataset, {}).get(_ALIASES.get(label, label))


def family(dataset: str) -> str | None:
    """The paper's dataset that this one is, or is drawn from.

    Example:
        >>> family("cifar10-sample"), family("mine.npz")
        ('cifar10', None)
    """
    return {"cifar10-sample": "cifar10"}.get(dataset, dataset if dataset in TABLES else None)


def departures(config: RunConfig) -> list[str]:
    """What differs from the paper's protocol, one short phrase for each setting; empty if nothing does.

    The defaults of `RunConfig` are the paper's protocol, except for the dataset.

    Example:
        >>> departures(RunConfig(dataset="cifar10", epochs=30, width=0.25))
        ['width 0.25 (paper: 1.0)', 'epochs 30 (paper: 160)']
    """
    paper, found = RunConfig.model_validate({}), []
    for field in _PROTOCOL:
        ours, theirs = getattr(config, field), getattr(paper, field)
        if ours != theirs:
            nothing = "none" if field == "validation_size" else "all"
            found.append(f"{field.replace('_', ' ')} {_plain(ours, nothing)} (paper: {_plain(theirs, nothing)})")
    if config.dataset not in TABLES:
        found.insert(0, f"dataset {config.dataset} (paper: cifar10 and cifar100)")
    return found


_PROTOCOL = (
    "train_size",
    "validation_size",
    "test_size",
    "network",
    "width",
    "initialisation",
    "include_classifier",
    "epochs",
    "batch_size",
    "optimiser",
    "learning_rate",
    "momentum",
    "nesterov",
    "weight_decay",
    "schedule",
    "warm_up",
    "milestones",
    "decay",
    "augment",
    "precision",
)


def _plain(value: object, nothing: str) -> str:
    if value is None:
        return nothing
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value)
