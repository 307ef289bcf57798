from .base import SYSTEMS, System, SystemReply, World, check, create
from .contract import VERSION, Answer
from .programs import Programs

__all__ = [
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
