"""Weight matrices that stay nearly orthonormal while they train."""

from aon import bounding, functional, maps, penalties, renorm, whitening
from aon.accumulation import accumulate
from aon.convert import fold, normalise, normalised_weight
from aon.spectra import Spectra, Spectrum, spectra
from aon.surveys import Survey, survey

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
    "renorm",
    "spectra",
    "survey",
    "whitening",
]
