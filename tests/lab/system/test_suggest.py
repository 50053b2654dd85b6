"""The error for an unknown word."""

import pytest

from aon.lab.errors import LabError
from aon.lab.system.suggest import check_known, unknown


@pytest.mark.parametrize(
    ("word", "known", "message"),
    [
        ("bm", ["bn", "mc"], "unknown thing 'bm'; did you mean 'bn'? (there are: bn, mc)"),
        ("xyz", ["bn", "mc"], "unknown thing 'xyz' (there are: bn, mc)"),
        ("BN", ["bn"], "unknown thing 'BN'; did you mean 'bn'? (there are: bn)"),
        ("a\nb", [], r"unknown thing 'a\nb' (there are: none)"),
    ],
)
def test_it_names_the_word_the_nearest_and_all_there_are(word: str, known: list[str], message: str) -> None:
    assert str(unknown("thing", word, known)) == message


def test_what_cannot_be_listed_is_mentioned() -> None:
    assert str(unknown("network", "x", ["vgg16"], also="package.module:function")).endswith(
        "(there are: vgg16, package.module:function)"
    )


def test_known_words_pass_and_others_are_refused() -> None:
    check_known("setting", "seed", {"seed": 0})
    with pytest.raises(LabError, match=r"unknown setting 'sed'; did you mean 'seed'\? \(there are: seed\)"):
        check_known("setting", "sed", {"seed": 0})
