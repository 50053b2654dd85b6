"""Interleaved measurement: every round times every variant once, and a ratio is a median over rounds.

A machine grows slower and faster while a benchmark runs. Variants that are timed one right after the other see the same
machine load, so the ratio of two times of one round is steady where the times themselves are not.
"""

import gc
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from statistics import median, quantiles
from typing import Literal, cast

from aon.lab.errors import LabError
from aon.lab.system.checks import check_at_least

Run = Callable[[], object]
Repeats = list[float | None]
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass(frozen=True)
class Plan:
    """How often to measure.

    Attributes:
        rounds: Rounds, each with one time of every variant.
        warm_up: Calls of every variant before the first round.
        least: A time is taken over as many calls as last this many seconds, then divided by their number.
        limit: Seconds after which a variant is left out of the rounds that remain; it has one time at least.
        clock: `wall`, or `cpu` for the processor time of this process, which other processes disturb less.

    Raises:
        LabError: if a number or the clock makes no sense.
    """

    rounds: int = 11
    warm_up: int = 2
    least: float = 0.1
    limit: float | None = None
    clock: Literal["wall", "cpu"] = "wall"

    def __post_init__(self) -> None:
        check_at_least("rounds", self.rounds)
        check_at_least("warm-up", self.warm_up)
        if self.limit is not None and not self.limit > 0:
            raise LabError(f"limit = {self.limit}: expected a positive number of seconds")
        if self.clock not in CLOCKS:
            raise LabError(f"clock = {self.clock!r}: expected wall or cpu")


@dataclass
class Measured:
    """Seconds of a call by variant and round, None where a variant had used up its limit; and who failed, and why."""

    seconds: dict[str, Repeats] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ratio:
    """Median of the ratios of the rounds, their quartiles, and the number of rounds."""

    median: float
    low: float
    high: float
    n: int


def measure(
    variants: Mapping[str, Run],
    plan: Plan,
    *,
    may_fail: Collection[str] = (),
    notify: Callable[[str], None] = lambda _: None,
    wait: Callable[[], None] = lambda: None,
) -> Measured:
    """Time the variants in turns.

    Args:
        variants: What to call, by name. A call that returns a float tells its own seconds: an estimate of the whole.
        plan: How often.
        may_fail: Variants whose failure while they warm up is noted instead of raised: other people's code.
        notify: Called with a line for each thing that is being done.
        wait: Called before a clock is read; waits for a device that works on its own.

    Example:
        >>> measured = measure({"a": lambda: 1, "b": lambda: 2}, Plan(rounds=3, warm_up=1, least=0))
        >>> [len(repeats) for repeats in measured.seconds.values()]
        [3, 3]
    """
    timer = _Timer(plan, wait)
    measured = Measured()
    for name, run in variants.items():
        notify(f"warming up {name}")
        try:
            measured.calls[name] = timer.warm_up(name, run)
            measured.seconds[name] = []
        except Exception as error:
            if name not in may_fail:
                raise
            measured.failed[name] = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    for number in range(plan.rounds):
        notify(f"round {number + 1} of {plan.rounds}")
        gc.collect()  # between the times, since it is off while they are taken
        for name in turn(list(measured.seconds), number):
            measured.seconds[name].append(timer.take(name, variants[name], measured.calls[name]))
    return measured


def turn(names: Sequence[str], number: int) -> list[str]:
    """The order of a round. It rotates and reverses, so that no variant always has the same predecessor.

    Example:
        >>> turn("abc", 0), turn("abc", 1), turn("abc", 2)
        (['a', 'b', 'c'], ['c', 'b', 'a'], ['b', 'c', 'a'])
    """
    start = number // 2 % max(1, len(names))
    order = [*names[start:], *names[:start]]
    return order[::-1] if number % 2 else order


def ratio(values: Repeats, base: Repeats) -> Ratio | None:
    """Median over the rounds in which both were measured of values / base; None if there is no such round.

    Example:
        >>> ratio([2.0, 3.0, None], [1.0, 1.0, 1.0])
        Ratio(median=2.5, low=2.25, high=2.75, n=2)
    """
    found = [a / b for a, b in zip(values, base, strict=True) if a is not None and b]
    if not found:
        return None
    low, _, high = quantiles(found, method="inclusive") if len(found) > 1 else found * 3
    return Ratio(median(found), low, high, len(found))


def middle(values: Repeats) -> float | None:
    """Median of the times there are."""
    found = [value for value in values if value is not None]
    return median(found) if found else None


class _Timer:
    """The clock, and what each variant has used of its limit."""

    def __init__(self, plan: Plan, wait: Callable[[], None]) -> None:
        self.plan, self.wait, self.clock = plan, wait, CLOCKS[plan.clock]
        self.spent: dict[str, float] = {}
        self.first: dict[str, float] = {}

    def warm_up(self, name: str, run: Run) -> int:
        """Call a variant until it is warm; tells how many calls make one time."""
        for _ in range(self.plan.warm_up):
            last = self._time(name, run, 1)
            if self._over(name):
                # One time is better than none, and a second call might take as long again.
                self.first[name] = last
                break
        return max(1, ceil(self.plan.least / max(last, 1e-9)))

    def take(self, name: str, run: Run, calls: int) -> float | None:
        """One time of a variant, or None if its limit is reached."""
        if self._over(name):
            return self.first.pop(name, None)
        return self._time(name, run, calls) / calls

    def _over(self, name: str) -> bool:
        return self.plan.limit is not None and self.spent.get(name, 0.0) >= self.plan.limit

    def _time(self, name: str, run: Run, calls: int) -> float:
        gc.disable()
        try:
            began, wall = self.clock(), time.perf_counter()
            results = [run() for _ in range(calls)]
            self.wait()
            seconds = self.clock() - began
            if results and isinstance(results[0], float):
                seconds = sum(cast(list[float], results))
        finally:
            gc.enable()
        self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - wall
        return seconds
