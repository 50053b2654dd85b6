"""TensorBoard logs beside a run."""

from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

from aon.lab.experiment.records import EpochRow

FOLDER = "tensorboard"


def log_epoch(folder: Path, row: EpochRow) -> None:
    """Add an epoch to the run's TensorBoard logs; an epoch logged before, by a run since killed, is replaced.

    Args:
        folder: The run's folder.
        row: The epoch.
    """
    # Reopened for each epoch: no thread and no half-written file is left when the process is killed.
    writer = SummaryWriter(str(folder / FOLDER), purge_step=row.epoch)
    for name, value in scalars(row).items():
        writer.add_scalar(name, value, row.epoch)
    writer.close()


def scalars(row: EpochRow) -> dict[str, float]:
    """The numbers of an epoch under the names TensorBoard shows.

    Args:
        row: The epoch.
    """
    values = {
        "loss/train": row.train_loss,
        "loss/validation": row.val_loss,
        "accuracy/train": row.train_accuracy,
        "accuracy/validation": row.val_accuracy,
        "run/learning_rate": row.learning_rate,
        "run/seconds": row.seconds,
    }
    if row.penalty is not None:
        values["loss/penalty"] = row.penalty
    for layer in row.spectra or ():
        for part in ("min", "median", "max"):
            values[f"singular values of h(W), {part}/{layer.name}"] = getattr(layer, f"normalised_{part}")
    return values
