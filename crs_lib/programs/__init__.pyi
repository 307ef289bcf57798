from .base import PROGRAMS
from .client import Programs
from .contract import VERSION, Answer

__all__ = [
    "PROGRAMS",
    "VERSION",
    "Answer",
    "Programs",
]
