"""A retriever by its spec, over texts by id."""

from collections.abc import Mapping

from crs_lib.core.errors import InputError
from crs_lib.retrieval import lexical, scale, vectors  # noqa: F401 - importing them registers their retrievers
from crs_lib.retrieval.base import RETRIEVERS, SavedRetriever


def build(spec: str, texts: Mapping[str, str]) -> SavedRetriever:
    """A retriever (``bm25``, ``dense``, ``tantivy`` …) over texts by id.

    Raises InputError for an unknown spec, or an id that is empty or holds blanks (run files could not
    carry it).
    """
    bad = next((name for name in texts if len(name.split()) != 1), None)
    if bad is not None:
        raise InputError(f"document id {bad!r} is empty or holds blanks; run files cannot carry it")
    return RETRIEVERS.create(spec, texts=texts)
