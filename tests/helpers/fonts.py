"""Font subsets for PDF files, made once: cutting DejaVu Sans takes most of the time of writing a PDF."""

import contextlib
import functools
import io

import matplotlib.backends._backend_pdf_ps as backend

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
