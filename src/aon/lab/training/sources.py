"""Fingerprints of inputs that no setting names: the images, and the source of a user's own network."""

from pathlib import Path

from aon.lab import models
from aon.lab.data import Dataset
from aon.lab.errors import LabError
from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.records import Fingerprints


def fingerprints(config: RunConfig, data: Dataset) -> Fingerprints:
    """The fingerprints of a run's data and network.

    Args:
        config: The run.
        data: Its images, as `preparation.load_data` gives them.
    """
    return Fingerprints(data=data.fingerprint, network=models.source_fingerprint(config.network))


def check_same(before: Fingerprints | None, now: Fingerprints | None, folder: Path) -> None:
    """Refuse to mix results of different data or of a network that has changed.

    Args:
        before: What was found when the run or the comparison began; None if it is not known.
        now: What is found now.
        folder: Where the earlier results are.

    Raises:
        LabError: naming what has changed.
    """
    if before is None or now is None:
        return
    for what, old, new in (
        ("the dataset", before.data, now.data),
        ("the source of the network", before.network, now.network),
    ):
        if old != new:
            short = [(digest or "none")[:12] for digest in (old, new)]
            raise LabError(
                f"{what} has changed since {folder} began (sha256 {short[0]}... -> {short[1]}...); "
                "restore it or choose another --out"
            )
