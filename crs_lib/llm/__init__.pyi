from .base import BACKENDS, LLMError, Message, Reply, Request
from .calls import Cache, Recorder, export, usage
from .client import LLM, Pool, Retry
from .settings import LLMSettings

__all__ = [
    "BACKENDS",
    "LLM",
    "Cache",
    "LLMError",
    "LLMSettings",
    "Message",
    "Pool",
    "Recorder",
    "Reply",
    "Request",
    "Retry",
    "export",
    "usage",
]
