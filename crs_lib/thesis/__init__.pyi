from .catalog import ThesisCatalog
from .grounded import GroundedScorer
from .legacy import LegacyScorer
from .topics import TOPICS

__all__ = ["TOPICS", "GroundedScorer", "LegacyScorer", "ThesisCatalog"]
