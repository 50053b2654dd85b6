"""Networks for small images, each built from interchangeable ingredients."""

from aon.lab.models.catalogue import build, check_image_size, names
from aon.lab.models.heads import classifier_names
from aon.lab.models.ingredients import Ingredients

__all__ = ["Ingredients", "build", "check_image_size", "classifier_names", "names"]
