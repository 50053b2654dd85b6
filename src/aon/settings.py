"""The choices that make one h(W) of many, and what they may be."""

from __future__ import annotations

from typing import NamedTuple

from aon.polynomials import expansion_coefficients

SCALES = ("spectral", "frobenius", None)
CENTRES = ("one", "mean")
GAIN_INITS = ("ones", "match")


class Settings(NamedTuple):
    """The choices that make one h(W) of many; `aon.normalise` says what they mean."""

    order: int = 2
    scale: str | None = "spectral"
    centre: str = "one"
    prescale: bool = False
    n_power_iterations: int = 1
    eps: float = 1e-12

    @property
    def moves_centre(self) -> bool:
        """Whether the expansion is about another number than 1."""
        return self.centre == "mean" or self.prescale


def check_settings(
    order: int, scale: str | None, centre: str, prescale: bool, n_power_iterations: int, eps: float
) -> Settings:
    """The settings, or a ValueError that names the one that is wrong and what it may be.

    Example:
        >>> check_settings(2, "spectral", "median", False, 1, 1e-12)
        Traceback (most recent call last):
        ValueError: centre='median': expected one of 'one', 'mean'
    """
    expansion_coefficients(order)
    check_word("scale", scale, SCALES)
    check_word("centre", centre, CENTRES)
    if not isinstance(prescale, bool):
        raise ValueError(f"prescale={prescale!r}: expected True or False")
    if isinstance(n_power_iterations, bool) or not isinstance(n_power_iterations, int) or n_power_iterations < 1:
        raise ValueError(f"n_power_iterations={n_power_iterations!r}: expected a whole number, 1 or more")
    if not isinstance(eps, float | int) or not 0 < eps < 1:
        raise ValueError(f"eps={eps!r}: expected a number between 0 and 1")
    return Settings(order, scale, centre, prescale, n_power_iterations, eps)


def check_word(argument: str, value: object, words: tuple[str | None, ...]) -> None:
    """Raise a ValueError unless the value is one of the words."""
    if value not in words:
        raise ValueError(f"{argument}={value!r}: expected one of {', '.join(map(repr, words))}")
