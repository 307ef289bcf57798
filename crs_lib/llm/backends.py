"""All backends by name: importing this file registers them."""

from crs_lib.llm import ollama, openai, replay, scripted, template  # noqa: F401 - registers them
from crs_lib.llm.base import BACKENDS

__all__ = ["BACKENDS"]
