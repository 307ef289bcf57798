from .catalog import TOPIC_FIELDS, attribute_vector, recommend, topic_set
from .conventions import PEPPER, SIM_TOPIC_SHIFT, TOPIC_EXTRACTOR_MODE, TOPIC_JACCARD_SHIFT
from .grounded import compute_tas, copy_ratio

__all__ = [
    "PEPPER",
    "SIM_TOPIC_SHIFT",
    "TOPIC_EXTRACTOR_MODE",
    "TOPIC_FIELDS",
    "TOPIC_JACCARD_SHIFT",
    "attribute_vector",
    "compute_tas",
    "copy_ratio",
    "recommend",
    "topic_set",
]
