"""Checks of arguments that raise one-line errors."""

from __future__ import annotations


def check_count(argument: str, value: object, least: int = 1) -> None:
    """Raise a ValueError unless the value is a whole number of at least `least`.

    Example:
        >>> check_count("micro_batches", 0)
        Traceback (most recent call last):
        ValueError: micro_batches=0: expected a whole number, 1 or more
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{argument}={value!r}: expected a whole number, {least} or more")
