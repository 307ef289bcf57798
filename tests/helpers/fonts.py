"""What figures are tested with: fonts cut once (DejaVu Sans takes most of a PDF's time), and colours compared."""

import contextlib
import functools
import io

import matplotlib.backends._backend_pdf_ps as backend
from matplotlib.colors import to_rgb

_cut, _saved = backend.get_glyphs_subset, backend.font_as_file


@functools.cache
def _subset(fontfile, glyphs):
    context = _cut(fontfile, glyphs)
    return context, context.__enter__()  # the font is open for as long as its context lives


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
    total = 0.0
    for weight, channel in zip((0.2126, 0.7152, 0.0722), to_rgb(colour), strict=True):
        linear = ((channel + 0.055) / 1.055) ** 2.4
        if channel <= 0.04045:
            linear = channel / 12.92
        total += weight * linear
    return total


def contrast(colour, other):
    """The ratio of luminances, 1 to 21."""
    dark, bright = sorted((luminance(colour), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)
