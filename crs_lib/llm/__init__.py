"""Language models behind one small protocol: offline ones by rule, script or replay; Ollama; OpenAI's.

``LLM(spec)`` is what studies use; ``BACKENDS`` lists the specs; ``LLMError`` is every way a call can fail.
"""

from crs_lib.llm import ollama, openai, replay, scripted, template
from crs_lib.llm.base import BACKENDS, Backend, Message, Reply, Request
from crs_lib.llm.cache import Cache
from crs_lib.llm.calls import Recorder, export, usage
from crs_lib.llm.client import LLM
from crs_lib.llm.errors import LLMError
from crs_lib.llm.retry import Retry

__all__ = [
    "BACKENDS", "LLM", "Backend", "Cache", "LLMError", "Message", "Recorder", "Reply", "Request", "Retry",
    "export", "ollama", "openai", "replay", "scripted", "template", "usage",
]  # fmt: skip
