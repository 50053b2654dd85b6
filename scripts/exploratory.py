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
from aon.lab.report.cells import NOTHING
from aon.lab.report.outcomes import PRIMARY
from aon.lab.report.spectra_figures import last_spectra

Runs = list[Record]
NOT_RUN = "None of these runs has finished yet."
OWN_MAPS = ("aon", "polar")
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
    return [Setting(_label(runs[0].config, main[0].config), runs, _base(runs)) for runs in groups if runs]


def _label(config: RunConfig, main: RunConfig) -> str:
    changed = [name for name in _SHOWN if getattr(config, name) != getattr(main, name)]
    words = [f"{name.replace('_', ' ')} {getattr(config, name)}" for name in changed]
    return ", ".join(words) or f"the main runs: learning rate {main.learning_rate}, halved twice"


def _base(runs: Runs) -> str:
    return next(base for base in ("bn", "ln") if any(run.config.method.split("+")[0] == base for run in runs))


def settings_table(found: Sequence[Setting], best: str | None) -> str:
    """A line for each setting: mean accuracy of the methods, and differences to BN (or LN) over the seeds of both.

    Args:
        found: The settings.
        best: The best of our maps, without its normaliser; None before it is known.
    """
    if len(found) < 2:
        return NOT_RUN
    methods = ("orth", "aon", *([best] if best else []))
    names = ["BN (LN)", *(f"+{parse(method).label}" for method in methods)]
    differences = [f"{name} less BN (LN)" for name in names[1:]]
    lines = [f"| {' | '.join(['', 'seeds', *names, *differences])} |", "|:--|" + "--:|" * (2 * len(names))]
    for one in found:
        own = [one.base, *(one.method(method) for method in methods)]
        cells = [one.label, _seeds(one.runs, own), *(_mean(one.runs, method) for method in own)]
        lines.append(f"| {' | '.join([*cells, *(_less(one.runs, method, one.base) for method in own[1:])])} |")
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


def _less(runs: Runs, method: str, base: str) -> str:
    found = between(method, base, runs)
    if found is None:
        return NOTHING
    interval = f" [{found.low:+.2f}, {found.high:+.2f}]" if found.low is not None else ""
    return f"{found.value:+.2f}{interval}"


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
    base, *others = chosen.values()
    gains = [fmean(own[seed] - base[seed] for seed in seeds) for own in others]
    less = [f"{parse(method).label} {gain:+.2f}" for method, gain in zip(methods[1:], gains, strict=True)]
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
    words = [f"{_ranked(some)} ({name})" for name, some in (("all runs", points), ("AON of any kind, Polar", maps))]
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
