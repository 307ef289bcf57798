from .base import SYSTEMS, System, SystemReply, World, check, create
from .client import Programs
from .contract import VERSION, Answer
from .programs import PROGRAMS

__all__ = [
    "PROGRAMS",
    "SYSTEMS",
    "VERSION",
    "Answer",
    "Programs",
    "System",
    "SystemReply",
    "World",
    "check",
    "create",
]
