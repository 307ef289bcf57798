"""The thesis's topics with the random draws of its own runs, in its own order of calls. gensim draws the
start of every inference from the topic model's generator, whose state depends only on how much was drawn and
is rebuilt here; with NLTK's tokens and WordNet's lemmas (Debian's ``wordnet-base``, or NLTK's data) every
session then has the original's numbers. Source: gensim 4.4.0, ``LdaModel`` (``__init__``, ``update``,
``bound``, ``show_topics``); Fellbaum (1998), WordNet, function Morphy.
"""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crs_lib import data as datasets
from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError
from crs_lib.evaluate.choose import TOPICS
from crs_lib.thesis.legacy import LegacyScorer
from crs_lib.thesis.topics import Lda, Topics, function_words

if TYPE_CHECKING:
    from crs_lib.llm import LLM

NAME = "lda_replayed"
_SEED, _PASSES, _CHUNKS = 42, 15, (2000, 164)  # the thesis trained on 2,164 plots, 2,000 at a time
_SHAPE, _RATE = 100.0, 0.01  # of the gamma draws
_LEAST = 0.1
# Endings of regular plurals, and of their singulars.
_ENDS = (
    ("s", ""),
    ("ses", "s"),
    ("ves", "f"),
    ("xes", "x"),
    ("zes", "z"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("men", "man"),
    ("ies", "y"),
)
_NOUNS, _EXCEPTIONS = "index.noun", "noun.exc"  # files of WordNet


def _wordnet() -> Path:
    """Where WordNet lies: ``WNSEARCHDIR``, Debian's place, or NLTK's data; InputError says how to get it."""
    own = os.environ.get("WNSEARCHDIR")
    folders = [own] if own else ["/usr/share/wordnet"]
    if not own:
        for data in (os.environ.get("NLTK_DATA", ""), "~/nltk_data"):
            if data:
                folders.append(f"{data}/corpora/wordnet")
    for folder in map(paths.given, folders):
        if (folder / _NOUNS).is_file() and (folder / _EXCEPTIONS).is_file():
            return folder
    searched = ", ".join(map(paths.shown, map(paths.given, folders)))
    missing = f"no WordNet ({_NOUNS} and {_EXCEPTIONS}) in {searched}"
    remedy = "install Debian's wordnet-base, or unpack WordNet 3.0 and set WNSEARCHDIR to its folder dict"
    raise InputError(f"{missing}; {remedy}")


@safety.reader("WordNet")
def noun_lemmas() -> Callable[[str], str]:
    """The noun lemma of a word by WordNet 3.0: the shortest noun of its forms, else the word."""
    folder = _wordnet()
    nouns = set()
    for line in (folder / _NOUNS).read_text(encoding="utf-8").splitlines():
        if not line.startswith(" "):
            nouns.add(line.partition(" ")[0])
    irregular = {}
    for line in (folder / _EXCEPTIONS).read_text(encoding="utf-8").splitlines():
        if line.split():
            plural, *singulars = line.split()
            irregular[plural] = singulars

    @lru_cache(maxsize=100_000)
    def lemma(word: str) -> str:
        forms = [word, *irregular.get(word, _regular_singulars(word))]
        return min(filter(nouns.__contains__, forms), key=len, default=word)

    return lemma


def _regular_singulars(word: str) -> list[str]:
    """What a word would be the plural of, by its endings."""
    singulars = []
    for plural_end, end in _ENDS:
        if word.endswith(plural_end):
            singulars.append(word.removesuffix(plural_end) + end)
    return singulars


def _generator_after_training(n_topics: int, n_words: int) -> np.random.RandomState:
    """The generator of the thesis's topic model as its training left it."""
    state = np.random.RandomState(_SEED)
    state.gamma(_SHAPE, _RATE, (n_topics, n_words))
    for plots in _CHUNKS * _PASSES:
        if plots == _CHUNKS[-1]:  # at the end of a pass the last chunk's perplexity is logged
            state.gamma(_SHAPE, _RATE, (plots, n_topics))
        state.gamma(_SHAPE, _RATE, (plots, n_topics))
        state.rand(n_topics)  # the order in which topics are logged
    return state


@TOPICS.register(NAME, model=True, in_order=True)
class ReplayedLda(Lda):
    """LDA topics with the draws that the thesis made: its own numbers, for its own logs in its own order.
    A text's topics depend on all texts before it. A text that has topics keeps them; one without is inferred
    anew each time. Needs the thesis's topic model, NLTK (``pip install nltk``) and WordNet.
    """

    kind = "lda replayed"

    def __init__(self, model: str | Path | None = None, llm: "str | LLM" = "") -> None:
        super().__init__(model)
        digests = [file.sha256 for file in datasets.get("thesis-lda").files]
        if tables.sha256(self.folder / "exp_elog_beta.npy") not in digests:
            other = f"{NAME} replays the thesis's own topic model, and {str(self.folder)!r} holds another"
            raise InputError(f"{other}; set CRS_MIRROR to a folder with thesis/lda, or take topics lda")
        self._cut = _tokeniser()
        self._lemma = noun_lemmas()
        self._draws = _generator_after_training(self._model.n_topics, len(self._model.words))
        self._topics_of: dict[str, tuple[str, ...]] = {}

    def topics(self, texts: Sequence[str]) -> Topics:
        """The topics of every text, inferred in the order given."""
        return list(map(self.of, texts))

    def every(self) -> list[tuple[str, ...]]:
        """All lists of words that a text can have."""
        return self._model.top_words

    def of(self, text: str) -> tuple[str, ...]:
        """The five words of the text's most probable topic; none where no topic has a share of 0.1."""
        if text in self._topics_of:
            return self._topics_of[text]
        draws = self._draws.gamma(_SHAPE, _RATE, (1, self._model.n_topics))
        gamma = draws.astype(np.float32)
        bag = self._bag(text)
        if bag:  # an empty text takes its draws, too
            numbers, counts = np.array(sorted(bag.items())).T
            gamma = self._model.infer(numbers[None], counts[None].astype(np.float32), gamma)
        best = int(gamma[0].argmax())
        if gamma[0, best] / gamma[0].sum() < _LEAST:
            return ()
        self._topics_of[text] = self._model.top_words[best]
        return self._topics_of[text]

    def _bag(self, text: str) -> Counter[int]:
        """The model's words in a text, by number."""
        common = function_words()
        bag: Counter[int] = Counter()
        for word in self._cut(text):
            if len(word) > 2 and word.isalpha() and word not in common:
                number = self._model.number.get(self._lemma(word))
                if number is not None:
                    bag[number] += 1
        return bag


def _tokeniser() -> Any:
    """NLTK's word tokeniser after its sentence splitter, lower-cased; InputError without NLTK."""
    try:
        from nltk.tokenize.destructive import NLTKWordTokenizer
        from nltk.tokenize.punkt import PunktSentenceTokenizer
    except ImportError as error:
        raise InputError(f"topics {NAME} need NLTK: pip install 'nltk>=3.9'") from error
    sentences = PunktSentenceTokenizer()
    words = NLTKWordTokenizer()

    def tokens(text: str) -> list[str]:
        every: list[str] = []
        for sentence in sentences.tokenize(text.lower()):
            every += words.tokenize(sentence)
        return every

    return tokens


class ReplayedScorer(LegacyScorer):
    """The older version's scorer asking for topics one text at a time; sessions in the thesis's order."""

    topics: ReplayedLda

    def _topics_of(self, *_: Any) -> Callable[[str], tuple[str, ...]]:
        """The topics of a text, inferred when they are asked for."""
        self._learn(self.topics.every())
        return self.topics.of
