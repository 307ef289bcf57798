"""Nearest texts by sentence vectors, exact in numpy."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from crs_lib.core.errors import InputError
from crs_lib.retrieval.encoders import ENCODERS, Floats, sentence_vectors
from crs_lib.retrieval.fusion import RETRIEVERS
from crs_lib.retrieval.runs import Hit, named, top_k
from crs_lib.retrieval.store import Ids, StoredIds, load_arrays, new_folder, save_folder, save_ids

_KIND, _BATCH = "crs-dense-2", 1_000


@RETRIEVERS.register("dense", argument="an encoder", example="hashing")
class Dense:
    """Cosine of sentence vectors with every document: exact, one matrix product a query."""

    def __init__(self, argument: str, texts: Mapping[str, str] | None = None) -> None:
        """``argument`` names the encoder; the texts are encoded now, in bounded batches."""
        self.encoder, self._model = argument, ENCODERS.create(argument)
        self.ids: Ids = list(texts or ())
        bodies = list((texts or {}).values())
        parts = [self._model.encode(bodies[i : i + _BATCH]).sentences for i in range(0, len(bodies), _BATCH)]
        self.vectors: Floats = np.concatenate(parts) if parts else np.zeros((0, 1), dtype=np.float32)

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The ``k`` nearest documents by cosine in [-1, 1]; equal cosines in the order of the documents."""
        vector = self._model.encode([query]).sentences[0]
        scores = (self.vectors @ vector).astype(np.float32) if self.ids else np.zeros(0, np.float32)
        return named(self.ids, *top_k(scores, k, above=-np.inf))

    def save(self, folder: Path) -> None:
        """Write vectors and ids; the folder appears whole or not at all."""
        save_folder(folder, _KIND, {"encoder": self.encoder}, {"vectors": self.vectors}, ids=self.ids)

    @classmethod
    def write(cls, folder: Path, encoder: str, ids: Ids, batches: Iterable[Sequence[str]]) -> None:
        """Encode batches of texts straight into a folder that :meth:`load` reads; one batch is in memory.

        The batches hold one text for each id, in the same order. Raises InputError where there are fewer
        or more texts than ids.
        """
        model, done = ENCODERS.create(encoder), 0
        with new_folder(folder, _KIND, {"encoder": encoder}) as aside:
            save_ids(aside, ids)
            shape = (len(ids), sentence_vectors(model, [""]).shape[1])
            with (aside / "vectors.npy").open("wb") as file:
                header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                for texts in batches:
                    file.write(sentence_vectors(model, texts).astype("<f4").tobytes())
                    done += len(texts)
            if done != len(ids):
                raise InputError(f"{done} texts for {len(ids)} ids; give one text for each id")

    @classmethod
    def load(cls, folder: Path) -> "Dense":
        """Read it back, vectors memory-mapped; RunError where there is no such index."""
        facts, arrays = load_arrays(folder, _KIND, ["vectors"])
        made = cls(facts["encoder"])
        made.vectors, made.ids = arrays["vectors"], StoredIds(folder, len(arrays["vectors"]))
        return made
