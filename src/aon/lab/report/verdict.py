"""The result as sentences that claim no more than n and p allow."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from aon.lab.experiment.records import Status
from aon.lab.report.cells import mean_and_spread, p_equals
from aon.lab.report.outcomes import OUTCOMES, PRIMARY, explanation, title
from aon.lab.report.statistics import SIGNIFICANT, Difference
from aon.lab.report.summary import Results, Row, best_by_validation

FEW_SEEDS = 5
"""The paper made five runs of each method; with fewer, the text asks for caution."""


@dataclass(frozen=True)
class _Contest:
    """Methods to be ranked against each other, each with its difference to the base."""

    where: str
    entries: tuple[tuple[Row, Difference | None], ...]


def verdict(results: Results) -> list[str]:
    """The result in a sentence, then what to keep in mind about it, a sentence each."""
    contests = [contest for contest in _contests(results) if contest.entries]
    if not contests:
        return [f"No run has finished yet, so there is nothing to compare ({status(results)}).", *_damaged(results)]
    return [*(_headline(contest, results) for contest in contests), *_remarks(contests, results)]


def status(results: Results) -> str:
    """How many runs are in which state, such as `4 done, 1 failed`."""
    found = Counter(run.status for run in results.runs)
    return ", ".join(f"{found[name]} {name}" for name in _STATES if found[name]) or "no runs"


_STATES: tuple[Status, ...] = ("done", "running", "interrupted", "failed")


def _contests(results: Results) -> list[_Contest]:
    """One for each task: each method at its best setting; where none can be chosen, one for each setting."""
    found = []
    for task in dict.fromkeys(row.task for row in results.rows):
        chosen = tuple((one.row, one.gain) for one in results.choices if one.row.task == task)
        if chosen:
            found.append(
                _Contest(", ".join(filter(None, [task, "each method at its best setting by validation"])), chosen)
            )
            continue
        for setting in dict.fromkeys(row.setting for row in results.rows if row.task == task):
            entries = tuple((row, row.gain[PRIMARY.key]) for row in results.under(setting) if row.last.mean is not None)
            found.append(_Contest(setting, entries))
    return found


def _headline(contest: _Contest, results: Results) -> str:
    rows = [row for row, _ in contest.entries]
    gains = {row.label: gain for row, gain in contest.entries}
    best = max(rows, key=_last)
    where = _capital(_where(contest))
    if len(rows) == 1:
        reached = f"{best.method} reached {_accuracy(best)} test accuracy at the last epoch"
        return f"{where}{reached}; no other method has finished, so there is nothing to compare it with."
    reached = f"{where}{best.method} has the highest test accuracy at the last epoch, {_accuracy(best)}"
    if best.is_base:
        second = max((row for row in rows if row is not best), key=_last)
        return f"{reached}. {_second(second, gains[second.label], best)}"
    gain = gains[best.label]
    if gain is None:
        return f"{reached}; no run of {results.base} has finished to compare it with."
    cost = f" It took {best.ratio:.2f} times the training time of {results.base}." if best.ratio else ""
    return f"{reached}: {_judged(gain, results.base, best)}.{cost}"


def _where(contest: _Contest) -> str:
    return f"{contest.where}: " if contest.where else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _last(row: Row) -> float:
    return row.last.mean or 0.0


def _accuracy(row: Row) -> str:
    runs = "one run" if row.last.n == 1 else f"{row.last.n} runs"
    value = f"{row.last.mean:.2f}" if row.last.spread is None else mean_and_spread(row.last)
    return f"{value} % ({runs})"


def _second(row: Row, gain: Difference | None, best: Row) -> str:
    return f"The next is {row.method}, {_judged(gain, best.method, row)}." if gain else ""


def _judged(gain: Difference, other: str, row: Row) -> str:
    """The size of a difference and whether it is significant, with its interval, p-value, correction and pairing."""
    points = f"{abs(gain.value):.2f} points {'above' if gain.value >= 0 else 'below'} {other}"
    if gain.kind == "paired" and gain.n != row.last.n:
        points = f"{points} over the seeds that both have"
    if gain.p is None or gain.corrected is None:
        return f"{points}; {_untested(gain)}"
    return f"{points}, {_significance(gain)} ({_numbers(gain)})"


def _significance(gain: Difference) -> str:
    if gain.corrected is None or gain.corrected >= SIGNIFICANT:
        return "not a significant difference"
    return "a significant difference" if gain.n >= FEW_SEEDS else "with few seeds a demonstration, not evidence"


def _numbers(gain: Difference) -> str:
    several = gain.comparisons > 1
    corrected = f" after Holm's correction for {gain.comparisons} comparisons" if several else ""
    kind = f"{gain.n} paired seeds" if gain.kind == "paired" else "Welch's test, no common seeds"
    return f"95 % interval {gain.low:+.2f} to {gain.high:+.2f}, p {p_equals(gain.corrected)}{corrected}, {kind}"


def _untested(gain: Difference) -> str:
    if gain.n < 2:
        return "with a single seed nothing can be said about chance"
    return "the differences do not vary, so the t-test cannot be made"


def _remarks(contests: Sequence[_Contest], results: Results) -> list[str]:
    remarks = [remark for contest in contests for remark in _of_contest(contest, results)]
    remarks += [*_left_out(results), *_missing(results), *_damaged(results)]
    seeds = min(row.last.n for contest in contests for row, _ in contest.entries)
    if 1 < seeds < FEW_SEEDS:
        remarks.append(
            f"{seeds} seeds are few (the paper made {FEW_SEEDS} runs): the t-test relies on normally distributed "
            f"differences, and the sign-flip test cannot give p below {2 / 2**seeds:g}."
        )
    return [*remarks, explanation(results.validated)]


def _of_contest(contest: _Contest, results: Results) -> list[str]:
    rows = [row for row, _ in contest.entries]
    if len(rows) < 2:
        return []
    best, second = sorted(rows, key=_last, reverse=True)[:2]
    where = _where(contest)
    remarks = [
        _capital(f"{where}{remark}") for remark in [*_common_seeds(best, rows), *_variants(best, contest, results.base)]
    ]
    found = results.matrix.get((best.label, second.label))
    if found and not best.is_base and not second.is_base:
        remarks.append(_capital(f"{where}against the next, {best.method} is {_judged(found, second.method, best)}."))
    for outcome in OUTCOMES[1:]:
        other = max(rows, key=lambda row: row.accuracy[outcome.key].mean or 0.0)
        if other is not best and other.accuracy[outcome.key].mean is not None:
            name = title(outcome, results.validated)
            remarks.append(_capital(f"{where}judged by the {name}, {other.method} is highest instead."))
    return remarks


def _left_out(results: Results) -> list[str]:
    """Methods that have finished runs and yet no best setting, since they were not run under every one."""
    if not results.choices:
        return []
    tasks = {one.row.task for one in results.choices}
    chosen = {(one.row.task, one.row.method) for one in results.choices}
    rows = [row for row in results.rows if row.task in tasks and (row.task, row.method) not in chosen and row.finished]
    names = list(dict.fromkeys(row.method for row in rows))
    return [f"Not ranked, since not run under every setting: {', '.join(names)}."] if names else []


def _common_seeds(best: Row, rows: Sequence[Row]) -> list[str]:
    """Which is highest over the seeds that all have, where the best has fewer than others: its own may be lucky."""
    scores = {row.label: row.results[PRIMARY.key] for row in rows}
    common = set.intersection(*map(set, scores.values()))
    if not common or best.last.n == max(row.last.n for row in rows):
        return []
    highest = max(rows, key=lambda row: fmean(scores[row.label][seed] for seed in common))
    seeds = "the seed" if len(common) == 1 else f"the {len(common)} seeds"
    return [f"over {seeds} that all methods have, {highest.method} is highest{' too' if highest is best else ''}."]


def _variants(best: Row, contest: _Contest, base: str) -> list[str]:
    """For each method with several variants that the base is not one of: the best by validation, against the base.

    A caution is added where the best of all is one of them, since the highest of several is favoured.
    """
    gains = {row.label: gain for row, gain in contest.entries}
    remarks = []
    for words in dict.fromkeys(row.words for row, _ in contest.entries):
        own = [row for row, _ in contest.entries if row.words == words]
        if len(own) < 2 or any(row.is_base for row in own):
            continue
        variants, parts = f"{len(own)} variants of one method", []
        if best in own:
            parts.append(f"{best.method} is the highest of {variants}, which favours it")
        if chosen := best_by_validation(own):
            gain = gains[chosen.label] if chosen is not best else None  # that of the best has been told
            judged = f", {_judged(gain, base, chosen)}" if gain else ""
            parts.append(
                f"the best of {'them' if parts else variants} by validation accuracy is {chosen.method}{judged}"
            )
        if parts:
            remarks.append(f"{'; '.join(parts)}.")
    return remarks


def _missing(results: Results) -> list[str]:
    everything = len(results.runs)
    missing = everything - sum(len(row.finished) for row in results.rows)
    verb = "is" if missing == 1 else "are"
    return [f"{missing} of {everything} runs {verb} not in these numbers ({status(results)})."] if missing else []


def _damaged(results: Results) -> list[str]:
    count = len(results.damaged)
    phrase = "record could not be read and is" if count == 1 else "records could not be read and are"
    return [f"{count} {phrase} left out."] if count else []
