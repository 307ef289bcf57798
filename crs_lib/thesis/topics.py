"""Topic extractors by name, for the thesis's older version: at most five words that say what a text is about.

A model that is missing is an error with the command that makes it: no silent change of method.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from crs_lib import data as datasets
from crs_lib.core import hashes, paths
from crs_lib.core.errors import InputError
from crs_lib.core.registry import Registry
from crs_lib.thesis import topic_words
from crs_lib.thesis.topic_model import TRAIN, TopicModel

if TYPE_CHECKING:
    from crs_lib.llm import LLM

Topics = list[tuple[str, ...]]
MODEL = "models/topics"


class TopicExtractor(Protocol):
    """Names topics of texts; ``name`` says how, with the model where there is one."""

    name: str

    def topics(self, texts: Sequence[str]) -> Topics: ...


TOPICS: Registry[TopicExtractor] = Registry("topic extractor", "crs_lib.thesis")


def create(spec: str, *, model: str | Path | None = None, llm: "str | LLM" = "") -> TopicExtractor:
    """The topic extractor of a name; ``model`` is the folder of ``lda``, ``llm`` the model of ``llm``.

    Raises InputError for an unknown name and for a model that is not there.
    """
    return TOPICS.create(spec, model=model, llm=llm)


def trained_model() -> Path:
    """The folder that ``python -m crs_lib topics`` writes to unless told otherwise."""
    return paths.data() / "processed" / MODEL


def default_model() -> Path:
    """The topic model that is used where none is named: one trained here, else the thesis's in the mirror."""
    own = trained_model()
    if not own.is_dir() and (theirs := datasets.get("thesis-lda").in_mirror()):
        return theirs
    return own


def vocabulary_of(catalog: str | Path) -> Path | None:
    """The features of the thesis's sentence space, for the thesis's own catalogue where a mirror has them."""
    folder = datasets.get("thesis-reference").in_mirror()
    path = folder / "tfidf_vocabulary_4096.txt" if folder else None
    place = Path(catalog).expanduser()
    if path is None or not path.is_file() or place.suffix != ".json" or not place.is_file():
        return None
    known = {file.sha256 for file in datasets.get("opendialkg-movies").files}
    return path if hashes.sha256(place) in known else None


@TOPICS.register("lda", filtered=False)
class Lda:
    """The five words of the most probable LDA topic, none below a share of 0.1."""

    def __init__(self, model: str | Path | None = None, llm: "str | LLM" = "") -> None:
        self._model = TopicModel.load(model or default_model())
        self.name = f"lda, {self._model.n_topics} topics, {len(self._model.words)} words"

    def topics(self, texts: Sequence[str]) -> Topics:
        """The topics of every text."""
        return self._model.topics(texts)


@TOPICS.register("heuristic", filtered=True)
class Heuristic:
    """The most frequent words, those that hint at films or feelings first; then the filter."""

    name = "heuristic"

    def __init__(self, model: str | Path | None = None, llm: "str | LLM" = "") -> None:
        if model:
            raise InputError(f"the heuristic takes no topic model; leave {str(model)!r} out")

    def topics(self, texts: Sequence[str]) -> Topics:
        """The topics of every text."""
        return [topic_words.admitted(found) for found in topic_words.heuristics(texts)]


@TOPICS.register("llm", filtered=True, needs="a model: --llm ollama:mistral:7b")
class Llm:
    """At most five topics that an LLM names, one call a distinct text; then the filter.

    A call that fails after all retries is an error that names it, never another method's answer.
    """

    def __init__(self, model: str | Path | None = None, llm: "str | LLM" = "") -> None:
        from crs_lib.thesis.asking import Asker

        self._ask = Asker(llm, "topic extractor llm")
        self.name = f"llm, {self._ask.name}"

    def topics(self, texts: Sequence[str]) -> Topics:
        """The topics of every text; blank texts are not asked about."""
        from crs_lib.thesis.asking import lists

        asked = list(dict.fromkeys(text for text in texts if text.strip()))
        most = topic_words.MOST
        replies = self._ask.objects("movies/topics", asked, lists(["topics"], most), most=most)
        found = {
            text: topic_words.admitted(reply["topics"]) for text, reply in zip(asked, replies, strict=True)
        }
        return [found.get(text, ()) for text in texts]


__all__ = [
    "TOPICS",
    "TRAIN",
    "TopicExtractor",
    "create",
    "default_model",
    "trained_model",
    "vocabulary_of",
]
