"""Error for an unknown word: names the word, the nearest known one and all known ones."""

from collections.abc import Collection, Iterable

from aon.kernels.checks import nearest
from aon.lab.errors import LabError
from aon.lab.system.shown import shown


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
    near = nearest(word, known)
    hint = f"; did you mean {near!r}?" if near else ""
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
