"""Options of the AON map, and their validation."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from aon.kernels.checks import check_count
from aon.kernels.polynomials import (
    Polynomial,
    expansion_coefficients,
    minimax_polynomial,
    taylor_coefficients,
    top_radius,
)

SCALES = ("spectral", "frobenius", None)
CENTRES = ("one", "mean", "top")
EXPANSIONS = ("taylor", "minimax")
LOWER = (0.001, 0.9)  # where the interval of the minimax polynomial may begin
GAIN_INITS = ("ones", "match")
LOW_ORDER = 2  # up to this, powers of G lose no digits to cancellation


class Settings(NamedTuple):
    """Options of the AON map; `aon.normalise` says what they mean."""

    order: int = 2
    scale: str | None = "spectral"
    centre: str = "one"
    prescale: bool = False
    n_power_iterations: int = 1
    eps: float = 1e-12
    expansion: str = "taylor"
    lower: float = 0.2

    @property
    def relative_to(self) -> str:
        """What the centre of the expansion is a multiple of: "one", the "mean" or the largest ("top") eigenvalue."""
        if self.centre != "one":
            return self.centre
        return "top" if self.prescale or self.expansion == "minimax" else "one"

    @property
    def moves_centre(self) -> bool:
        """Whether the expansion is about another number than 1."""
        return self.relative_to != "one"

    @property
    def keeps_order(self) -> bool:
        """Whether the leading vector of P(W) W is that of W.

        A polynomial of odd order falls beyond the centre, so that the largest singular value need not stay the largest.
        """
        return self.order % 2 == 0 or self.relative_to == "top"

    @property
    def polynomial(self) -> Polynomial:
        """Coefficients and centre of the expansion."""
        return _constant(self.order, self.scale, self.centre, self.expansion, self.lower)

    @property
    def in_powers_of_gram(self) -> tuple[float, ...] | None:
        """Coefficients of P in powers of G, where they lose no digits: about one, up to order 2. Otherwise None.

        That saves the calls that make I - G.
        """
        low = self.order <= LOW_ORDER and self.relative_to == "one"
        return _gram_coefficients(self.order) if low else None


def _gram_coefficients(order: int) -> tuple[float, ...]:
    """As `taylor_coefficients`, which has a cache; see `_constant`."""
    return taylor_coefficients(order)


def _constant(order: int, scale: str | None, centre: str, expansion: str, lower: float) -> Polynomial:
    """As `_polynomial`; torch.compile calls it once instead of tracing it, which it cannot do with a cache."""
    return _polynomial(order, scale, centre, expansion, lower)


# As torch.compiler.assume_constant_result does; calling that would load the compiler, a third of `import aon`'s time.
_constant._dynamo_marked_constant = True  # type: ignore[attr-defined]
_gram_coefficients._dynamo_marked_constant = True  # type: ignore[attr-defined]


@cache
def _polynomial(order: int, scale: str | None, centre: str, expansion: str, lower: float) -> Polynomial:
    if expansion == "minimax":
        return minimax_polynomial(order, lower, bounded=scale == "spectral")
    return Polynomial(expansion_coefficients(order), top_radius(order) if centre == "top" else 1.0)


def check_settings(
    order: int,
    scale: str | None,
    centre: str,
    prescale: bool,
    n_power_iterations: int,
    eps: float,
    expansion: str = "taylor",
    lower: float = 0.2,
) -> Settings:
    """The settings, or a ValueError that names the one that is wrong and what it may be.

    Example:
        >>> check_settings(2, "spectral", "median", False, 1, 1e-12)
        Traceback (most recent call last):
        ValueError: centre='median': expected one of 'one', 'mean', 'top'
    """
    expansion_coefficients(order)
    check_word("scale", scale, SCALES)
    check_word("centre", centre, CENTRES)
    if not isinstance(prescale, bool):
        raise ValueError(f"prescale={prescale!r}: expected True or False")
    check_count("n_power_iterations", n_power_iterations)
    if not isinstance(eps, float | int) or not 0 < eps < 1:
        raise ValueError(f"eps={eps!r}: expected a number between 0 and 1")
    settings = Settings(order, scale, centre, prescale, n_power_iterations, eps, expansion, lower)
    _check_expansion(settings)
    return settings


def _check_expansion(settings: Settings) -> None:
    check_word("expansion", settings.expansion, EXPANSIONS)
    lower, default = settings.lower, Settings()
    if isinstance(lower, bool) or not isinstance(lower, float | int) or not LOWER[0] <= lower <= LOWER[1]:
        raise ValueError(f"lower={lower!r}: expected a number between {LOWER[0]} and {LOWER[1]}")
    if settings.expansion == "taylor":
        if lower != default.lower:
            raise ValueError(f"lower={lower!r}: expected with expansion='minimax' only")
        return
    for option in ("centre", "prescale"):
        if getattr(settings, option) != getattr(default, option):
            raise ValueError(f"{option}={getattr(settings, option)!r}: expected with expansion='taylor' only")
    _ = settings.polynomial  # refuses an order that is too high


def check_word(argument: str, value: object, words: tuple[str | None, ...]) -> None:
    """Raise a ValueError unless the value is one of those allowed."""
    if value not in words:
        raise ValueError(f"{argument}={value!r}: expected one of {', '.join(map(repr, words))}")
