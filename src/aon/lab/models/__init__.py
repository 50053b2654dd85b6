"""Networks for small images, each built from interchangeable ingredients."""

from aon.lab.models.catalogue import build, check_image_size, names
from aon.lab.models.heads import classifier_names
from aon.lab.models.ingredients import Ingredients
from aon.lab.models.starts import redraw
from aon.lab.models.user import source_fingerprint

__all__ = ["Ingredients", "build", "check_image_size", "classifier_names", "names", "redraw", "source_fingerprint"]
