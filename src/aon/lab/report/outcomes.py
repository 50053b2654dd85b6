"""The three test accuracies that are reported of a run, and their names.

The last epoch is the primary outcome: it is not chosen by anything. The best epoch is chosen by validation accuracy
where a run has validation images, and on the test set itself, as in the paper, where it has none.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from aon.lab.experiment.records import Record


@dataclass(frozen=True)
class Outcome:
    """A rule that gives one test accuracy (in percent) for a run; None where it is not known."""

    key: str
    name: str
    of: Callable[[Record], float | None]


def _last(run: Record) -> float | None:
    return run.last.test_accuracy if run.last else None


def _best(run: Record) -> float | None:
    return run.best.test_accuracy if run.best else None


PRIMARY = Outcome("last", "last epoch", _last)
BEST = Outcome("best", "best epoch", _best)
LAST_FIVE = Outcome("last_five", "mean of the last five epochs", lambda run: run.last_five)
OUTCOMES = (PRIMARY, BEST, LAST_FIVE)


def has_validation(runs: Iterable[Record]) -> bool | None:
    """Whether the runs have validation images of their own; None where some have and some have not."""
    kinds = {run.images.validation > 0 for run in runs}
    return kinds.pop() if len(kinds) == 1 else None


def title(outcome: Outcome, validated: bool | None) -> str:
    """Name of an outcome; that of the best epoch says what it was chosen by.

    Example:
        >>> title(BEST, True), title(BEST, False)
        ('best epoch by validation', 'best epoch on the test set, as in the paper')
    """
    if outcome is not BEST or validated is None:
        return outcome.name
    return f"{BEST.name} by validation" if validated else f"{BEST.name} on the test set, as in the paper"


def explanation(validated: bool | None) -> str:
    """A sentence that says how the best epoch was chosen."""
    if validated is None:
        return (
            "The best epoch is chosen by validation accuracy in runs with validation images, and on the test set "
            "in runs without."
        )
    if validated:
        return "The best epoch is chosen by validation accuracy, on images that are neither trained nor tested on."
    return "The best epoch is chosen on the test set, as in the paper, which flatters every method."
