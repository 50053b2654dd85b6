"""Compare methods under other learning rates, schedules, weight decay and networks, without verdicts.

These are exploratory questions of results/study/PLAN.md, answered on the records that exist.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from scripts.claims import between, paired

from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.records import Record
from aon.lab.methods.grammar import parse
from aon.lab.report.cells import NOTHING, gain_with_interval
from aon.lab.report.outcomes import PRIMARY
from aon.lab.report.statistics import Difference, difference

Runs = list[Record]
NOT_RUN = "None of these runs has finished yet."
ENOUGH = 3  # seeds for an interval: that of two hangs on a single degree of freedom
_SCHEDULES = {"steps": "halved twice", "linear": "falling linearly to zero", "cosine": "falling to zero as a cosine"}
_SHOWN = {
    "network": "{}",
    "train_size": "{} images",
    "epochs": "{} epochs",
    "augment": "no crops or flips",  # all others have them
    "optimiser": "{}",
    "learning_rate": "learning rate {}",
    "schedule": "{}",
    "warm_up": "warm up {}",
    "weight_decay": "weight decay {}",
}


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
    images = "all" if config.train_size is None else f"{config.train_size:,}"
    values = config.model_dump() | {"train_size": images, "schedule": _SCHEDULES[config.schedule]}
    changed = [name for name in _SHOWN if getattr(config, name) != getattr(main, name)]
    words = [_SHOWN[name].format(values[name]) for name in changed]
    return ", ".join(words) or f"the main runs: learning rate {main.learning_rate}, halved twice"


def _base(runs: Runs) -> str:
    return next(base for base in ("bn", "ln") if any(run.config.method.split("+")[0] == base for run in runs))


def gain_of_few(found: Difference | None) -> str:
    """Points above or below, with an interval from three seeds on; of fewer, with their number instead.

    Example:
        >>> gain_of_few(difference({0: 2.0, 1: 4.0}, {0: 1.0, 1: 1.0})), gain_of_few(difference({0: 2.0}, {0: 1.0}))
        ('+2.00, n = 2', '+1.00, n = 1')
        >>> gain_of_few(difference({0: 2.0, 1: 4.0, 2: 3.0}, {0: 1.0, 1: 1.0, 2: 1.0})), gain_of_few(None)
        ('+2.00 [-0.48, +4.48]', '-')
    """
    if found is None or found.n >= ENOUGH:
        return gain_with_interval(found)
    return f"{found.value:+.2f}, n = {found.n}"


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
    lines = _header(["seeds", *names])
    for one in found:
        own = [one.method(method) for method in methods]
        cells = [_seeds(one.runs, [one.base, *own]), mean_score(one.runs, one.base)]
        lines.append(_line(one.label, [*cells, *(_mean_and_less(one.runs, method, one.base) for method in own)]))
    return "\n".join(lines)


def contrasts(found: Sequence[Setting], best: str | None) -> str:
    """A line for each setting: AON less the penalty, and the best of our maps less AON, over the seeds of both.

    Args:
        found: The settings.
        best: The best of our maps, without its normaliser; None before it is known.
    """
    pairs = [("aon", "orth"), *([(best, "aon")] if best else [])]
    names = [f"{parse(ours).label} less {parse(other).label}" for ours, other in pairs]
    lines = _header(names)
    for one in found:
        gains = [between(one.method(ours), one.method(other), one.runs) for ours, other in pairs]
        lines.append(_line(one.label, map(gain_of_few, gains)))
    return "\n".join(lines)


def changes(found: Sequence[Setting], best: str | None) -> str:
    """What other settings change, against the main runs of the same seeds: accuracies, and differences of methods.

    Main runs of other seeds are left out: a seed can be a lucky one for a method. So are settings of other networks.

    Args:
        found: The settings, the main runs first.
        best: The best of our maps, without its normaliser; None before it is known.
    """
    main = found[0]
    ours = ["aon", *([best] if best else [])]
    methods = [main.base, *map(main.method, ("orth", *ours))]
    pairs = [(main.method(one), main.base) for one in ("orth", *ours)]
    pairs += [(main.method("aon"), main.method("orth")), *((main.method(one), main.method("aon")) for one in ours[1:])]
    others = [one for one in found[1:] if _network(one) == _network(main)]
    lines = _header([one.label for one in others])
    for method in methods:
        own = _scores(main.runs, method)
        gains = [difference(*_both(_scores(one.runs, method), own)) for one in others]
        lines.append(_line(parse(method).label, map(gain_of_few, gains)))
    for better, base in pairs:
        own = _gaps(main.runs, better, base)
        gains = [difference(*_both(_gaps(one.runs, better, base), own)) for one in others]
        lines.append(_line(f"{parse(better).label} less {parse(base).label}", map(gain_of_few, gains)))
    return "\n".join(lines)


def polynomial_or_schedule(found: Sequence[Setting], best: str | None) -> str:
    """The best of our maps less AON: at the main learning rate, with AON at half of it, and where both fall to zero.

    Under a map that does not depend on the size of W, W grows and the steps become smaller, as under a lower learning
    rate. What is left of a lead against AON at a lower rate is not the schedule's. Over the seeds that all runs have.

    Args:
        found: The settings, the main runs first.
        best: The best of our maps, without its normaliser; None before it is known.
    """
    main = found[0]
    rate = main.runs[0].config.learning_rate
    half, to_zero = _with(found, learning_rate=rate / 2), _with(found, schedule="linear")
    if best is None or half is None or to_zero is None:
        return ""
    ours, theirs = main.method(best), main.method("aon")
    pairs = {
        f"at a learning rate of {rate:g}": (main, main),
        f"against {parse(theirs).label} at {rate / 2:g}": (main, half),
        "where both fall to zero": (to_zero, to_zero),
    }
    scores = {words: (_scores(one.runs, ours), _scores(two.runs, theirs)) for words, (one, two) in pairs.items()}
    seeds = set.intersection(*({*first} & {*second} for first, second in scores.values()))
    if not seeds:
        return ""
    gains = []
    for words, both in scores.items():
        first, second = ({seed: own[seed] for seed in sorted(seeds)} for own in both)
        gains.append(f"{gain_of_few(difference(first, second))} {words}")
    return f"{parse(ours).label} less {parse(theirs).label} on the VGG, seeds that all have: {'; '.join(gains)}."


def _with(found: Sequence[Setting], **changed: object) -> Setting | None:
    """The setting that differs from the main one in this alone."""
    config = found[0].runs[0].config
    wanted = label(config.model_copy(update=changed), config)
    return next((one for one in found if one.label == wanted), None)


def _network(one: Setting) -> str:
    return one.runs[0].config.network


def _gaps(runs: Runs, better: str, base: str) -> dict[int, float]:
    """The difference of two methods, seed by seed."""
    ours, theirs = paired(better, base, runs, PRIMARY.of)
    return {seed: score - theirs[seed] for seed, score in ours.items()}


def _both(first: Mapping[int, float], second: Mapping[int, float]) -> tuple[dict[int, float], dict[int, float]]:
    """The entries of the seeds that both have."""
    seeds = sorted(first.keys() & second.keys())
    return {seed: first[seed] for seed in seeds}, {seed: second[seed] for seed in seeds}


def one_seed(main: Setting) -> str:
    """How much the difference of a method to BN varies from seed to seed: the measure for differences of one seed.

    Args:
        main: The study's main runs.
    """
    spreads = []
    for method in map(main.method, ("orth", "aon")):
        if len(gaps := list(_gaps(main.runs, method, main.base).values())) >= ENOUGH:
            spreads.append(f"{stdev(gaps):.1f} points ({parse(method).label})")
    if not spreads:
        return ""
    return (
        f"In the main runs a difference to {parse(main.base).label} on a single seed has a standard deviation of "
        f"{' and '.join(spreads)}: smaller differences on one seed mean nothing."
    )


def _header(names: Sequence[str]) -> list[str]:
    return [_line("", names), "|:--|" + "--:|" * len(names)]


def _line(first: str, cells: Iterable[str]) -> str:
    return f"| {' | '.join([first, *cells])} |"


def _seeds(runs: Runs, methods: Sequence[str]) -> str:
    """How many seeds the methods have that were run at all."""
    counts = [n for method in methods if (n := len(_scores(runs, method)))]
    return str(counts[0]) if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)}"


def _scores(runs: Runs, method: str) -> dict[int, float]:
    found = {run.config.seed: PRIMARY.of(run) for run in runs if run.config.method == method}
    return {seed: score for seed, score in found.items() if score is not None}


def mean_score(runs: Runs, method: str) -> str:
    """Mean test accuracy of the last epoch over a method's runs."""
    scores = _scores(runs, method)
    return f"{fmean(scores.values()):.2f}" if scores else NOTHING


def _mean_and_less(runs: Runs, method: str, base: str) -> str:
    """The mean, and the difference to the base over the seeds of both."""
    found = between(method, base, runs)
    return mean_score(runs, method) + (f" ({gain_of_few(found)})" if found else "")


def tuned(found: Sequence[Setting], methods: Sequence[str] = ("bn", "bn+orth", "bn+aon")) -> str:
    """Each method at its own best setting by validation, over the seeds that every method has in every setting.

    Args:
        found: The settings; those of the first one's network are compared.
        methods: What is compared, against the first.
    """
    same = [one for one in found if _network(one) == _network(found[0])]
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
    less = [f"{parse(method).label} {gain_of_few(gain)}" for method, gain in gains.items()]
    over = f"{len(seeds)} seed{'s' * (len(seeds) > 1)}"
    return (
        f"Each method at its own best of these {len(same)} settings on the VGG, by validation accuracy of the last "
        f"epoch, over the {over} that all have: {'; '.join(words)}. Less {parse(methods[0]).label}: {'; '.join(less)}."
    )


def _validation(runs: Runs, method: str, seeds: set[int]) -> float:
    return fmean(
        run.epochs[-1].val_accuracy for run in runs if run.config.method == method and run.config.seed in seeds
    )
