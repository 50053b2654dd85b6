"""Summaries of repeated runs and tests of the difference between two methods.

A quantity that the data cannot give is None, never zero and never NaN: one value has a mean but no spread,
and two single values have a difference but neither an interval nor a p-value.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

SIGNIFICANT = 0.05
"""A difference is called significant where its corrected p-value is below this."""

EXACT_PAIRS = 16
"""Up to this many pairs the sign-flip test counts every assignment of signs; beyond, it draws from them."""

DRAWS = 9_999


@dataclass(frozen=True)
class Summary:
    """Centre and spread of n repetitions; `spread` is the sample standard deviation (n - 1 below)."""

    n: int
    mean: float | None
    spread: float | None


@dataclass(frozen=True)
class Difference:
    """Mean of one group minus mean of another, and what can be said about chance.

    Attributes:
        value: The difference of the means; of paired groups, the mean of the differences seed by seed.
        low: Lower bound of the confidence interval.
        high: Upper bound of the confidence interval.
        p: Two-sided p-value of Student's t-test on the pairs, or of Welch's test.
        kind: `paired`, or `welch` where the groups have no seed in common.
        n: Pairs; of Welch's test, the size of the smaller group.
        flip_p: Two-sided p-value of the sign-flip test, which assumes no distribution; paired groups only.
        ahead: Pairs in which the first group is higher; paired groups only.
        probability: Probability that the first group is higher for a new seed, given what was seen. It assumes
            normally distributed results and is the predictive distribution of Student's t under the usual flat prior.
        corrected: `p` after Holm's correction.
        comparisons: How many p-values were corrected together.
    """

    value: float
    low: float | None
    high: float | None
    p: float | None
    kind: Literal["paired", "welch"]
    n: int = 0
    flip_p: float | None = None
    ahead: int | None = None
    probability: float | None = None
    corrected: float | None = None
    comparisons: int = 0


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

    Results are paired over the seeds that both sides have: a seed fixes the images, the initial weights and the
    order of the batches, so the two runs share that part of their luck. Without a common seed the test is
    Welch's t-test on two independent groups of unequal variance.

    Args:
        ours: Result of each seed under the method in question.
        base: Result of each seed under the method it is compared with.
        confidence: Level of the interval, between 0 and 1.

    Returns:
        The difference, or None if either side has no finite result.

    Raises:
        ValueError: `confidence` is not between 0 and 1.

    Example:
        >>> found = difference({0: 74.0, 1: 75.0, 2: 74.5}, {0: 70.0, 1: 70.5, 2: 71.0, 3: 70.0})
        >>> print(f"{found.value:+.1f} [{found.low:.1f}, {found.high:.1f}] p={found.p:.3f} {found.kind}, n={found.n}")
        +4.0 [2.8, 5.2] p=0.005 paired, n=3
        >>> found.ahead, found.flip_p
        (3, 0.25)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    ours, base = _finite(ours), _finite(base)
    if not ours or not base:
        return None
    if common := sorted(ours.keys() & base.keys()):
        return _paired([ours[seed] - base[seed] for seed in common], confidence)
    return _welch(list(ours.values()), list(base.values()), confidence)


def sign_flip(differences: Sequence[float]) -> float | None:
    """Two-sided p-value of the sign-flip (permutation) test on paired differences.

    If neither method were better, each difference could as well have had the other sign. The p-value is the share
    of all assignments of signs whose mean is at least as far from zero as the one seen: counted exactly for up to
    16 pairs, estimated from 9,999 assignments drawn with a fixed seed beyond. With n pairs it cannot be below 2 / 2^n.

    Args:
        differences: One number a pair.

    Returns:
        The p-value, or None without a pair.

    Example:
        >>> sign_flip([1.0, 2.0, 3.0, 4.0])
        0.125
    """
    if not differences:
        return None
    values = np.asarray(differences, dtype=float)
    seen = abs(values.sum()) - 1e-9 * np.abs(values).sum()  # sums of equal numbers may differ by rounding
    if len(values) <= EXACT_PAIRS:
        return float(np.mean(np.abs(_all_sums(values)) >= seen))
    hits = np.count_nonzero(np.abs(_drawn_signs(len(values)) @ values) >= seen)
    return float((hits + 1) / (DRAWS + 1))


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
    value, n = statistics.fmean(differences), len(differences)
    ahead, flip_p = sum(one > 0 for one in differences), sign_flip(differences)
    if n < 2 or _constant(differences):
        return Difference(value, None, None, None, "paired", n, flip_p if n > 1 else None, ahead)
    variance = statistics.variance(differences)
    low, high, p = _interval(value, math.sqrt(variance / n), n - 1, confidence)
    probability = float(stats.t.cdf(value / math.sqrt(variance * (1 + 1 / n)), n - 1))
    return Difference(value, low, high, p, "paired", n, flip_p, ahead, probability)


def _welch(ours: list[float], base: list[float], confidence: float) -> Difference:
    value, n = statistics.fmean(ours) - statistics.fmean(base), min(len(ours), len(base))
    # One constant side is fine, Welch's formula holds; two leave nothing to judge the difference by.
    if n < 2 or (_constant(ours) and _constant(base)):
        return Difference(value, None, None, None, "welch", n)
    a, b = statistics.variance(ours), statistics.variance(base)
    mean = _satterthwaite((a / len(ours), len(ours)), (b / len(base), len(base)))
    low, high, p = _interval(value, *mean, confidence)
    error, freedom = _satterthwaite((a * (1 + 1 / len(ours)), len(ours)), (b * (1 + 1 / len(base)), len(base)))
    return Difference(value, low, high, p, "welch", n, probability=float(stats.t.cdf(value / error, freedom)))


def _satterthwaite(*parts: tuple[float, int]) -> tuple[float, float]:
    """Standard error and degrees of freedom of a sum; each part is its variance and how many values it came from."""
    total = sum(variance for variance, _ in parts)
    return math.sqrt(total), total**2 / sum(variance**2 / (n - 1) for variance, n in parts)


def _all_sums(values: np.ndarray) -> np.ndarray:
    """Sums under every assignment of signs; the first keeps its sign, since a sum and its negative count alike."""
    sums = values[:1]
    for value in values[1:]:
        sums = np.concatenate([sums + value, sums - value])
    return sums


@lru_cache(maxsize=4)
def _drawn_signs(n: int) -> np.ndarray:
    return np.random.default_rng(0).choice(np.array([-1.0, 1.0]), size=(DRAWS, n))


def _interval(value: float, error: float, freedom: float, confidence: float) -> tuple[float, float, float]:
    """Lower and upper bound and two-sided p-value of Student's t."""
    half = float(stats.t.ppf((1 + confidence) / 2, freedom)) * error
    return value - half, value + half, 2 * float(stats.t.sf(abs(value) / error, freedom))


def _constant(values: list[float]) -> bool:
    """Whether the values differ by rounding only, so that a test would divide by rounding errors."""
    return max(values) - min(values) <= 1e-9 * max(1.0, *map(abs, values))
