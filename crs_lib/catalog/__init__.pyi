from .grounder import Grounder
from .sources import load

__all__ = ["Grounder", "load"]
