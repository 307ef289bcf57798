"""External files by pinned address, and conversations of others read as dialogues."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
