from .base import SYSTEMS, System, SystemReply, World, check, create

__all__ = [
    "SYSTEMS",
    "System",
    "SystemReply",
    "World",
    "check",
    "create",
]
