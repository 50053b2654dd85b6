"""Approximated orthonormal normalisation: layers that compute with a flatter version of their weight matrix."""

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
