"""Mean, spread and difference of a few repeated measurements: numbers in, numbers out.

A quantity that the data cannot give is None, never zero and never NaN: one value has a mean but no spread,
and two single values have a difference but neither an interval nor a p-value. Tables print None as `-`.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from scipy import stats  # type: ignore[import-untyped]


@dataclass(frozen=True)
class Summary:
    """Centre and spread of n repetitions; `spread` is the sample standard deviation (n - 1 below)."""

    n: int
    mean: float | None
    spread: float | None


@dataclass(frozen=True)
class Difference:
    """Mean of one group minus mean of another, with what chance allows.

    `low` and `high` bound the confidence interval, `p` is two-sided. All three are None where the data cannot
    give them: one repetition, or repetitions that do not vary at all.
    """

    value: float
    low: float | None
    high: float | None
    p: float | None
    kind: Literal["paired", "welch"]


def summarise(values: Sequence[float]) -> Summary:
    """Number, mean and standard deviation of the finite values.

    Example:
        >>> summarise([70.0, 71.0, 72.0])
        Summary(n=3, mean=71.0, spread=1.0)
        >>> summarise([70.0])
        Summary(n=1, mean=70.0, spread=None)
    """
    finite = [float(value) for value in values if math.isfinite(value)]
    if not finite:
        return Summary(0, None, None)
    spread = statistics.stdev(finite) if len(finite) > 1 else None
    return Summary(len(finite), statistics.fmean(finite), spread)


def difference(ours: Mapping[int, float], base: Mapping[int, float], *, confidence: float = 0.95) -> Difference | None:
    """Mean of `ours` minus mean of `base`; both map a seed to its result.

    Where both hold the same seeds, the test is Student's t on the differences seed by seed: a seed fixes the
    initial weights and the order of the images, so the two runs share that part of their luck. Where the
    seeds differ, it is Welch's t-test on two independent groups of unequal variance.

    Args:
        ours: result of each seed under the method in question.
        base: result of each seed under the method it is compared with.
        confidence: level of the interval, between 0 and 1.

    Returns:
        The difference, or None if either side has no finite result.

    Raises:
        ValueError: `confidence` is not between 0 and 1.

    Example:
        >>> found = difference({0: 74.0, 1: 75.0, 2: 74.5}, {0: 70.0, 1: 70.5, 2: 71.0})
        >>> print(f"{found.value:+.1f} [{found.low:.1f}, {found.high:.1f}] p={found.p:.3f} {found.kind}")
        +4.0 [2.8, 5.2] p=0.005 paired
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    ours, base = _finite(ours), _finite(base)
    if not ours or not base:
        return None
    if ours.keys() == base.keys():
        return _paired([ours[seed] - base[seed] for seed in sorted(ours)], confidence)
    return _welch(list(ours.values()), list(base.values()), confidence)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p-values corrected for having made several comparisons (Holm 1979); None stays None.

    Example:
        >>> holm([0.01, None, 0.04])
        [0.02, None, 0.04]
    """
    known = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, i) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        corrected[i] = largest
    return corrected


def mean_and_band(curves: Sequence[Sequence[float | None]]) -> list[Summary]:
    """Summary at each position over curves of unequal length; None and NaN count as missing.

    Example:
        >>> [point.mean for point in mean_and_band([[1.0, 2.0], [3.0]])]
        [2.0, 2.0]
    """
    length = max((len(curve) for curve in curves), default=0)
    columns = ([curve[i] for curve in curves if i < len(curve)] for i in range(length))
    return [summarise([value for value in column if value is not None]) for column in columns]


def _finite(results: Mapping[int, float]) -> dict[int, float]:
    return {seed: float(value) for seed, value in results.items() if math.isfinite(value)}


def _paired(differences: list[float], confidence: float) -> Difference:
    value = statistics.fmean(differences)
    if len(differences) < 2 or _constant(differences):
        return Difference(value, None, None, None, "paired")
    error = math.sqrt(statistics.variance(differences) / len(differences))
    return Difference(value, *_interval(value, error, len(differences) - 1, confidence), "paired")


def _welch(ours: list[float], base: list[float], confidence: float) -> Difference:
    value = statistics.fmean(ours) - statistics.fmean(base)
    # One constant side is fine, Welch's formula holds; two leave nothing to judge the difference by.
    if min(len(ours), len(base)) < 2 or (_constant(ours) and _constant(base)):
        return Difference(value, None, None, None, "welch")
    a, b = (statistics.variance(group) / len(group) for group in (ours, base))
    freedom = (a + b) ** 2 / (a**2 / (len(ours) - 1) + b**2 / (len(base) - 1))
    return Difference(value, *_interval(value, math.sqrt(a + b), freedom, confidence), "welch")


def _interval(value: float, error: float, freedom: float, confidence: float) -> tuple[float, float, float]:
    """Lower and upper bound and two-sided p-value of Student's t."""
    half = float(stats.t.ppf((1 + confidence) / 2, freedom)) * error
    return value - half, value + half, 2 * float(stats.t.sf(abs(value) / error, freedom))


def _constant(values: list[float]) -> bool:
    """Whether the values differ by rounding only, so that a test would divide by rounding errors."""
    return max(values) - min(values) <= 1e-9 * max(1.0, *map(abs, values))
