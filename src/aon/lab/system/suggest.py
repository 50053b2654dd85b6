"""Error for an unknown word: names the word, the nearest known one and all known ones."""

from collections.abc import Collection, Iterable
from difflib import SequenceMatcher

from aon.lab.errors import LabError
from aon.lab.system.shown import shown

# Half of the letters in common: below that, a suggestion is a guess.
_NEAR = 0.5
# Longer than any word there is; to compare a very long one takes long.
_LONGEST = 100


def unknown(kind: str, word: str, known: Iterable[str], also: str = "") -> LabError:
    """The error for an unknown word, for the caller to raise.

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
    return LabError(f"unknown {kind} {shown(word)}{hint} (there are: {listed})")


def check_known(kind: str, word: str, known: Collection[str]) -> None:
    """Refuse an unknown word.

    Args:
        kind: What the word should have been, in words.
        word: What was given.
        known: What there is.

    Raises:
        LabError: See `unknown`.
    """
    if word not in known:
        raise unknown(kind, word, known)


def _nearest(word: str, known: list[str]) -> str | None:
    if len(word) > _LONGEST:
        return None
    # Of several equally near the first is taken: difflib's get_close_matches takes the last of the alphabet.
    scores = {name: SequenceMatcher(None, word, name).ratio() for name in known}
    best = max(scores, key=lambda name: scores[name], default=None)
    return best if best is not None and scores[best] >= _NEAR else None
