"""What test accuracy goes with: how well a method fits its training images, and how orthonormal its weights are."""

from collections.abc import Mapping, Sequence
from statistics import fmean, median

from scipy import stats  # type: ignore[import-untyped]
from scripts.exploratory import NOT_RUN, Runs, gain_of_few, mean_score

from aon.lab.experiment.records import Record
from aon.lab.methods.grammar import parse
from aon.lab.report.cells import NOTHING
from aon.lab.report.outcomes import PRIMARY
from aon.lab.report.spectra_figures import last_spectra
from aon.lab.report.statistics import Difference, difference

BASE = "bn"
EPOCHS = 3  # that a mean is taken over, since single epochs jump
OWN_MAPS = ("aon", "polar")
LEAST_FIT = 99.0  # percent training accuracy: what the plan's follow-up asks of every run


def fit(runs: Runs) -> str:
    """How well each method fits its training images, best first, beside its accuracies.

    The last columns are differences to BN in validation accuracy, paired by seed: at the end, and at equal training
    loss. Both are means over three successive epochs. At equal training loss they are the three whose mean training
    loss is nearest to that of BN's last three; a run that never gets as low is left out, and the number of seeds says
    so.

    Args:
        runs: Finished runs of one setting.
    """
    by_method: dict[str, dict[int, Record]] = {}
    for run in runs:
        by_method.setdefault(run.config.method, {})[run.config.seed] = run
    if not by_method:
        return NOT_RUN
    lines = [
        "| method | runs | training loss | training accuracy | test accuracy | validation at the end, less BN "
        "| at equal training loss, less BN | seeds |",
        "|:--|" + "--:|" * 7,
    ]
    ends = {method: [run.epochs[-1] for run in own.values()] for method, own in by_method.items()}
    for method in sorted(ends, key=lambda method: fmean(row.train_loss for row in ends[method])):
        rows = ends[method]
        means = [f"{fmean(row.train_loss for row in rows):.2f}", f"{fmean(row.train_accuracy for row in rows):.1f}"]
        against = [NOTHING] * 3 if method == BASE else _against(by_method[method], by_method.get(BASE, {}))
        cells = [parse(method).label, str(len(rows)), *means, mean_score(runs, method), *against]
        lines.append(f"| {' | '.join(cells)} |")
    scored = [(run.epochs[-1].train_loss, score) for run in runs if (score := PRIMARY.of(run)) is not None]
    ranked = rank_correlation([loss for loss, _ in scored], [score for _, score in scored])
    words = f"Rank correlation of training loss and test accuracy over the {len(scored)} runs: {ranked}."
    return "\n".join(lines) + f"\n\n{words}"


def unfitted(runs: Runs) -> str:
    """How many runs end below the training accuracy that the plan's follow-up asks of them, method by method.

    Args:
        runs: Finished runs of that follow-up.
    """
    below = [run.config.method for run in runs if run.epochs[-1].train_accuracy < LEAST_FIT]
    words = [f"{parse(method).label} {below.count(method)}" for method in dict.fromkeys(below)]
    return (
        f"Runs that end below {LEAST_FIT:g} % training accuracy: {', '.join(words) or 'none'} (of {len(runs)} in all)."
    )


def _against(own: Mapping[int, Record], base: Mapping[int, Record]) -> list[str]:
    """Both differences in validation accuracy, and for how many seeds there is the second."""
    end, equal = leads(own, base)
    n, reached = end.n if end else 0, equal.n if equal else 0
    seeds = NOTHING if not n else str(n) if reached == n else f"{reached} of {n}"
    return [gain_of_few(end), gain_of_few(equal), seeds]


def leads(own: Mapping[int, Record], base: Mapping[int, Record]) -> tuple[Difference | None, Difference | None]:
    """The differences in validation accuracy at the end and at equal training loss.

    Args:
        own: Runs of a method by seed.
        base: Runs of BN by seed.
    """
    ends: dict[int, float] = {}
    equal: dict[int, float] = {}
    theirs: dict[int, float] = {}
    for seed in own.keys() & base.keys():
        goal, theirs[seed] = _windows(base[seed])[-1]
        windows = _windows(own[seed])
        ends[seed] = windows[-1][1]
        if min(windows)[0] <= goal:
            equal[seed] = min(windows, key=lambda window: abs(window[0] - goal))[1]
    return difference(ends, theirs), difference(equal, {seed: theirs[seed] for seed in equal})


def equal_loss_sentence(runs: Mapping[str, Runs], method: str = "bn+aon") -> str:
    """What is left of a method's lead over BN at equal training loss, on each data set that has it.

    Args:
        runs: Finished runs by the name of their data set.
        method: The method.
    """
    found = []
    for name, all_runs in runs.items():
        own, base = ({run.config.seed: run for run in all_runs if run.config.method == one} for one in (method, BASE))
        if equal := leads(own, base)[1]:
            found.append(f"{gain_of_few(equal)} points on {name}")
    if not found:
        return ""
    gap = f"validation accuracy of {parse(method).label} less {parse(BASE).label}"
    return f"In the study {gap} was, at equal training loss, {'; '.join(found)}."


def _windows(run: Record) -> list[tuple[float, float]]:
    """Mean training loss and mean validation accuracy of every few successive epochs."""
    few = min(EPOCHS, len(run.epochs))
    parts = [run.epochs[i : i + few] for i in range(len(run.epochs) - few + 1)]
    return [(fmean(row.train_loss for row in rows), fmean(row.val_accuracy for row in rows)) for rows in parts]


def orthonormality(runs: Runs) -> str:
    """Orthonormality error and accuracy of each method, nearest to orthonormal first, and their rank correlation.

    Args:
        runs: Finished runs of one setting.
    """
    points: dict[str, list[tuple[float, float]]] = {}
    for run in runs:
        errors, score = [layer.error for layer in last_spectra(run) if layer.error is not None], PRIMARY.of(run)
        if errors and score is not None:
            points.setdefault(run.config.method, []).append((median(errors), score))
    if not points:
        return NOT_RUN
    lines = ["| method | runs | orthonormality error | last epoch |", "|:--|--:|--:|--:|"]
    for method, own in sorted(points.items(), key=lambda item: fmean(error for error, _ in item[1])):
        error, score = (fmean(column) for column in zip(*own, strict=True))
        lines.append(f"| {parse(method).label} | {len(own)} | {error:.2f} | {score:.2f} |")
    maps = {method: own for method, own in points.items() if method.partition("+")[2].split(":")[0] in OWN_MAPS}
    flattening = {method: own for method, own in maps.items() if ":order=0" not in method}
    groups = {"all runs": points, "AON of any kind, Polar": maps, "those without order 0": flattening}
    words = [f"{_ranked(some)} ({name})" for name, some in groups.items()]
    return "\n".join(lines) + f"\n\nRank correlation of error and accuracy, run by run: {', '.join(words)}."


def _ranked(points: dict[str, list[tuple[float, float]]]) -> str:
    pairs = [pair for own in points.values() for pair in own]
    return rank_correlation([error for error, _ in pairs], [score for _, score in pairs])


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> str:
    """Spearman's correlation; nothing where there are too few values or they do not differ.

    Example:
        >>> rank_correlation([1, 2, 3], [10, 30, 20]), rank_correlation([1, 1, 1], [1, 2, 3])
        ('+0.50', '-')
    """
    if len(first) < 3 or len({*first}) == 1 or len({*second}) == 1:
        return NOTHING
    return f"{stats.spearmanr(first, second).statistic:+.2f}"
