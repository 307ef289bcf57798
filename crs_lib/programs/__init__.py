"""Programs of others as systems: a versioned contract, and three ways to reach a program that keeps it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
