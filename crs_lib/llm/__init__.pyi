from .base import BACKENDS, Backend, Message, Reply, Request
from .cache import Cache
from .calls import Recorder, export, usage
from .client import LLM
from .errors import LLMError
from .pool import Pool
from .retry import Retry
from .settings import LLMSettings

__all__ = [
    "BACKENDS",
    "LLM",
    "Backend",
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
