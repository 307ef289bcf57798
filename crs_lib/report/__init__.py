"""What is shown of a run: small tables for notebooks, pages of HTML."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
