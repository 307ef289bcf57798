from .catalog import Catalog
from .fields import FIELDS, RELAXATION_ORDER, SHIFT_FIELDS
from .sources import SAMPLE, content_hash, load

__all__ = [
    "FIELDS",
    "RELAXATION_ORDER",
    "SAMPLE",
    "SHIFT_FIELDS",
    "Catalog",
    "content_hash",
    "load",
]
