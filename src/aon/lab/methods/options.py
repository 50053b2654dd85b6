"""Options of a method word: type, range and default; read from text and written back."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal

from aon.lab.errors import LabError
from aon.lab.system.shown import shortened
from aon.lab.system.suggest import unknown

Value = int | float | bool | str

_TRUE = ("on", "yes", "true", "1")
_FALSE = ("off", "no", "false", "0")


@dataclass(frozen=True)
class Option:
    """One option of one word of the grammar.

    Attributes:
        name: What the user writes before `=`.
        kind: The type of its values.
        default: What holds if it is not given; None where the method as a whole decides.
        least: Smallest value allowed.
        most: Largest value allowed.
        above: Whether `least` itself is refused.
        choices: The values of a choice.
        symbol: What tables write instead of the name.
        shown: Whether tables show it even at its default, as they do q in AON(q=2).
        only_with: Another option of the word and the value that it must have where this one is not at its default.
    """

    name: str
    kind: Literal["int", "float", "flag", "choice"]
    default: Value | None
    least: float = -inf
    most: float = inf
    above: bool = False
    choices: tuple[str, ...] = ()
    symbol: str = ""
    shown: bool = False
    only_with: tuple[str, Value] | None = None

    def read(self, text: str) -> Value:
        """The value that the text means.

        Raises:
            LabError: If it is of the wrong type or out of range.

        Example:
            >>> integer("order", 2, least=0, most=64).read("4")
            4
        """
        return _READERS[self.kind](self, text)

    @property
    def expected(self) -> str:
        """What a value should be, in words, for errors and help.

        Example:
            >>> number("beta", 10.0).expected
            'a number of 0 or more'
        """
        if self.kind == "choice":
            return f"one of {', '.join(self.choices)}"
        if self.kind == "flag":
            return "on or off"
        noun = "a whole number" if self.kind == "int" else "a number"
        low = f"above {written(self.least)}" if self.above else f"of {written(self.least)} or more"
        high = "" if self.most == inf else f" and at most {written(self.most)}"
        return f"{noun} {low}{high}"


def integer(name: str, default: int, *, least: int, most: int, symbol: str = "", shown: bool = False) -> Option:
    """An option that takes whole numbers."""
    return Option(name, "int", default, least, most, symbol=symbol, shown=shown)


def number(
    name: str,
    default: float,
    *,
    least: float = 0.0,
    most: float = inf,
    above: bool = False,
    symbol: str = "",
    shown: bool = False,
    only_with: tuple[str, Value] | None = None,
) -> Option:
    """An option that takes finite numbers."""
    return Option(name, "float", default, least, most, above, symbol=symbol, shown=shown, only_with=only_with)


def flag(name: str, default: bool | None, *, only_with: tuple[str, Value] | None = None) -> Option:
    """An option that is on or off; a default of None is for the method as a whole to decide."""
    return Option(name, "flag", default, only_with=only_with)


def choice(name: str, *choices: str, only_with: tuple[str, Value] | None = None) -> Option:
    """An option that takes one of a few words, the first being the default."""
    return Option(name, "choice", choices[0], choices=choices, only_with=only_with)


def written(value: Value) -> str:
    """A value as the grammar writes it; reading it gives the same value again.

    Example:
        >>> written(True), written(20.0), written(1e16), written(5e-4)
        ('on', '20', '1e16', '0.0005')
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    # "+" separates the words of a method, so an exponent is written without it.
    return str(value).removesuffix(".0").replace("e+", "e") if isinstance(value, float) else str(value)


def _read_int(option: Option, text: str) -> int:
    # No more digits than any range needs: int() of a very long text is slow or refused by Python.
    if not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise _refused(option, text)
    return int(_in_range(option, int(text), text))


def _read_float(option: Option, text: str) -> float:
    try:
        value = float(text) + 0.0  # "-0" becomes 0, one spelling for one value
    except ValueError:
        raise _refused(option, text) from None
    return _in_range(option, value, text)


def _in_range(option: Option, value: float, text: str) -> float:
    inside = isfinite(value) and option.least <= value <= option.most
    if not inside or (option.above and value == option.least):
        raise _refused(option, text)
    return value


def _read_flag(option: Option, text: str) -> bool:
    if text not in _TRUE + _FALSE:
        raise _refused(option, text)
    return text in _TRUE


def _read_choice(option: Option, text: str) -> str:
    if text not in option.choices:
        raise unknown(f"{option.name}", text, option.choices)
    return text


def _refused(option: Option, text: str) -> LabError:
    return LabError(f"{option.name}={shortened(text, 100)}: expected {option.expected}")


_READERS: dict[str, Callable[[Option, str], Value]] = {
    "int": _read_int,
    "float": _read_float,
    "flag": _read_flag,
    "choice": _read_choice,
}
