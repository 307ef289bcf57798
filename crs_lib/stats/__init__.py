"""The statistics a reviewer accepts, as functions of tidy frames that return tidy frames.

Input: a frame with columns named by arguments, by default ``system`` (what is compared),
``scenario`` (the seed: all systems meet the same users) and ``value``. Missing values are left out
and counted (``n``, ``n_missing``), never turned into 0. Whatever resamples takes a ``seed``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
