"""Answer the exploratory questions of results/study/PLAN.md on the records that exist, without verdicts.

Other learning rates, schedules, weight decay and networks; and how much orthonormality goes with which accuracy.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import NamedTuple

from scipy import stats  # type: ignore[import-untyped]
from scripts.claims import between

from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.records import Record
from aon.lab.methods.grammar import parse
from aon.lab.report.cells import NOTHING, gain_with_interval
from aon.lab.report.outcomes import PRIMARY
from aon.lab.report.spectra_figures import last_spectra
from aon.lab.report.statistics import difference

Runs = list[Record]
NOT_RUN = "None of these runs has finished yet."
OWN_MAPS = ("aon", "polar")
_SCHEDULES = {"steps": "halved twice", "linear": "falling linearly to zero", "cosine": "falling to zero as a cosine"}
_SHOWN = ("network", "optimiser", "learning_rate", "schedule", "warm_up", "weight_decay")


class Setting(NamedTuple):
    """Finished runs that differ in method and seed only, with what distinguishes them from the study's main runs."""

    label: str
    runs: Runs
    base: str

    def method(self, last: str) -> str:
        """A method of the study behind the normaliser of these runs."""
        return f"{self.base}+{last}"


def settings(main: Runs, others: Iterable[Runs]) -> list[Setting]:
    """Each group of runs with its label; the main ones first.

    Args:
        main: The study's runs on CIFAR-10.
        others: Groups of runs of other settings.
    """
    groups = [main, *others]
    return [Setting(label(runs[0].config, main[0].config), runs, _base(runs)) for runs in groups if runs]


def label(config: RunConfig, main: RunConfig) -> str:
    """What distinguishes a run's settings from those of the study's main runs."""
    changed = [name for name in _SHOWN if getattr(config, name) != getattr(main, name)]
    words = [_SCHEDULES[config.schedule] if name == "schedule" else _named(name, config) for name in changed]
    return ", ".join(words) or f"the main runs: learning rate {main.learning_rate}, halved twice"


def _named(name: str, config: RunConfig) -> str:
    """A setting and its value; networks and optimisers speak for themselves."""
    value = getattr(config, name)
    return str(value) if name in ("network", "optimiser") else f"{name.replace('_', ' ')} {value}"


def _base(runs: Runs) -> str:
    return next(base for base in ("bn", "ln") if any(run.config.method.split("+")[0] == base for run in runs))


def settings_table(found: Sequence[Setting], best: str | None) -> str:
    """A line for each setting: mean accuracy of the methods, with differences to BN (or LN) over the seeds of both.

    Args:
        found: The settings.
        best: The best of our maps, without its normaliser; None before it is known.
    """
    if len(found) < 2:
        return NOT_RUN
    methods = ("orth", "aon", *([best] if best else []))
    names = ["BN (LN)", *(f"+{parse(method).label}" for method in methods)]
    lines = [f"| {' | '.join(['', 'seeds', *names])} |", "|:--|" + "--:|" * (len(names) + 1)]
    for one in found:
        own = [one.method(method) for method in methods]
        cells = [one.label, _seeds(one.runs, [one.base, *own]), _mean(one.runs, one.base)]
        lines.append(f"| {' | '.join([*cells, *(_mean_and_less(one.runs, method, one.base) for method in own)])} |")
    return "\n".join(lines)


def contrasts(found: Sequence[Setting], best: str | None) -> str:
    """A line for each setting: AON less the penalty, and the best of our maps less AON, over the seeds of both.

    Args:
        found: The settings.
        best: The best of our maps, without its normaliser; None before it is known.
    """
    pairs = [("aon", "orth"), *([(best, "aon")] if best else [])]
    names = [f"{parse(ours).label} less {parse(other).label}" for ours, other in pairs]
    lines = [f"| {' | '.join(['', *(cell for name in names for cell in (name, 'seeds'))])} |"]
    lines.append("|:--|" + "--:|" * (2 * len(pairs)))
    for one in found:
        own = [between(one.method(ours), one.method(other), one.runs) for ours, other in pairs]
        cells = [cell for gain in own for cell in (gain_with_interval(gain), str(gain.n) if gain else NOTHING)]
        lines.append(f"| {' | '.join([one.label, *cells])} |")
    return "\n".join(lines)


def _seeds(runs: Runs, methods: Sequence[str]) -> str:
    """How many seeds the methods have that were run at all."""
    counts = [n for method in methods if (n := len(_scores(runs, method)))]
    return str(counts[0]) if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)}"


def _scores(runs: Runs, method: str) -> dict[int, float]:
    found = {run.config.seed: PRIMARY.of(run) for run in runs if run.config.method == method}
    return {seed: score for seed, score in found.items() if score is not None}


def _mean(runs: Runs, method: str) -> str:
    scores = _scores(runs, method)
    return f"{fmean(scores.values()):.2f}" if scores else NOTHING


def _mean_and_less(runs: Runs, method: str, base: str) -> str:
    """The mean, and the difference to the base over the seeds of both."""
    found = between(method, base, runs)
    return _mean(runs, method) + (f" ({gain_with_interval(found)})" if found else "")


def tuned(found: Sequence[Setting], methods: Sequence[str] = ("bn", "bn+orth", "bn+aon")) -> str:
    """Each method at its own best setting by validation, over the seeds that every method has in every setting.

    Args:
        found: The settings; those of the first one's network are compared.
        methods: What is compared, against the first.
    """
    same = [one for one in found if one.runs[0].config.network == found[0].runs[0].config.network]
    seeds = set.intersection(*({*_scores(one.runs, method)} for one in same for method in methods))
    if len(same) < 2 or not seeds:
        return "Each method at its own best setting: not known before every setting has run."
    chosen: dict[str, dict[int, float]] = {}
    words = []
    for method in methods:
        best = max(same, key=lambda one: _validation(one.runs, method, seeds))
        chosen[method] = {seed: score for seed, score in _scores(best.runs, method).items() if seed in seeds}
        words.append(f"{parse(method).label} {fmean(chosen[method].values()):.2f} ({best.label})")
    gains = {method: difference(chosen[method], chosen[methods[0]]) for method in methods[1:]}
    less = [f"{parse(method).label} {gain_with_interval(gain)}" for method, gain in gains.items()]
    over = f"{len(seeds)} seed{'s' * (len(seeds) > 1)}"
    return (
        f"Each method at its own best of these {len(same)} settings on the VGG, by validation accuracy of the last "
        f"epoch, over the {over} that all have: {'; '.join(words)}. Less {parse(methods[0]).label}: {', '.join(less)}."
    )


def _validation(runs: Runs, method: str, seeds: set[int]) -> float:
    return fmean(
        run.epochs[-1].val_accuracy for run in runs if run.config.method == method and run.config.seed in seeds
    )


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


def fit(runs: Runs, base: str = "bn") -> str:
    """How well each method fits its training images, best first, beside its test accuracy.

    The last column compares validation accuracy where the training loss is the same: around the epoch in which a
    method reaches the last training loss of the base, against the last epochs of the base, paired by seed.

    Args:
        runs: Finished runs of one setting.
        base: The method that the others are compared with.
    """
    by_method: dict[str, dict[int, Record]] = {}
    for run in runs:
        by_method.setdefault(run.config.method, {})[run.config.seed] = run
    lines = [
        "| method | runs | training loss | training accuracy | test accuracy | validation at equal loss, less BN |",
        "|:--|--:|--:|--:|--:|--:|",
    ]
    if not by_method:
        return NOT_RUN
    ends = {method: [run.epochs[-1] for run in own.values()] for method, own in by_method.items()}
    for method in sorted(ends, key=lambda method: fmean(row.train_loss for row in ends[method])):
        rows = ends[method]
        means = [f"{fmean(row.train_loss for row in rows):.2f}", f"{fmean(row.train_accuracy for row in rows):.1f}"]
        equal = NOTHING if method == base else _at_equal_loss(by_method[method], by_method.get(base, {}))
        lines.append(f"| {parse(method).label} | {len(rows)} | {' | '.join([*means, _mean(runs, method), equal])} |")
    pairs = [(run.epochs[-1].train_loss, score) for run in runs if (score := PRIMARY.of(run)) is not None]
    ranked = rank_correlation([loss for loss, _ in pairs], [score for _, score in pairs])
    return (
        "\n".join(lines)
        + f"\n\nRank correlation of training loss and test accuracy over the {len(pairs)} runs: {ranked}."
    )


def _at_equal_loss(own: dict[int, Record], base: dict[int, Record]) -> str:
    ours, theirs = {}, {}
    for seed in own.keys() & base.keys():
        goal = base[seed].epochs[-1].train_loss
        reached = next((row.epoch for row in own[seed].epochs if row.train_loss <= goal), None)
        if reached is not None:
            ours[seed] = fmean(row.val_accuracy for row in own[seed].epochs if abs(row.epoch - reached) <= 1)
            theirs[seed] = fmean(row.val_accuracy for row in base[seed].epochs[-3:])
    return gain_with_interval(difference(ours, theirs)) if ours else NOTHING


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> str:
    """Spearman's correlation; nothing where there are too few values or they do not differ.

    Example:
        >>> rank_correlation([1, 2, 3], [10, 30, 20]), rank_correlation([1, 1, 1], [1, 2, 3])
        ('+0.50', '-')
    """
    if len(first) < 3 or len({*first}) == 1 or len({*second}) == 1:
        return NOTHING
    return f"{stats.spearmanr(first, second).statistic:+.2f}"
