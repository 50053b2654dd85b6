"""Select layers of a model by `include` and `exclude`.

A selector is a module's name, a shell-style pattern of names, a module type, or a predicate (name, module) -> bool.
Names, patterns and types also select everything below the module that they match. A module that a model has under
two names is selected by either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from torch import nn

from aon.kernels.checks import nearest
from aon.model.matrices import Layer, Mappable, is_depthwise, is_mappable, is_supported

Predicate = Callable[[str, nn.Module], bool]
Selector = str | type[nn.Module] | Predicate
Selection = Selector | Sequence[Selector] | None
EXCLUDED, NOT_INCLUDED = "excluded", "not included"
DEPTHWISE = "depthwise convolution; give its own name to include it"


class Choice(NamedTuple):
    """The decision about one layer; `reason` is empty if it is selected.

    `explicit` is true where `include` gives one of the layer's own names.
    """

    name: str
    layer: Mappable
    reason: str
    explicit: bool

    @property
    def taken(self) -> bool:
        """Whether the layer is selected."""
        return not self.reason


def choose(model: nn.Module, include: Selection = None, exclude: Selection = None) -> list[Choice]:
    """Decide for every Linear, convolution and MultiheadAttention of a model whether it is selected.

    Depthwise convolutions are taken only if `include` gives their own name, or a predicate says so.

    Raises:
        TypeError: A selector is none of the four kinds.
        ValueError: A name or pattern matches no module at all.
    """
    wanted, unwanted = _listed(include, "include"), _listed(exclude, "exclude")
    ancestry = _ancestry(model)
    _check_names(wanted + unwanted, [line[-1][0] for lines in ancestry for line in lines])
    choices = []
    for lines in ancestry:
        name, layer = lines[0][-1]
        if is_mappable(layer):
            explicit = any(
                selector == line[-1][0] for selector in wanted if isinstance(selector, str) for line in lines
            )
            reason = _reason(lines, wanted, unwanted, include is None, explicit)
            choices.append(Choice(name, layer, reason, explicit))
    return choices


def select(model: nn.Module, include: Selection = None, exclude: Selection = None) -> list[tuple[str, Layer]]:
    """Names and layers that are selected, Linear and convolutions only, in the model's order.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 4))
        >>> [name for name, _ in select(model, exclude="2")]
        ['0']
    """
    choices = choose(model, include, exclude)
    return [(choice.name, choice.layer) for choice in choices if not choice.reason and is_supported(choice.layer)]


Line = tuple[tuple[str, nn.Module], ...]


def _ancestry(model: nn.Module) -> list[list[Line]]:
    """For every module the lines of (name, module) from the root down to it: one for each name that it has."""
    lines: dict[str, Line] = {}
    grouped: dict[nn.Module, list[Line]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        parent = lines[name.rpartition(".")[0]] if name else ()
        lines[name] = (*parent, (name, module))
        grouped.setdefault(module, []).append(lines[name])
    return list(grouped.values())


def _listed(selectors: Selection, argument: str) -> list[Selector]:
    if selectors is None:
        return []
    listed: list[Selector] = (
        list(selectors) if isinstance(selectors, Sequence) and not isinstance(selectors, str) else [selectors]
    )
    for selector in listed:
        known = isinstance(selector, str) or callable(selector)
        if isinstance(selector, type) and not issubclass(selector, nn.Module):
            known = False
        if not known:
            raise TypeError(f"{argument}={selector!r}: expected a module name, a pattern, a module type or a predicate")
    return listed


def _check_names(selectors: list[Selector], names: list[str]) -> None:
    """Raise a ValueError for a name that matches nothing, with the nearest names."""
    for selector in selectors:
        if isinstance(selector, str) and not any(fnmatchcase(name, selector) for name in names):
            near = nearest(selector, names)
            hint = f"; did you mean {near!r}?" if near else ""
            raise ValueError(f"no module of the model is called {selector!r}{hint}")


def _matches(selectors: Sequence[Selector], lines: list[Line]) -> bool:
    return any(_matches_line(selector, line) for selector in selectors for line in lines)


def _matches_line(selector: Selector, line: Line) -> bool:
    if isinstance(selector, str):
        return any(fnmatchcase(name, selector) for name, _ in line)
    if isinstance(selector, type):
        return any(isinstance(module, selector) for _, module in line)
    return bool(selector(*line[-1]))


def _reason(
    lines: list[Line], wanted: list[Selector], unwanted: list[Selector], all_wanted: bool, explicit: bool
) -> str:
    layer = lines[0][-1][1]
    assert is_mappable(layer)
    if _matches(unwanted, lines):
        return EXCLUDED
    if not all_wanted and not _matches(wanted, lines):
        return NOT_INCLUDED
    predicates = [selector for selector in wanted if not isinstance(selector, (str, type))]
    if is_depthwise(layer) and not explicit and not _matches(predicates, lines):
        return DEPTHWISE
    return ""
