"""What a comparison shows, in words that claim no more than n and p allow."""

from collections import Counter
from collections.abc import Sequence

from aon.lab.cells import mean_and_spread, p_value
from aon.lab.records import Status
from aon.lab.statistics import Difference, holm
from aon.lab.summary import Row

SIGNIFICANT = 0.05
PAPER_RUNS = 5


def verdict(table: Sequence[Row]) -> list[str]:
    """The result in a sentence, then what to keep in mind about it, a sentence each."""
    scored = [row for row in table if row.best.mean is not None]
    if not scored:
        return [f"No run has finished yet, so there is nothing to compare ({status(table)})."]
    best = max(scored, key=lambda row: row.best.mean or 0.0)
    return [_headline(best, scored), *_remarks(best, table)]


def status(table: Sequence[Row]) -> str:
    """How many runs are in which state, such as `4 done, 1 failed`."""
    found = Counter(run.status for row in table for run in row.runs)
    return ", ".join(f"{found[name]} {name}" for name in _STATES if found[name]) or "no runs"


_STATES: tuple[Status, ...] = ("done", "running", "interrupted", "failed")


def _headline(best: Row, scored: Sequence[Row]) -> str:
    base = next((row for row in scored if row.is_baseline), None)
    reached = f"{best.label} reached {_accuracy(best)}"
    if len(scored) == 1:
        return f"{reached}; no other method has finished, so there is nothing to compare it with."
    if base is None or (not best.is_baseline and best.best_gain is None):
        return f"{reached}, the highest of {len(scored)} methods; no BN run has finished to measure it against."
    if best.is_baseline:
        return f"No method did better than BN, which reached {_accuracy(best)}. {_closest(scored)}".rstrip()
    cost = f" It took {best.ratio:.2f} times BN's training time." if best.ratio else ""
    return f"{reached}, {_against(best, scored)}.{cost}"


def _accuracy(row: Row) -> str:
    runs = "one run" if row.best.n == 1 else f"{row.best.n} runs"
    value = f"{row.best.mean:.2f}" if row.best.spread is None else mean_and_spread(row.best)
    return f"{value} % best validation accuracy ({runs})"


def _against(best: Row, scored: Sequence[Row]) -> str:
    gain = best.best_gain
    assert gain is not None, "the caller looked"
    points = f"{gain.value:.2f} points above BN"
    if gain.p is None:
        return f"{points}; {_untested(best, scored)}"
    p, several = _corrected(best, scored)
    test = "paired by seed" if gain.kind == "paired" else "Welch's test, since the seeds differ"
    judged = f"95 % interval {gain.low:+.2f} to {gain.high:+.2f}, p {_equals(p)}{several}, {test}"
    if p < SIGNIFICANT:
        return f"{points} ({judged})"
    return f"{points}, which chance alone could explain ({judged})"


def _untested(best: Row, scored: Sequence[Row]) -> str:
    base = next(row for row in scored if row.is_baseline)
    if min(best.best.n, base.best.n) < 2:
        return "with a single run on one side, nothing can be said about chance"
    return "the runs do not vary, so nothing can be said about chance"


def _corrected(best: Row, scored: Sequence[Row]) -> tuple[float, str]:
    """The p-value after Holm's correction, since the best of several was picked to be looked at."""
    others = [row for row in scored if row.best_gain is not None]
    corrected = holm([row.best_gain.p if row.best_gain else None for row in others])
    tested = sum(p is not None for p in corrected)
    own = corrected[others.index(best)]
    assert own is not None, "the caller looked"
    return own, f" after Holm's correction for {tested} comparisons" if tested > 1 else ""


def _closest(scored: Sequence[Row]) -> str:
    row = _nearest(scored)
    if row is None or row.best_gain is None:
        return ""
    value, p = row.best_gain.value, row.best_gain.p
    judged = "nothing can be said about chance" if p is None else f"p {_equals(p)}"
    return f"The nearest, {row.label}, came {abs(value):.2f} points below ({judged})."


def _nearest(table: Sequence[Row]) -> Row | None:
    """The method that comes nearest to BN from below, or highest above it."""
    others = [row for row in table if row.best_gain is not None]
    return max(others, key=lambda row: row.best_gain.value if row.best_gain else 0.0, default=None)


def _remarks(best: Row, table: Sequence[Row]) -> list[str]:
    remarks = []
    other = _nearest(table) if best.is_baseline else best
    if other is not None and _opposed(other.best_gain, other.last_gain):
        remarks.append(f"At the last epoch instead of the best, BN and {other.label} change places.")
    everything = sum(len(row.runs) for row in table)
    if missing := everything - sum(len(row.finished) for row in table):
        verb = "is" if missing == 1 else "are"
        remarks.append(f"{missing} of {everything} runs {verb} not in these numbers ({status(table)}).")
    if 1 < best.best.n < PAPER_RUNS:
        remarks.append(f"{best.best.n} runs are few (the paper made {PAPER_RUNS}): the test leans on normality.")
    remarks.append("The best epoch is picked on the validation images, as in the paper; the last is not picked.")
    return remarks


def _opposed(best: Difference | None, last: Difference | None) -> bool:
    return best is not None and last is not None and best.value * last.value < 0


def _equals(p: float) -> str:
    return p_value(p) if p < 0.0001 else f"= {p_value(p)}"
