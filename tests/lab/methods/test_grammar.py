"""Names of methods: their meaning, round trips, and the errors for unknown ones."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aon.kernels import checks
from aon.lab import errors
from aon.lab.errors import LabError
from aon.lab.methods import grammar, options, vocabulary
from aon.lab.methods.grammar import Method, Part, compose, parse, parse_list
from aon.lab.methods.vocabulary import FAMILIES, NOTHING, SEVERAL, VOCABULARY
from aon.lab.system import shown, suggest

# name as written, canonical name, spelling in tables
NAMES = [
    ("bn", "bn", "BN"),
    ("bn+cwn", "bn+cwn", "BN+CWN"),
    ("iternorm", "iternorm", "IterNorm"),
    ("bn+orth", "bn+orth", "BN+orthonormal"),
    ("bn+orth:beta=10", "bn+orth", "BN+orthonormal"),
    ("bn+orth:beta=20", "bn+orth:beta=20", "BN+orthonormal(beta=20)"),
    ("bn+orth:beta=2e+1", "bn+orth:beta=20", "BN+orthonormal(beta=20)"),
    ("bn+aon", "bn+aon", "BN+AON(q=2)"),
    ("bn+aon:order=2", "bn+aon", "BN+AON(q=2)"),
    ("bn+aon:order=0", "bn+aon:order=0", "BN+AON(q=0)"),
    ("bn+aon:order=4", "bn+aon:order=4", "BN+AON(q=4)"),
    ("bn+aon:order=4:centre=mean", "bn+aon:order=4:centre=mean", "BN+AON(q=4, centre=mean)"),
    ("bn+aon:centre=mean:order=4", "bn+aon:order=4:centre=mean", "BN+AON(q=4, centre=mean)"),
    ("iternorm:groups=4+aon", "iternorm:groups=4+aon", "IterNorm(groups=4)+AON(q=2)"),
    ("bn+sn", "bn+aon:order=0", "BN+AON(q=0)"),
    ("bn+sn:iterations=2:gain=on", "bn+aon:order=0:gain=on:iterations=2", "BN+AON(q=0, gain=on, iterations=2)"),
    ("dbn:size=16", "dbn", "DBN"),
    ("dbn:size=8", "dbn:size=8", "DBN(size=8)"),
    (" BN + AON : order = 4 ", "bn+aon:order=4", "BN+AON(q=4)"),
    ("aon+bn", "bn+aon", "BN+AON(q=2)"),
    ("srip+orth+bn", "bn+orth+srip", "BN+orthonormal+SRIP"),
    ("none", "none", "plain"),
    ("none+aon", "aon", "AON(q=2)"),
    ("selu+dropout:rate=0.1", "selu+dropout:rate=0.1", "SELU+dropout(rate=0.1)"),
    ("bn+wd", "bn+wd", "BN+WD(rate=0.0005)"),
    ("bn+aon:prescale=true", "bn+aon:prescale=on", "BN+AON(q=2, prescale=on)"),
    ("bn+aon:centre=top", "bn+aon:centre=top", "BN+AON(q=2, centre=top)"),
    ("bn+aon:expansion=minimax:lower=0.2", "bn+aon:expansion=minimax", "BN+AON(q=2, expansion=minimax)"),
    (
        "aon:lower=0.1:expansion=minimax:order=4",
        "aon:order=4:expansion=minimax:lower=0.1",
        "AON(q=4, expansion=minimax, l=0.1)",
    ),
]


@pytest.mark.parametrize(("written", "canonical", "label"), NAMES)
def test_names_have_one_canonical_form_and_a_label(written: str, canonical: str, label: str) -> None:
    method = parse(written)
    assert str(method) == canonical
    assert method.label == label
    assert parse(str(method)) == method
    assert hash(parse(str(method))) == hash(method)


@pytest.mark.parametrize(
    ("written", "canonical", "gain"),
    [
        ("bn+aon", "bn+aon", False),
        ("bn+aon:gain=off", "bn+aon", False),
        ("bn+aon:gain=on", "bn+aon:gain=on", True),
        ("aon", "aon", True),
        ("aon:gain=on", "aon", True),
        ("aon:gain=off", "aon:gain=off", False),
        ("none+sn:gain=on", "aon:order=0", True),
        ("brn+aon", "brn+aon", False),
        ("in+aon", "in+aon", False),
        ("ln+aon", "ln+aon", True),
        ("gn+aon", "gn+aon", True),
        ("dbn+aon", "dbn+aon", True),
        ("iternorm+aon:gain=on", "iternorm+aon", True),
        ("iternorm+aon:gain=off", "iternorm+aon:gain=off", False),
    ],
)
def test_gain_is_off_only_before_a_normaliser_that_removes_it(written: str, canonical: str, gain: bool) -> None:
    assert str(parse(written)) == canonical
    assert parse(written).gain is gain


def values(option):  # type: ignore[no-untyped-def]
    if option.kind == "int":
        return st.integers(int(option.least), int(option.most))
    if option.kind == "float":
        return st.floats(option.least, option.most, exclude_min=option.above, allow_nan=False, allow_infinity=False)
    return st.booleans() if option.kind == "flag" else st.sampled_from(option.choices)


@st.composite
def parts(draw, name):  # type: ignore[no-untyped-def]
    options = VOCABULARY[name].options
    chosen = draw(st.permutations(options)) if options else []
    kept = chosen[: draw(st.integers(0, len(chosen)))]
    given = {option.name: draw(values(option)) for option in kept}
    for option in options:  # those that do not go with the others stay at their defaults
        if (
            option.only_with
            and given.get(option.only_with[0], VOCABULARY[name].option(option.only_with[0]).default)
            != (option.only_with[1])
        ):
            given.pop(option.name, None)
    return Part(name, tuple(given.items()))


@st.composite
def methods(draw):  # type: ignore[no-untyped-def]
    names = []
    for family in FAMILIES:
        words = [word.name for word in VOCABULARY.values() if word.family == family]
        most = len(words) if family in SEVERAL else 1
        names += draw(st.lists(st.sampled_from(words), max_size=most, unique=True))
    return compose([draw(parts(name)) for name in draw(st.permutations(names))])


@given(methods())
def test_every_method_round_trips(method: Method) -> None:
    assert parse(str(method)) == method
    assert str(parse(str(method))) == str(method)


@given(methods(), methods())
def test_no_two_methods_share_a_label(one: Method, other: Method) -> None:
    assert (one.label == other.label) == (one == other)


@given(st.lists(methods(), min_size=1, max_size=4, unique_by=lambda method: method.effective))
def test_lists_round_trip(listed: list[Method]) -> None:
    assert parse_list(",".join(map(str, listed))) == tuple(listed)


@given(st.text())
def test_any_text_is_a_method_or_a_one_line_error(text: str) -> None:
    message = ""
    try:
        parse(text)
    except LabError as error:
        message = str(error)
    assert len(message.splitlines()) <= 1


@given(methods())
def test_no_option_at_its_default_is_written(method: Method) -> None:
    for part in method.parts:
        for key, value in part.options:
            assert value != part.word.option(key).default


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "empty method name"),
        ("bn+", "unknown method ''"),
        ("bm+aon", r"unknown method 'bm'; did you mean 'bn'\? \(there are: bn, ln, .*dropout\)"),
        ("bn+ortho", "did you mean 'orth'"),
        (
            "bn+aon:ordr=2",
            r"unknown option of aon 'ordr'; did you mean 'order'\? \(there are: order, scale, centre",
        ),
        ("bn+aon:center=mean", "did you mean 'centre'"),
        ("bn+aon:centre=median", r"aon: unknown centre 'median'; did you mean .* \(there are: one, mean, top\)"),
        ("bn+aon:lower=0.3", "aon: lower=0.3: expected with expansion=minimax only"),
        ("bn+aon:expansion=minimax:centre=mean", "aon: centre=mean: expected with expansion=taylor only"),
        ("bn+aon:expansion=minimax:prescale=on", "aon: prescale=on: expected with expansion=taylor only"),
        ("bn+aon:expansion=minimax:lower=1", "aon: lower=1: expected a number of 0.001 or more and at most 0.9"),
        ("bn+aon:expansion=minmax", "unknown expansion 'minmax'; did you mean 'minimax'"),
        ("selu:alpha=1", r"unknown option of selu 'alpha' \(there are: none\)"),
        ("bn+aon:order", "'order' in 'aon:order' is not an option; expected key=value"),
        ("bn+aon:order=", "aon: order=: expected a whole number of 0 or more and at most 64"),
        ("bn+aon:order=-1", "order=-1: expected a whole number of 0 or more"),
        ("bn+aon:order=2.5", "order=2.5: expected a whole number"),
        ("bn+aon:order=99999999999999999999", "order=9+: expected a whole number"),
        ("bn+aon:prescale=maybe", "prescale=maybe: expected on or off"),
        ("bn+aon:order=2:order=4", "option 'order' is given twice"),
        ("bn+orth:beta=nan", "beta=nan: expected a number of 0 or more"),
        ("bn+orth:beta=inf", "beta=inf: expected a number of 0 or more"),
        ("bn+orth:beta=-1", "beta=-1: expected a number of 0 or more"),
        ("bn+orth:beta=ten", "orth: beta=ten: expected a number"),
        ("dropout:rate=1", "rate=1: expected a number of 0 or more and at most 0.95"),
        ("iternorm:groups=0", "iternorm: groups=0: expected a whole number of 1 or more"),
        ("iternorm:eps=0", "eps=0: expected a number above 0"),
        ("bn+iternorm", "'bn' and 'iternorm' exclude each other: a method has at most one normaliser"),
        ("bn+none", "'bn' and 'none' exclude each other"),
        ("bn+aon+wn", "'aon' and 'wn' exclude each other: a method has at most one weight map"),
        ("bn+orth+orth", "'orth' is given twice"),
        ("bn+sn+aon", "'aon' is given twice"),
        ("dbn:groups=4", r"unknown option of dbn 'groups' \(there are: size, eps, momentum\)"),
    ],
)
def test_bad_names_are_refused_in_one_line(written: str, message: str) -> None:
    with pytest.raises(LabError, match=message) as caught:
        parse(written)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("bn,bn", "'bn' is given twice"),
        ("bn+aon,aon:order=2+bn", r"'bn\+aon' is given twice"),
        ("bn+sn,bn+aon:order=0", r"'bn\+aon:order=0' is given twice"),
        ("aon:order=0,aon:order=0:centre=mean", "'aon:order=0:centre=mean' computes the same as 'aon:order=0' in"),
        ("aon:order=0:centre=top,aon:order=0", "'aon:order=0' computes the same as 'aon:order=0:centre=top' in"),
        ("bn+sn,bn+aon:order=0:prescale=on", r"'bn\+aon:order=0:prescale=on' computes the same as 'bn\+aon:order=0'"),
        ("aon:centre=mean,aon:centre=mean:prescale=on", "computes the same as 'aon:centre=mean'"),
        ("aon:scale=none,aon:scale=none:iterations=3", "computes the same as 'aon:scale=none'"),
        ("bn,,bn+aon", "empty method name"),
        ("", "empty method name"),
    ],
)
def test_bad_lists_are_refused(written: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        parse_list(written)


@pytest.mark.parametrize(
    "written",
    [
        "aon,aon:centre=mean,aon:centre=top,aon:prescale=on,aon:iterations=3",
        "aon:order=0,aon:order=0:iterations=3,aon:order=0:scale=frobenius",
        "aon:order=0:scale=none,aon:order=0:scale=none:centre=mean,aon:order=0:scale=none:prescale=on",
        "aon:scale=none:centre=top,aon:scale=none:centre=top:iterations=3",
        "aon:scale=none:expansion=minimax,aon:scale=none:expansion=minimax:iterations=3",
    ],
)
def test_methods_that_differ_go_into_one_list_under_their_own_names(written: str) -> None:
    assert ",".join(map(str, parse_list(written))) == written


def test_an_option_without_effect_stays_in_the_name() -> None:
    assert str(parse("bn+aon:order=0:centre=mean")) == "bn+aon:order=0:centre=mean"


def test_composing_by_hand_is_checked_too() -> None:
    with pytest.raises(LabError, match="order=-1: expected a whole number"):
        compose([Part("aon", (("order", -1),))])
    with pytest.raises(LabError, match="unknown method 'spam'"):
        compose([Part("spam")])


def test_of_and_one_give_the_words_of_a_family() -> None:
    method = parse("bn+orth+mc+aon:order=4")
    assert [part.name for part in method.of("penalty")] == ["orth", "mc"]
    weight_map = method.one("map")
    assert weight_map is not None
    assert weight_map["order"] == 4
    assert weight_map["scale"] == "spectral"
    assert parse("orth").one("map") is None


def test_every_word_is_alone_a_method() -> None:
    for name, word in VOCABULARY.items():
        assert str(parse(name)) == (word.stands_for or name)
        assert word.family in FAMILIES
        assert word.summary
    assert parse(NOTHING).parts == ()


def test_the_grammar_needs_no_torch() -> None:
    for module in (grammar, vocabulary, options, shown, suggest, errors, checks):
        assert not re.search(r"^\s*(from|import) torch", Path(module.__file__).read_text(), re.MULTILINE)
        imported = re.findall(r"^\s*(?:from|import) (aon[\w.]*)", Path(module.__file__).read_text(), re.MULTILINE)
        known = ("methods.vocabulary", "methods.options", "system.shown", "system.suggest", "errors")
        assert set(imported) <= {"aon.kernels.checks", *(f"aon.lab.{name}" for name in known)}
