from .catalog import Catalog
from .fields import FIELDS, RELAXATION_ORDER, SHIFT_FIELDS
from .grounder import Grounder, Match, Mention
from .sources import SAMPLE, content_hash, load

__all__ = [
    "FIELDS",
    "RELAXATION_ORDER",
    "SAMPLE",
    "SHIFT_FIELDS",
    "Catalog",
    "Grounder",
    "Match",
    "Mention",
    "content_hash",
    "load",
]
