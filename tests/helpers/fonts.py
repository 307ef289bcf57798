"""What figures are tested with: fonts cut once (DejaVu Sans takes most of a PDF's time), and colours compared."""

import contextlib
import functools
import io

import matplotlib.backends._backend_pdf_ps as backend
from matplotlib.colors import to_rgb

_cut, _saved = backend.get_glyphs_subset, backend.font_as_file


@functools.cache
def _subset(fontfile, glyphs):
    kept = _cut(fontfile, glyphs)
    return kept, kept.__enter__()  # the font is open for as long as its context is kept


@functools.cache
def _bytes(font):
    return _saved(font).getvalue()


def keep(patch):
    """Let matplotlib take a subset that was cut before: it depends on the font and the glyphs alone."""
    patch.setattr(
        backend, "get_glyphs_subset",
        lambda fontfile, glyphs: contextlib.nullcontext(_subset(fontfile, tuple(glyphs))[1]),
    )  # fmt: skip
    patch.setattr(backend, "font_as_file", lambda font: io.BytesIO(_bytes(font)))


def luminance(colour):
    """Relative luminance in [0, 1] (WCAG 2.1): how dark a colour prints in grey."""
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), channels, strict=True))


def contrast(one, two):
    """The ratio of luminances, 1 to 21."""
    dark, bright = sorted((luminance(one), luminance(two)))
    return (bright + 0.05) / (dark + 0.05)
