from .base import SYSTEMS, World
from .programs import Programs
from .settings import ModelSettings

__all__ = ["SYSTEMS", "ModelSettings", "Programs", "World"]
