"""Notebooks as programs: checked parameters, fresh kernels, sweeps that continue, rules."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
