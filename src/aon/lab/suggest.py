"""One way of saying that a word is not known: the word, the nearest there is, all there are."""

from collections.abc import Iterable
from difflib import SequenceMatcher

from aon.lab.errors import LabError

# Half of the letters in common: below that, a suggestion is a guess.
_NEAR = 0.5


def unknown(kind: str, word: str, known: Iterable[str], also: str = "") -> LabError:
    """The error for a word that is none of the known ones, to be raised by the caller.

    Args:
        kind: What the word should have been, in words.
        word: What was given.
        known: What there is.
        also: A further possibility that cannot be listed.

    Example:
        >>> str(unknown("network", "resnet19", ["resnet18", "vgg16"]))
        "unknown network 'resnet19'; did you mean 'resnet18'? (there are: resnet18, vgg16)"
    """
    known = list(known)
    nearest = _nearest(word.lower(), known)
    hint = f"; did you mean {nearest!r}?" if nearest else ""
    listed = ", ".join([*known, also] if also else known) or "none"
    return LabError(f"unknown {kind} {word!r}{hint} (there are: {listed})")


def _nearest(word: str, known: list[str]) -> str | None:
    # Of several equally near the first is taken: difflib's get_close_matches takes the last of the alphabet.
    scores = {name: SequenceMatcher(None, word, name).ratio() for name in known}
    best = max(scores, key=lambda name: scores[name], default=None)
    return best if best is not None and scores[best] >= _NEAR else None
