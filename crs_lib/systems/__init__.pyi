from .base import SYSTEMS, World
from .programs import Programs

__all__ = ["SYSTEMS", "Programs", "World"]
