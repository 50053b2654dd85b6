"""Summaries and differences against scipy's own tests, and the cases where there is nothing to say."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from aon.lab.report.statistics import (
    DRAWS,
    EXACT_PAIRS,
    Difference,
    Summary,
    difference,
    holm,
    mean_and_band,
    sign_flip,
    summarise,
)

ACCURACY = st.floats(0, 100)


def by_seed(values, first=0):
    return dict(enumerate(values, start=first))


def test_spread_is_the_sample_standard_deviation():
    assert summarise([1.0, 3.0]) == Summary(2, 2.0, pytest.approx(math.sqrt(2)))


def test_one_value_has_no_spread_and_none_has_no_mean():
    assert summarise([5.0]) == Summary(1, 5.0, None)
    assert summarise([]) == Summary(0, None, None)


def test_values_that_are_not_finite_do_not_count():
    assert summarise([1.0, math.nan, math.inf, 3.0]).n == 2


@given(st.lists(ACCURACY, min_size=2, max_size=6), st.lists(ACCURACY, min_size=6, max_size=6))
def test_same_seeds_give_the_paired_test(ours, base):
    base = base[: len(ours)]
    found = difference(by_seed(ours), by_seed(base))
    assert found.kind == "paired"
    if found.p is None:
        gaps = [a - b for a, b in zip(ours, base, strict=True)]
        assert max(gaps) - min(gaps) < 1e-6
        return
    if found.high - found.low < 1e-4:  # scipy warns of lost precision there
        return
    expected = stats.ttest_rel(ours, base)
    interval = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue, abs=1e-9)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-6, abs=1e-6)


def test_different_seeds_give_welch():
    ours, base = [74.0, 75.0, 74.2], [70.0, 70.5, 71.0, 69.0]
    found = difference(by_seed(ours), by_seed(base, first=9), confidence=0.9)
    expected = stats.ttest_ind(ours, base, equal_var=False)
    interval = expected.confidence_interval(0.9)
    assert found.kind == "welch"
    assert found.value == pytest.approx(sum(ours) / 3 - sum(base) / 4)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert (found.n, found.flip_p, found.ahead) == (3, None, None)


def test_seeds_that_overlap_in_part_are_paired_over_the_common_ones():
    ours, base = {0: 74.0, 1: 75.0, 2: 74.5, 7: 99.0}, {0: 70.0, 1: 70.5, 2: 71.0, 8: 1.0}
    common = difference({seed: ours[seed] for seed in range(3)}, {seed: base[seed] for seed in range(3)})
    assert difference(ours, base) == common
    assert (common.kind, common.n) == ("paired", 3)


@given(st.lists(st.integers(-500, 500), min_size=2, max_size=9))
def test_the_sign_flip_test_is_scipys_permutation_test(hundredths):
    gaps = np.array(hundredths) / 100  # an accuracy on 10,000 images has two decimals
    expected = stats.permutation_test(
        (gaps, np.zeros(len(gaps))),
        lambda ours, base, axis: (ours - base).mean(axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    )
    assert sign_flip(list(gaps)) == pytest.approx(min(1.0, expected.pvalue), abs=1e-12)


def test_the_sign_flip_test_beyond_the_exact_size_is_near_and_always_the_same():
    gaps = list(np.random.default_rng(1).normal(0.4, 1.0, EXACT_PAIRS))
    exact, sampled = sign_flip(gaps), sign_flip([*gaps, 0.0])  # a difference of zero has no sign to flip
    error = math.sqrt(exact * (1 - exact) / DRAWS)
    assert abs(sampled - exact) < 5 * error
    assert sampled == sign_flip([*gaps, 0.0])
    assert sign_flip([]) is None


def test_the_probability_is_students_predictive_one():
    found = difference(by_seed([1.0, 2.0, 3.0]), by_seed([0.0] * 3))
    assert found.probability == pytest.approx(stats.t.cdf(2 / math.sqrt(4 / 3), 2))


def test_the_probability_is_a_half_where_the_means_are_equal_and_mirrors():
    equal = difference(by_seed([1.0, 2.0, 3.0]), by_seed([3.0, 2.0, 1.0]))
    assert equal.probability == pytest.approx(0.5)
    ours, base = by_seed([1.0, 2.0, 4.0]), by_seed([1.5, 1.0, 2.0], first=9)
    assert difference(ours, base).probability + difference(base, ours).probability == pytest.approx(1.0)


def test_pairing_uses_the_seed_and_not_the_order():
    ours, base = {0: 70.0, 1: 75.0, 2: 72.0}, {2: 71.0, 0: 69.1, 1: 74.0}
    assert difference(ours, base).p < 0.01
    assert difference(ours, {s + 10: v for s, v in base.items()}).p > 0.3  # unpaired, the seeds' luck hides it


def test_single_seed_gives_a_value_and_nothing_more():
    assert difference({0: 74.0}, {0: 70.0}) == Difference(4.0, None, None, None, "paired", n=1, ahead=1)
    assert difference({0: 74.0}, {1: 70.0, 2: 70.0}) == Difference(4.0, None, None, None, "welch", n=1)


def test_repetitions_without_variation_give_no_p_value():
    assert difference(by_seed([74.1] * 3), by_seed([70.0] * 3)).p is None
    assert difference(by_seed([74.1] * 3), by_seed([70.0] * 3)).flip_p == 0.25  # two of eight assignments
    assert difference(by_seed([74.1] * 3, first=9), by_seed([70.0] * 3)).p is None
    one_sided = difference(by_seed([74.1] * 3, first=9), by_seed([70.0, 71.0, 72.0]))
    assert one_sided.p == pytest.approx(stats.t.sf(3.1 / math.sqrt(1 / 3), 2) * 2)


def test_no_data_gives_no_difference():
    assert difference({}, {0: 1.0}) is None
    assert difference({0: math.nan}, {0: 1.0}) is None


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.5, math.nan])
def test_confidence_is_checked(confidence):
    with pytest.raises(ValueError, match=r"confidence must lie between 0 and 1, got"):
        difference({0: 1.0}, {0: 1.0}, confidence=confidence)


def test_holm_is_monotone_and_capped():
    assert holm([0.03, 0.01, 0.8]) == [0.06, 0.03, 0.8]
    assert holm([0.04, 0.03]) == [0.06, 0.06]  # never below a smaller p's correction
    assert holm([0.9, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_band_over_curves_of_unequal_length():
    points = mean_and_band([[1.0, 2.0, 3.0], [3.0, None], [5.0, math.nan]])
    assert [point.n for point in points] == [3, 1, 1]
    assert points[0] == Summary(3, 3.0, 2.0)
    assert mean_and_band([]) == []
