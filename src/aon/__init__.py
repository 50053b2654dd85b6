"""Approximated orthonormal normalisation: layers that compute with a flatter version of their weight matrix.

What is listed here is imported when it is first used: torch takes seconds to load, and the command line must be able to
say what it does, or that it was interrupted, before that.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aon import bounding, functional, maps, penalties, renorm, whitening
    from aon.model.accumulation import accumulate
    from aon.model.convert import normalise, normalised_weight, refresh
    from aon.model.folding import fold
    from aon.model.spectra import Spectra, Spectrum, spectra
    from aon.model.survey import Survey, survey

__version__ = "0.1.0"
__all__ = [
    "Spectra",
    "Spectrum",
    "Survey",
    "accumulate",
    "bounding",
    "fold",
    "functional",
    "maps",
    "normalise",
    "normalised_weight",
    "penalties",
    "refresh",
    "renorm",
    "spectra",
    "survey",
    "whitening",
]
_HOMES = {  # modules of aon.model; other names are modules themselves
    "Spectra": "spectra",
    "Spectrum": "spectra",
    "Survey": "survey",
    "accumulate": "accumulation",
    "fold": "folding",
    "normalise": "convert",
    "normalised_weight": "convert",
    "refresh": "convert",
    "spectra": "spectra",
    "survey": "survey",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'aon' has no attribute {name!r}")
    home = _HOMES.get(name)
    found = import_module(f"aon.{name}") if home is None else getattr(import_module(f"aon.model.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
