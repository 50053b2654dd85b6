"""Checks of arguments that raise one-line errors."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

# Half of the letters in common: below that, a suggestion is a guess.
_NEAR = 0.5
# Longer than any word there is; to compare a very long one takes long.
_LONGEST = 100


def check_count(argument: str, value: object, least: int = 1) -> None:
    """Raise a ValueError unless the value is a whole number of at least `least`.

    Example:
        >>> check_count("micro_batches", 0)
        Traceback (most recent call last):
        ValueError: micro_batches=0: expected a whole number, 1 or more
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{argument}={value!r}: expected a whole number, {least} or more")


def check_that(holds: bool, argument: str, value: object, expected: str) -> None:
    """Raise a ValueError unless the condition holds.

    Example:
        >>> check_that(-1.0 > 0, "eps", -1.0, "a number above 0")
        Traceback (most recent call last):
        ValueError: eps=-1.0: expected a number above 0
    """
    if not holds:
        raise ValueError(f"{argument}={value!r}: expected {expected}")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like the given one; None if none is like it. Of several equally near, the first.

    Example:
        >>> nearest("oder", ["beta", "order"])
        'order'
    """
    if len(word) > _LONGEST:
        return None
    scores = {name: SequenceMatcher(None, word.lower(), name).ratio() for name in known}
    best = max(scores, key=lambda name: scores[name], default=None)
    return best if best is not None and scores[best] >= _NEAR else None
