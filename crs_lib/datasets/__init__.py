"""External files: where they come from, and whether what is here is what was meant."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
