"""BM25 at catalogue scale: tantivy keeps the index on disk and skips documents that cannot win."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crs_lib.core.errors import InputError
from crs_lib.core.text import words
from crs_lib.retrieval.base import RETRIEVERS
from crs_lib.retrieval.hits import Hit, ranked
from crs_lib.retrieval.store import load_arrays, new_folder

_KIND = "crs-tantivy-1"
_HEAP = 128_000_000


def _tantivy() -> Any:
    try:
        import tantivy
    except ImportError as error:
        raise InputError("retriever 'tantivy' needs tantivy: pip install \"crs-lib[retrieval]\"") from error
    return tantivy


def _schema(tantivy: Any) -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("body", stored=False, tokenizer_name="whitespace", index_option="freq")
    return builder.build()


@RETRIEVERS.register("tantivy", needs="retrieval")
class Tantivy:
    """BM25 of the tantivy engine (k1 1.2, b 0.75, lengths rounded to a byte) over our folded words."""

    def __init__(self, texts: Mapping[str, str] | None = None, folder: Path | None = None) -> None:
        """Indexes into a temporary folder, removed with the object; :meth:`save` keeps it."""
        tantivy = _tantivy()
        self._temporary = tempfile.TemporaryDirectory(prefix="crs-tantivy-")
        self.folder = folder or Path(self._temporary.name)
        schema = _schema(tantivy)
        self._index = tantivy.Index(schema, path=str(self.folder))
        if texts:
            writer = self._index.writer(_HEAP, 1)  # one thread: one order of segments
            for name, text in texts.items():
                writer.add_document(tantivy.Document(id=name, body=" ".join(words(text))))
            writer.commit()
            writer.wait_merging_threads()
        self._index.reload()
        self._schema, self._searcher = schema, self._index.searcher()

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The ``k`` best documents; equal scores by id."""
        tantivy = _tantivy()
        terms = [tantivy.Query.term_query(self._schema, "body", word) for word in words(query)]
        if not terms:
            return []
        wanted = tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms])
        hits = self._searcher.search(wanted, k).hits
        return ranked((self._searcher.doc(address)["id"][0], score) for score, address in hits)

    def save(self, folder: Path) -> None:
        """Copy the index; the folder appears whole or not at all."""
        with new_folder(folder, _KIND, {}) as aside:
            shutil.copytree(self.folder, aside / "tantivy", ignore=shutil.ignore_patterns("*.lock"))

    @classmethod
    def load(cls, folder: Path) -> "Tantivy":
        """Open it where it stands, memory-mapped; RunError where there is no such index."""
        load_arrays(folder, _KIND, (), mapped=True)
        return cls(folder=folder / "tantivy")
