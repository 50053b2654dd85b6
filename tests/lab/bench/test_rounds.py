"""The order of rounds, ratios from given times, limits and failures; the clock itself is not tested."""

import pytest

from aon.lab.bench import rounds
from aon.lab.bench.rounds import Plan, Ratio, measure, middle, ratio, turn
from aon.lab.errors import LabError

QUICK = Plan(rounds=4, warm_up=1, least=0)


class Clock:
    """A clock that stands still unless someone works."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setitem(rounds.CLOCKS, "wall", clock)
    monkeypatch.setattr(rounds.time, "perf_counter", clock)
    return clock


def worker(clock, name, log, seconds):
    times = iter(seconds)

    def run():
        log.append(name)
        clock.now += next(times)

    return run


def test_every_round_has_every_variant_and_no_fixed_neighbour():
    log = []
    names = "abcd"
    measure({name: lambda name=name: log.append(name) for name in names}, Plan(rounds=8, warm_up=2, least=0))
    warm, timed = log[:8], log[8:]
    assert warm == list("aabbccdd")
    each = [timed[i : i + 4] for i in range(0, len(timed), 4)]
    assert len(each) == 8
    assert all(sorted(one) == list(names) for one in each)
    assert len({one[0] for one in each}) == 4
    before_b = {one[one.index("b") - 1] for one in each if one[0] != "b"}
    assert before_b == {"a", "c"}


def test_order_of_no_variants_and_of_one():
    assert turn([], 3) == []
    assert turn(["a"], 5) == ["a"]


def test_seconds_are_those_of_the_clock_without_the_warm_up(clock):
    log = []
    variants = {
        "slow": worker(clock, "slow", log, [100, 2, 4, 6, 8]),
        "fast": worker(clock, "fast", log, [50, 1, 1, 2, 2]),
    }
    measured = measure(variants, QUICK)
    assert measured.seconds == {"slow": [2, 4, 6, 8], "fast": [1, 1, 2, 2]}
    assert log[2:] == ["slow", "fast", "fast", "slow", "fast", "slow", "slow", "fast"]


def test_short_calls_are_gathered_and_divided(clock):
    measured = measure({"a": worker(clock, "a", [], [0.25] * 99)}, Plan(rounds=2, warm_up=1, least=1.0))
    assert measured.calls == {"a": 4}
    assert measured.seconds == {"a": [0.25, 0.25]}


def test_a_variant_over_its_limit_leaves_the_rounds(clock):
    variants = {
        "steady": worker(clock, "steady", [], [1] * 9),
        "slow": worker(clock, "slow", [], [4, 5, 6, 7]),
        "hopeless": worker(clock, "hopeless", [], [300]),
    }
    measured = measure(variants, Plan(rounds=4, warm_up=1, least=0, limit=8))
    assert measured.seconds["steady"] == [1, 1, 1, 1]
    assert measured.seconds["slow"] == [5, None, None, None]
    assert measured.seconds["hopeless"] == [300, None, None, None]


def test_a_call_may_tell_its_own_seconds(clock):
    measured = measure({"estimate": lambda: 12.5}, Plan(rounds=2, warm_up=1, least=0))
    assert measured.seconds == {"estimate": [12.5, 12.5]}


def test_failure_is_noted_for_others_and_raised_for_ours():
    def broken():
        raise RuntimeError("out of\nmemory")

    measured = measure({"ours": lambda: None, "theirs": broken}, QUICK, may_fail={"theirs"})
    assert measured.failed == {"theirs": "RuntimeError: out of memory"}
    assert list(measured.seconds) == ["ours"]
    with pytest.raises(RuntimeError, match="out of"):
        measure({"ours": broken}, QUICK)


def test_the_device_is_waited_for_before_the_clock_is_read():
    log = []
    measure({"a": lambda: log.append("run")}, Plan(rounds=1, warm_up=1, least=0), wait=lambda: log.append("wait"))
    assert log == ["run", "wait"] * 2


def test_ratio_is_the_median_of_the_ratios_and_not_the_ratio_of_the_medians():
    slow, fast = [2.0, 30.0, 4.0], [1.0, 10.0, 4.0]
    assert ratio(slow, fast) == Ratio(median=2.0, low=1.5, high=2.5, n=3)
    assert middle(slow) / middle(fast) == 1.0


def test_ratio_takes_only_rounds_that_both_have():
    assert ratio([3.0, None, 8.0], [1.0, 1.0, None]) == Ratio(3.0, 3.0, 3.0, 1)
    assert ratio([None, None], [1.0, 1.0]) is None
    assert middle([None]) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rounds": 0}, "rounds = 0: should be at least 1"),
        ({"warm_up": 0}, "warm-up = 0: should be at least 1"),
        ({"limit": 0.0}, "limit = 0.0: expected a positive number"),
        ({"clock": "sun"}, "clock = 'sun': expected wall or cpu"),
    ],
)
def test_plans_without_sense_are_refused(given, message):
    with pytest.raises(LabError, match=message):
        Plan(**given)
