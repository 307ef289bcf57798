"""Topics of short texts, for the thesis's older version: at most five words that say what a text is about. A
model of latent Dirichlet allocation is a folder of the thesis's own two files: ``exp_elog_beta.npy``,
exp(E[log β]) as float32 of shape (topics, words), and ``dictionary.tsv``, a row a word: number, word,
document frequency. A plural gives way to its singular (by inflect) where the model knows it; the thesis used
NLTK with WordNet. Source: Hoffman, Blei and Bach (2010), Online learning for latent Dirichlet allocation.
"""

import re
import sys
import zlib
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crs_lib import data as datasets
from crs_lib.core import paths, prompts, rng, safety, tables
from crs_lib.core.errors import InputError
from crs_lib.evaluate.choose import TOPICS

if TYPE_CHECKING:
    from crs_lib.llm import LLM

Floats = NDArray[np.float32]
Bag = tuple[tuple[int, int], ...]
Topics = list[tuple[str, ...]]
MODEL = "models/topics"
TRAIN = "python -m crs_lib catalog topics --catalog FILE"
_STARTS = 1009  # fixed draws that inference begins with
_STEPS = 50
_LEAST = 0.1  # share of a topic below which a text has none
_WORDS_AT_ONCE = 4096
_UNKNOWN = -1
_SMALL = np.finfo(np.float32).eps  # in the norm of φ: of topics that share a text the likelier word's wins
_EDGES = str.maketrans(dict.fromkeys(',:;@#$%&?!*()[]{}<>"“”„‘’«»`', " "))
_TOKEN = re.compile(r"([^\W\d_]{3,}?)(?:n't|'(?:s|m|d|ll|re|ve)?)?(?:\.'?)?")
_PLURAL_ENDS = ("s", "en", "eet", "eeth", "ice", "eese", "ople", "a", "i", "ae")  # no other word is looked up
STEMS = re.compile("love|fear|sad|happy|romantic|tense|dark|futur|drama|emot|space|ghost|sci")
_ASCII_WORD = re.compile(r"[a-z0-9-]+")
MOST = 5


@cache
def _hints() -> list[str]:
    """The beginnings of words that hint at films or feelings."""
    return ", ".join(prompts.lines("thesis")["hints"]).split(", ")


def function_words() -> frozenset[str]:
    """The words of a text that carry no topic."""
    return prompts.vocabulary("thesis", "function words")


def _pieces(text: str) -> list[str]:
    """The lower-cased text cut at blanks and at the marks that a Treebank tokeniser takes off."""
    plain = text.lower().replace("--", " ").replace("..", " ")
    return plain.translate(_EDGES).split()


def _token_of(piece: str) -> str:
    """The word of three letters or more in a piece, without contraction and full stop; else empty."""
    match = _TOKEN.fullmatch(piece)
    return match[1] if match else ""


def _tokens(text: str) -> list[str]:
    """The lower-cased words of three letters or more, as a Treebank tokeniser cuts: "couldn't" is "could"."""
    return list(filter(None, map(_token_of, _pieces(text))))


def _lemma(word: str, vocabulary: Container[str]) -> str:
    """The singular of a noun if the vocabulary has it and not the word itself; else the word."""
    if word in vocabulary:
        return word
    return _singular(word, vocabulary)


def _singular(word: str, vocabulary: Container[str]) -> str:
    """The singular of a noun, by inflect, if the vocabulary has it; else the word."""
    noun = _one_of(word)
    return noun if noun in vocabulary else word


@lru_cache(maxsize=100_000)
def _one_of(word: str) -> str:
    """The singular of a plural; any other word itself."""
    if not word.endswith(_PLURAL_ENDS):
        return word
    return str(_engine().singular_noun(word) or word)


@cache
def _engine() -> Any:
    import inflect

    return inflect.engine()


def admitted(topics: Iterable[str]) -> tuple[str, ...]:
    """The topics that the thesis let count: at most five, each once, in order: two letters or more, not
    generic, with a hint of the film domain or the stem of an emotion.
    """
    lowered = [topic.strip().lower() for topic in topics]
    return tuple(dict.fromkeys(filter(_counts, lowered)))[:MOST]


@lru_cache(maxsize=100_000)
def _counts(topic: str) -> bool:
    """Whether a topic in lower case counts."""
    if len(topic) < 2 or topic in prompts.vocabulary("thesis", "generic"):
        return False
    return _hinted(topic) or STEMS.search(topic) is not None


def _hinted(word: str) -> bool:
    return any(map(word.__contains__, _hints()))


def _heuristic(text: str) -> tuple[str, ...]:
    """At most five words of a text by occurrences, each worth 1, 2 more for a hint and 2 more for a stem."""
    scores = {}
    for word, count in Counter(_ASCII_WORD.findall(text.lower())).items():
        worth = _worth(word)
        if worth:
            scores[word] = count * worth
    ranked = sorted(scores, key=lambda word: -scores[word])
    return tuple(ranked[:MOST])


@lru_cache(maxsize=100_000)
def _worth(word: str) -> int:
    """What an occurrence of a word scores; 0 for a function word."""
    if word in function_words() or word in prompts.vocabulary("thesis", "short words"):
        return 0
    worth = 1
    if _hinted(word):
        worth += 2
    stem = STEMS.search(word)
    if stem and stem.group() != "futur":
        worth += 2
    return worth


class TopicModel:
    """A topic-word matrix and its words. ``alpha`` is the symmetric prior, 1/topics as the thesis had it."""

    def __init__(
        self, words: Sequence[str], exp_elog_beta: Floats, document_frequency: Sequence[int]
    ) -> None:
        _check(exp_elog_beta, len(words))
        self.words = tuple(words)
        self.document_frequency = tuple(document_frequency)
        self.beta = np.ascontiguousarray(exp_elog_beta.T, dtype=np.float32)
        self.n_topics = exp_elog_beta.shape[0]
        self.alpha = 1 / self.n_topics
        self.number = dict(zip(self.words, range(len(self.words)), strict=True))
        best = np.argsort(-exp_elog_beta, axis=1, kind="stable")[:, :MOST]
        self.top_words = []
        for numbers in best.tolist():
            self.top_words.append(tuple(map(self.words.__getitem__, numbers)))
        self._number_of = lru_cache(maxsize=200_000)(self._find)

    @classmethod
    @safety.reader("a topic model")
    def load(cls, folder: str | Path) -> "TopicModel":
        """Read a model's folder; InputError names what is missing and the command that makes a model."""
        path = paths.given(folder)
        try:
            matrix = np.load(path / "exp_elog_beta.npy", allow_pickle=False)
            rows = _dictionary(path / "dictionary.tsv")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InputError(
                f"no topic model (exp_elog_beta.npy and dictionary.tsv) in {paths.shown(path)} ({reason}); "
                f"train one with {TRAIN}, set CRS_MIRROR for the thesis's own, or take topics heuristic"
            ) from error
        words = []
        document_frequency = []
        for number, row in enumerate(rows):
            if row.number != number:
                raise InputError("dictionary.tsv must number its words 0, 1, 2, … without a gap")
            words.append(row.word)
            document_frequency.append(row.document_frequency)
        return cls(words, matrix, document_frequency)

    def save(self, folder: Path) -> None:
        """Write the two files, each atomically."""
        with tables.write_aside(folder / "exp_elog_beta.npy", "wb") as file:
            np.save(file, np.ascontiguousarray(self.beta.T))
        rows = zip(self.words, self.document_frequency, strict=True)
        with tables.write_aside(folder / "dictionary.tsv") as file:
            for number, (word, document_frequency) in enumerate(rows):
                file.write(f"{number}\t{tables.as_text(word)}\t{document_frequency}\n")

    def bag(self, text: str) -> Bag:
        """The model's words in a text: number and count, ascending."""
        counts = Counter(map(self._number_of, _pieces(text)))
        counts.pop(_UNKNOWN, None)
        return tuple(sorted(counts.items()))

    def _find(self, piece: str) -> int:
        """The number of the model's word that a piece of text is, -1 for none."""
        return self.number.get(_lemma(_token_of(piece), self.number), _UNKNOWN)

    def shares(self, bags: Sequence[Bag], starts: Sequence[int]) -> Floats:
        """Topic shares of bags of words, (bags, topics), rows sum to 1; an empty bag is uniform. The
        variational E-step, until the mean change is below 0.001, at most 50 times; ``starts`` says with which
        of the fixed draws from Gamma(100, 0.01) each bag begins.
        """
        shape = (len(bags), self.n_topics)
        out = np.full(shape, 1 / self.n_topics, dtype=np.float32)
        by_length: dict[int, list[int]] = {}
        for row, bag in enumerate(bags):
            if bag:
                by_length.setdefault(len(bag), []).append(row)
        for length, rows in by_length.items():
            size = max(1, _WORDS_AT_ONCE // length)
            for first in range(0, len(rows), size):
                part = rows[first : first + size]
                entries = np.array([bags[row] for row in part], dtype=np.int64)
                counts = entries[:, :, 1].astype(np.float32)
                begin = self.starts[[starts[row] for row in part]]
                gamma = self.infer(entries[:, :, 0], counts, begin)
                out[part] = gamma / gamma.sum(axis=1, keepdims=True)
        return out

    @cached_property
    def starts(self) -> Floats:
        """The fixed draws that inference begins with."""
        draw = rng.stream(0, "topics", "start")
        starts = draw.gamma(100.0, 0.01, (_STARTS, self.n_topics))
        return starts.astype(np.float32)

    def infer(self, words: NDArray[np.int64], counts: Floats, gamma: Floats) -> Floats:
        """γ of bags of equal length: (bags, words) numbers and counts, starts ``gamma`` (overwritten)."""
        beta = self.beta[words]
        active = np.arange(len(words))
        theta = _exp_elog(gamma)
        for _ in range(_STEPS):
            before = gamma[active]
            norm = np.einsum("bwk,bk->bw", beta, theta) + _SMALL
            expected = theta * np.einsum("bw,bwk->bk", counts / norm, beta)
            new = np.float32(self.alpha) + expected
            gamma[active] = new
            change = np.abs(new - before).mean(axis=1)
            moving = change >= np.float32(0.001)
            if not moving.any():
                break
            active = active[moving]
            counts = counts[moving]
            beta = beta[moving]
            theta = _exp_elog(new[moving])
        return gamma

    def topics(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The five words of each text's most probable topic; none where no topic has a share of 0.1."""
        # A text takes the same fixed start in every process. (The thesis drew a new one per call.)
        pairs = []
        for text in texts:
            start = zlib.crc32(text.encode("utf-8", "surrogatepass")) % _STARTS
            pairs.append((self.bag(text), start))
        distinct = dict.fromkeys(pairs)
        bags, starts = zip(*distinct, strict=True) if distinct else ((), ())
        topics = map(self._words_of, bags, self.shares(bags, starts))
        words = dict(zip(distinct, topics, strict=True))
        return list(map(words.__getitem__, pairs))

    def _words_of(self, bag: Bag, shares: Floats) -> tuple[str, ...]:
        """The words of the topic with the largest share of a text."""
        topic = int(shares.argmax())
        if bag and shares[topic] >= _LEAST:
            return self.top_words[topic]
        return ()


class _Word(NamedTuple):
    """A row of ``dictionary.tsv``."""

    number: int
    word: str
    document_frequency: int


def _dictionary(path: Path) -> list[_Word]:
    """The words of a model, by number; ValueError for a row that is not of three cells."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        number, word, document_frequency = line.split("\t")
        rows.append(_Word(int(number), tables.as_it_was(word), int(document_frequency)))
    return sorted(rows)


def _check(matrix: Floats, n_words: int) -> None:
    """InputError for a matrix that is none of topics and words."""
    shape = matrix.shape
    if len(shape) != 2 or shape[1] != n_words:
        raise InputError(f"topic matrix of shape {shape} for {n_words} words; expected (topics, words)")
    if not (matrix >= 0).all() or np.isinf(matrix).any():
        raise InputError("the topic matrix holds NaN, infinite or negative numbers; expected 0 or above")


def _exp_elog(gamma: Floats) -> Floats:
    """exp(E[log θ]) under a Dirichlet: exp(ψ(γ) − ψ(Σγ))."""
    from scipy.special import psi

    total = gamma.sum(axis=1, keepdims=True)
    return np.asarray(np.exp(psi(gamma) - psi(total)))


def train(
    plots: Sequence[str], *, n_topics: int = 50, passes: int = 15, seed: int = 42, least: int = 5
) -> TopicModel:
    """A model of the plots: words in at least ``least`` and at most half of them, scikit-learn's variational
    Bayes, priors of 1/topics; the same plots and seed give the same. InputError for too few words.
    """
    from sklearn.decomposition import LatentDirichletAllocation
    from sklearn.feature_extraction.text import CountVectorizer

    texts = _lemmatised(plots)
    frequency: Counter[str] = Counter()
    for words in texts:
        frequency.update(set(words))
    vocabulary = []
    for word, n_plots in sorted(frequency.items()):
        if least <= n_plots <= len(plots) / 2:
            vocabulary.append(word)
    if len(vocabulary) < n_topics:
        few = f"only {len(vocabulary)} words occur in {least} to 50% of the {len(plots)} plots"
        raise InputError(f"{few}; too few for {n_topics} topics, ask for fewer topics")
    counter = CountVectorizer(analyzer=list, vocabulary=vocabulary, dtype=np.float64)
    counts = counter.transform(texts)
    model = LatentDirichletAllocation(n_topics, max_iter=passes, random_state=seed, learning_method="batch")
    exp_elog_beta = _exp_elog(model.fit(counts).components_).astype(np.float32)
    return TopicModel(vocabulary, exp_elog_beta, list(map(frequency.__getitem__, vocabulary)))


def _lemmatised(plots: Sequence[str]) -> list[list[str]]:
    """The words of each plot without function words; a plural gives way to a singular that some plot has."""
    common = function_words()
    cut = []
    vocabulary: set[str] = set()
    for plot in plots:
        words = [word for word in _tokens(plot) if word not in common]
        cut.append(words)
        vocabulary.update(words)
    texts = []
    for words in cut:
        texts.append([_singular(word, vocabulary) for word in words])
    return texts


class TopicExtractor(Protocol):
    """Names topics of texts; ``name`` says how, with the model where there is one."""

    name: str

    def topics(self, texts: Sequence[str]) -> Topics: ...


def create(spec: str, *, model: str | Path | None = None, llm: "str | LLM" = "") -> TopicExtractor:
    """The topic extractor of a name (``model``: folder of ``lda``); InputError for one that is not there."""
    extractor: TopicExtractor = TOPICS.create(spec, model=model, llm=llm)
    return extractor


def trained_model() -> Path:
    """The folder that ``python -m crs_lib catalog topics`` writes to unless told otherwise."""
    return paths.data() / "processed" / MODEL


def _default_model() -> Path:
    """The topic model that is used where none is named: one trained here, else the thesis's in the mirror."""
    own = trained_model()
    return own if own.is_dir() else datasets.get("thesis-lda").in_mirror() or own


def vocabulary_of(catalog: str | Path) -> Path | None:
    """The features of the thesis's sentence space, for the thesis's own catalogue where a mirror has them."""
    folder = datasets.get("thesis-reference").in_mirror()
    file = Path(catalog).expanduser()
    if not folder or file.suffix != ".json" or not file.is_file():
        return None
    vocabulary = folder / "tfidf_vocabulary_4096.txt"
    digests = [source.sha256 for source in datasets.get("opendialkg-movies").files]
    if vocabulary.is_file() and tables.sha256(file) in digests:
        return vocabulary
    return None


@TOPICS.register("lda", model=True)
class Lda:
    """The five words of the most probable LDA topic, none below a share of 0.1."""

    kind = "lda"

    def __init__(self, model: str | Path | None = None, llm: "str | LLM" = "") -> None:
        self.folder = Path(model or _default_model())
        self._model = TopicModel.load(self.folder)
        self.name = f"{self.kind}, {self._model.n_topics} topics, {len(self._model.words)} words"

    def topics(self, texts: Sequence[str]) -> Topics:
        return self._model.topics(texts)


@TOPICS.register("heuristic")
class _Heuristic:
    """The most frequent words, those that hint at films or feelings first; then the filter."""

    name = "heuristic"

    def __init__(self, model: str | Path | None = None, llm: "str | LLM" = "") -> None:
        if model:
            raise InputError(f"the heuristic takes no topic model; leave {str(model)!r} out")

    def topics(self, texts: Sequence[str]) -> Topics:
        return [admitted(_heuristic(text)) for text in texts]


@TOPICS.register("lda_or_heuristic", model=True)
def _lda_or_heuristic(model: str | Path | None = None, llm: "str | LLM" = "") -> TopicExtractor:
    """``lda`` where a topic model is here, else the heuristic, which the column ``embedder`` names."""
    if model or (_default_model() / "dictionary.tsv").is_file():
        return Lda(model)
    by_words = _Heuristic()
    by_words.name = "heuristic (no topic model is here)"
    print(f"topics: the heuristic, as no topic model is here; train one with {TRAIN}", file=sys.stderr)
    return by_words


@TOPICS.register("llm", asks="crs_lib.thesis.asking")
class _Llm:
    """At most five topics that an LLM names, one call a distinct text; then the filter.
    A call that fails after all retries is an error that names it, never another method's answer.
    """

    def __init__(self, model: str | Path | None = None, llm: "str | LLM" = "") -> None:
        from crs_lib.thesis.asking import Asker

        self._ask = Asker(llm, "topic extractor llm")
        self.name = f"llm, {self._ask.name}"

    def topics(self, texts: Sequence[str]) -> Topics:
        """The topics of every text; blank texts are not asked about."""
        topics: dict[str, tuple[str, ...]] = dict.fromkeys(texts, ())
        distinct = list(filter(str.strip, topics))
        replies = self._ask.lists("movies/topics", distinct, ["topics"], MOST, most=MOST)
        for text, reply in zip(distinct, replies, strict=True):
            topics[text] = admitted(reply["topics"])
        return list(map(topics.__getitem__, texts))
