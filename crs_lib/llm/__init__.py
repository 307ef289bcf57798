"""Language models behind one small protocol: ``LLM(spec)`` answers; every failure is an ``LLMError``."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
