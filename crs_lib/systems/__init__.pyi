from .base import SYSTEMS, Reply, System, World, check, create

__all__ = [
    "SYSTEMS",
    "Reply",
    "System",
    "World",
    "check",
    "create",
]
