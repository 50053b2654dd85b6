"""Parse and print method names. Needs no torch, so the command line can check a name at once.

    method  = word ("+" word)*          bn+aon
    word    = name (":" option)*        aon:order=4:centre=mean
    option  = key "=" value
    list    = method ("," method)*      bn,bn+orth,bn+aon

A method has one canonical spelling: its words in the order of `vocabulary.FAMILIES`, options in the order of
the vocabulary, those at their default left out, and `sn` as `aon:order=0`. Two spellings of one method give
equal methods.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from aon.lab.errors import LabError
from aon.lab.methods.options import Option, Value, written
from aon.lab.methods.vocabulary import FAMILIES, NOTHING, SEVERAL, VOCABULARY, Word
from aon.lab.system.shown import shown
from aon.lab.system.suggest import unknown


@dataclass(frozen=True)
class Part:
    """One word of a method with the options that differ from their defaults, in the vocabulary's order."""

    name: str
    options: tuple[tuple[str, Value], ...] = ()

    @property
    def word(self) -> Word:
        """What the vocabulary says about it."""
        return VOCABULARY[self.name]

    def __getitem__(self, option: str) -> Any:  # of the option's own type
        default = self.word.option(option).default
        return dict(self.options).get(option, default)

    def __str__(self) -> str:
        return ":".join([self.name, *(f"{key}={written(value)}" for key, value in self.options)])

    @property
    def label(self) -> str:
        """The paper's spelling of the word, such as AON(q=4, centre=mean)."""
        given = dict(self.options)
        shown = [
            f"{option.symbol or option.name}={written(value)}"
            for option in self.word.options
            if (option.name in given or option.shown) and (value := self[option.name]) is not None
        ]
        return f"{self.word.label}({', '.join(shown)})" if shown else self.word.label


@dataclass(frozen=True)
class Method:
    """A combination of words, as `parse` and `compose` make it: checked, and in canonical order.

    Example:
        >>> method = parse("aon:centre=mean:order=4+bn")
        >>> str(method)
        'bn+aon:order=4:centre=mean'
        >>> method.label
        'BN+AON(q=4, centre=mean)'
    """

    parts: tuple[Part, ...] = ()

    def __str__(self) -> str:
        return "+".join(str(part) for part in self.parts) or NOTHING

    @property
    def label(self) -> str:
        """How tables and figures call the method: the paper's spelling."""
        return "+".join(part.label for part in self.parts) or VOCABULARY[NOTHING].label

    def of(self, family: str) -> tuple[Part, ...]:
        """The words of one family, in canonical order.

        Example:
            >>> parse("bn+orth").of("penalty")
            (Part(name='orth', options=()),)
        """
        return tuple(part for part in self.parts if part.word.family == family)

    def one(self, family: str) -> Part | None:
        """The word of a family of which a method has at most one, or None."""
        return next(iter(self.of(family)), None)

    @property
    def gain(self) -> bool:
        """Whether the outputs of mapped layers get a learnable scale, equation (5) of the paper.

        Deviation: off by default before a normaliser that removes the scale of each channel (BN, BRN, IN), where the
        paper has it too. On otherwise, also before LN, GN, IterNorm and DBN, whose output it changes.

        Example:
            >>> parse("bn+aon").gain, parse("iternorm+aon").gain, parse("aon").gain
            (False, True, True)
        """
        chosen, norm = self._chosen_gain(), self.one("norm")
        removed = norm is not None and norm.word.removes_scale
        return not removed if chosen is None else chosen

    @property
    def classifier_gain(self) -> bool:
        """Whether a mapped classifier gets a gain: yes unless the name has `gain=off`, since no normaliser follows it.

        Example:
            >>> parse("bn+aon").classifier_gain, parse("aon:gain=off").classifier_gain
            (True, False)
        """
        return self._chosen_gain() is not False

    def _chosen_gain(self) -> bool | None:
        """The option `gain` of the weight map; None if it is not given."""
        weight_map = self.one("map")
        chosen: bool | None = weight_map["gain"] if weight_map and weight_map.word.has("gain") else None
        return chosen

    @property
    def effective(self) -> "Method":
        """The method without options that change nothing, and `gn:groups=1` as `ln`: equal if two compute the same.

        Example:
            >>> str(parse("bn+aon:order=0:centre=mean").effective)
            'bn+aon:order=0'
        """
        return Method(tuple(_as_layer_norm(_without(part, *_idle(part))) for part in self.parts))


def parse(text: str) -> Method:
    """The method that a text names.

    Raises:
        LabError: If a name, an option or a value is unknown, or the words do not go together.

    Example:
        >>> parse("bn+orth:beta=20").label
        'BN+orthonormal(beta=20)'
        >>> parse("bn+aon:oder=4")
        Traceback (most recent call last):
        aon.lab.errors.LabError: unknown option of aon 'oder'; did you mean 'order'? (there are: order, ...)
    """
    if not text.strip():
        raise LabError(f"empty method name {shown(text)}; expected words such as bn, bn+orth or bn+aon:order=4")
    # Note [exponents]: the plus of 1e+3 does not separate words.
    return compose(_parse_part(word.strip()) for word in re.split(r"(?<![0-9]e)\+", text.strip().lower()))


def parse_list(text: str) -> tuple[Method, ...]:
    """The methods of a list separated by commas, in its order.

    Raises:
        LabError: If one of them cannot be read, or two of them compute the same.

    Example:
        >>> [str(method) for method in parse_list("bn, bn+aon:order=2")]
        ['bn', 'bn+aon']
    """
    methods = tuple(parse(entry) for entry in text.split(","))
    for position, method in enumerate(methods):
        if method in methods[:position]:
            raise LabError(f"method {str(method)!r} is given twice in {shown(text)}")
        twin = next((one for one in methods[:position] if one.effective == method.effective), None)
        if twin is not None:
            raise LabError(f"method {str(method)!r} computes the same as {str(twin)!r} in {shown(text)}; give only one")
    return methods


def compose(parts: Iterable[Part]) -> Method:
    """A method of the given words, checked and in canonical form.

    Raises:
        LabError: If a value is out of range, or two words exclude each other.

    Example:
        >>> str(compose([Part("aon", (("order", 2),)), Part("bn")]))
        'bn+aon'
    """
    checked = sorted((_checked(part) for part in parts), key=_place)
    _check_company(checked)
    method = Method(tuple(part for part in checked if part.name != NOTHING))
    # Note [gain]: its default depends on the other words, so it is dropped only now.
    bare = Method(tuple(_without(part, "gain") for part in method.parts))
    return bare if bare.gain == method.gain else method


def _parse_part(text: str) -> Part:
    name, *settings = text.split(":")
    word = _word(name.strip())
    options: dict[str, Value] = {}
    for setting in settings:
        key, equals, value = (piece.strip() for piece in setting.partition("="))
        if not equals:
            raise LabError(f"{shown(setting)} in {shown(text)} is not an option; expected key=value")
        if key in options:
            raise LabError(f"option {shown(key)} is given twice in {shown(text)}")
        options[key] = _read(word, _option(word, key), value)
    return Part(word.name, tuple(options.items()))


def _word(name: str) -> Word:
    if name not in VOCABULARY:
        raise unknown("method", name, VOCABULARY)
    return VOCABULARY[name]


def _option(word: Word, key: str) -> Option:
    if not word.has(key):
        raise unknown(f"option of {word.name}", key, [option.name for option in word.options])
    return word.option(key)


def _read(word: Word, option: Option, text: str) -> Value:
    try:
        return option.read(text)
    except LabError as error:
        raise LabError(f"{word.name}: {error}") from None


def _checked(part: Part) -> Part:
    word = _word(part.name)
    given = {key: _read(word, _option(word, key), written(value)) for key, value in part.options}
    kept = tuple((o.name, given[o.name]) for o in word.options if given.get(o.name, o.default) != o.default)
    checked = Part(part.name, kept)
    for key, value in kept:
        needed = word.option(key).only_with
        if needed is not None and checked[needed[0]] != needed[1]:
            raise LabError(f"{part.name}: {key}={written(value)}: expected with {needed[0]}={written(needed[1])} only")
    return _preferred(checked)


def _preferred(part: Part) -> Part:
    """The part in its preferred spelling: `aon:order=0` for `sn`."""
    if not part.word.stands_for:
        return part
    other = _parse_part(part.word.stands_for)
    return _checked(Part(other.name, (*other.options, *part.options)))


def _place(part: Part) -> tuple[int, int]:
    return list(FAMILIES).index(part.word.family), list(VOCABULARY).index(part.name)


def _check_company(parts: list[Part]) -> None:
    for earlier, later in pairwise(parts):
        family = later.word.family
        if earlier.name == later.name:
            raise LabError(f"{later.name!r} is given twice in one method")
        if earlier.word.family == family and family not in SEVERAL:
            both = f"{earlier.name!r} and {later.name!r}"
            raise LabError(f"{both} exclude each other: a method has at most one {FAMILIES[family]}")


def _without(part: Part, *names: str) -> Part:
    return Part(part.name, tuple((key, value) for key, value in part.options if key not in names))


def _as_layer_norm(part: Part) -> Part:
    """`ln` for `gn` with a single group: the same wherever `gn` can be used, which is not on tokens."""
    return Part("ln", _without(part, "groups").options) if part.name == "gn" and part["groups"] == 1 else part


def _idle(part: Part) -> tuple[str, ...]:
    """Options of AON that change nothing beside the others; they are left in names, which records carry."""
    if part.name != "aon":
        return ()
    idle: tuple[str, ...] = ()
    if part["order"] == 0 and part["scale"] != "none":
        idle = ("centre", "prescale")  # these only change the size of W, which is then divided by its norm
    elif part["centre"] != "one":
        idle = ("prescale",)  # the expansion follows the size of W already
    kept = _without(part, *idle)
    relative = kept["centre"] == "top" or kept["prescale"] or kept["expansion"] == "minimax"
    # Power steps are for the spectral norm alone.
    return idle if relative or kept["scale"] == "spectral" else (*idle, "iterations")
