"""Vary an option of methods: each method that has it becomes one method for each value."""

from collections.abc import Sequence

from aon.lab.errors import LabError
from aon.lab.methods.grammar import Method, Part, compose, parse
from aon.lab.methods.options import written
from aon.lab.methods.vocabulary import VOCABULARY
from aon.lab.system.shown import shown

OPTION_NAMES = frozenset(option.name for word in VOCABULARY.values() for option in word.options)


def vary_option(methods: Sequence[str], name: str, values: Sequence[object]) -> tuple[str, ...]:
    """The methods with an option at each of several values; methods without the option stay as they are.

    Of methods that compute the same, the first is kept.

    Args:
        methods: Names of methods.
        name: The option.
        values: Its values, as text or plain data.

    Raises:
        LabError: If no method has the option, or a method has it in two words, or a value is not allowed.

    Example:
        >>> vary_option(["bn", "bn+orth"], "beta", [1, 10, 100])
        ('bn', 'bn+orth:beta=1', 'bn+orth', 'bn+orth:beta=100')
    """
    parsed = [parse(method) for method in methods]
    owners = [[part for part in method.parts if part.word.has(name)] for method in parsed]
    if not any(owners):
        raise LabError(f"vary = {shown(name)}: none of the methods {', '.join(methods)} has this option")
    found: list[Method] = []
    for method, parts in zip(parsed, owners, strict=True):
        if len(parts) > 1:
            several = " and ".join(part.name for part in parts)
            raise LabError(f"vary = {shown(name)}: {several} both have it in {method}; list the methods instead")
        found += [_with(method, parts[0], name, value) for value in values] if parts else [method]
    distinct: dict[Method, str] = {}
    for method in found:
        distinct.setdefault(method.effective, str(method))
    return tuple(distinct.values())


def _with(method: Method, owner: Part, name: str, value: object) -> Method:
    text = written(value) if isinstance(value, bool | int | float) else str(value)
    try:
        read = owner.word.option(name).read(text)
    except LabError as error:
        raise LabError(f"vary.{name}: {owner.name}: {error}") from None
    kept = tuple((key, old) for key, old in owner.options if key != name)
    return compose(Part(part.name, (*kept, (name, read))) if part is owner else part for part in method.parts)
