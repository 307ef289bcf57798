"""Nearest texts by sentence vectors: exact in numpy, approximate with faiss for millions of texts."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crs_lib.core.errors import InputError, RunError
from crs_lib.retrieval.base import RETRIEVERS
from crs_lib.retrieval.dense import ENCODERS, Floats, sentence_vectors
from crs_lib.retrieval.hits import Hit, named, top_k
from crs_lib.retrieval.ids import StoredIds, save_ids
from crs_lib.retrieval.store import load_arrays, new_folder, save_folder

_DENSE, _FAISS = "crs-dense-1", "crs-faiss-1"
_BATCH = 1_000


def _encoded(encoder: str, texts: Sequence[str]) -> Floats:
    """Sentence vectors of the texts (rows of length 1), in bounded batches."""
    model = ENCODERS.create(encoder)
    parts = [model.encode(texts[i : i + _BATCH]).sentences for i in range(0, len(texts), _BATCH)]
    return np.concatenate(parts) if parts else np.zeros((0, 1), dtype=np.float32)


@RETRIEVERS.register("dense", argument="an encoder", example="hashing")
class Dense:
    """Cosine of sentence vectors with every document: exact, one matrix product a query."""

    def __init__(self, argument: str, texts: Mapping[str, str] | None = None) -> None:
        """``argument`` names the encoder; the texts are encoded now."""
        ENCODERS.get(argument)
        self.encoder = argument
        self.ids: Sequence[str] = list(texts or ())
        self.vectors = _encoded(argument, list((texts or {}).values()))
        self._model = ENCODERS.create(argument)

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The ``k`` nearest documents by cosine in [-1, 1]; equal cosines in the order of the documents."""
        vector = self._model.encode([query]).sentences[0]
        scores = (self.vectors @ vector).astype(np.float32) if self.ids else np.zeros(0, np.float32)
        return named(self.ids, *top_k(scores, k, above=-np.inf))

    def save(self, folder: Path) -> None:
        """Write vectors and ids; the folder appears whole or not at all."""
        facts = {"encoder": self.encoder}
        save_folder(folder, _DENSE, facts, {"vectors": self.vectors}, ids=self.ids)

    @classmethod
    def write(cls, folder: Path, encoder: str, ids: Sequence[str], batches: Iterable[Sequence[str]]) -> None:
        """Encode batches of texts straight into a folder that :meth:`load` reads; one batch is in memory.

        The batches hold one text for each id, in the same order. Raises InputError where there are fewer
        or more texts than ids.
        """
        model, done = ENCODERS.create(encoder), 0
        with new_folder(folder, _DENSE, {"encoder": encoder}) as aside:
            save_ids(aside, ids)
            vectors: Any = None
            for texts in batches:
                part = sentence_vectors(model, texts)
                if vectors is None:
                    shape = (len(ids), part.shape[1])
                    vectors = np.lib.format.open_memmap(aside / "vectors.npy", "w+", np.float32, shape)
                if done + len(part) <= len(ids):
                    vectors[done : done + len(part)] = part
                done += len(part)
            if vectors is None:
                np.save(aside / "vectors.npy", np.zeros((0, 1), dtype=np.float32), allow_pickle=False)
            else:
                vectors.flush()
            if done != len(ids):
                raise InputError(f"{done} texts for {len(ids)} ids; give one text for each id")

    @classmethod
    def load(cls, folder: Path) -> "Dense":
        """Read it back, vectors memory-mapped; RunError where there is no such index."""
        facts, arrays = load_arrays(folder, _DENSE, ["vectors"], mapped=True)
        made = cls(facts["encoder"])
        made.vectors, made.ids = arrays["vectors"], _ids(folder, len(arrays["vectors"]))
        return made


def _ids(folder: Path, rows: int) -> StoredIds:
    ids = StoredIds(folder)
    if len(ids) != rows:
        raise RunError(f"the index in {folder.name!r} is damaged: its ids do not fit; build it again")
    return ids


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise InputError("retriever 'faiss' needs faiss: pip install \"crs-lib[faiss]\"") from error
    faiss.omp_set_num_threads(1)
    return faiss


@RETRIEVERS.register("faiss", argument="an encoder", example="hashing", needs="faiss")
class Faiss:
    """Cosine through faiss's HNSW graph: approximate, for collections too large for ``dense``."""

    def __init__(self, argument: str, texts: Mapping[str, str] | None = None, links: int = 32) -> None:
        """``links`` is the graph's degree: more finds more, and takes more memory."""
        ENCODERS.get(argument)
        faiss = _faiss()
        self.encoder = argument
        self.ids: Sequence[str] = list(texts or ())
        vectors = _encoded(argument, list((texts or {}).values()))
        self.graph = faiss.IndexHNSWFlat(vectors.shape[1], links, faiss.METRIC_INNER_PRODUCT)
        self.graph.add(np.ascontiguousarray(vectors))
        self._model = ENCODERS.create(argument)

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """Up to ``k`` near documents by cosine; equal cosines in the order of the documents."""
        if not self.ids:
            return []
        self.graph.hnsw.efSearch = max(64, 2 * k)
        scores, found = self.graph.search(self._model.encode([query]).sentences, min(k, len(self.ids)))
        order = np.lexsort((found[0], -scores[0]))
        kept = order[found[0][order] >= 0]
        return named(self.ids, found[0][kept], scores[0][kept])

    def save(self, folder: Path) -> None:
        """Write graph and ids; the folder appears whole or not at all."""
        graph = _faiss().serialize_index(self.graph)
        facts = {"encoder": self.encoder}
        save_folder(folder, _FAISS, facts, {"graph": graph}, ids=self.ids)

    @classmethod
    def load(cls, folder: Path) -> "Faiss":
        """Read it back; RunError where there is no such index."""
        facts, arrays = load_arrays(folder, _FAISS, ["graph"], mapped=False)
        made = cls(facts["encoder"])
        made.graph = _faiss().deserialize_index(arrays["graph"])
        made.ids = _ids(folder, made.graph.ntotal)
        return made
