from .catalog import Catalog
from .fields import FIELDS, RELAXATION_ORDER, SHIFT_FIELDS
from .grounder import Grounder, Match
from .sources import SAMPLE, content_hash, load
from .titles import Mention

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
