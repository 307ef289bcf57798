"""Latent Dirichlet allocation: topics of short texts from a stored model, and training one on the plots.

A model is a folder of two files, the thesis's own form: ``exp_elog_beta.npy``, exp(E[log β]) as float32 of
shape (topics, words), and ``dictionary.tsv``, a row a word: number, word, document frequency.
Source: Hoffman, Blei and Bach (2010), Online learning for latent Dirichlet allocation.
"""

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import outside, paths, rng, tables
from crs_lib.core.errors import InputError
from crs_lib.thesis.topic_words import FUNCTION_WORDS, MOST, lemma, pieces, singular, token_of, tokens

Floats = NDArray[np.float32]
TRAIN = "python -m crs_lib topics --catalog FILE"
Bag = tuple[tuple[int, int], ...]
_STARTS = 1009
_SMALL = np.finfo(
    np.float32
).eps  # in the norm of φ: of two topics that share a text the likelier word's wins


class _Numbers(dict[str, int]):
    """The number of the model's word that a piece of text is, -1 for none; fills itself."""

    def __init__(self, number: Mapping[str, int]) -> None:
        self._number = number

    def __missing__(self, piece: str) -> int:
        token = token_of(piece)
        self[piece] = self._number.get(lemma(token, self._number), -1) if token else -1
        return self[piece]


class TopicModel:
    """A topic-word matrix and its words. ``alpha`` is the symmetric prior, 1/topics as the thesis had it."""

    def __init__(
        self, words: Sequence[str], exp_elog_beta: Floats, document_frequency: Sequence[int]
    ) -> None:
        if exp_elog_beta.ndim != 2 or exp_elog_beta.shape[1] != len(words):
            raise InputError(
                f"the topic matrix has shape {exp_elog_beta.shape} for {len(words)} words; expected "
                "(topics, words)"
            )
        self.words = tuple(words)
        self.document_frequency = tuple(document_frequency)
        self.beta = np.ascontiguousarray(exp_elog_beta.T, dtype=np.float32)
        self.n_topics = exp_elog_beta.shape[0]
        self.alpha = 1 / self.n_topics
        self.number = {word: number for number, word in enumerate(self.words)}
        best = np.argsort(-exp_elog_beta, axis=1, kind="stable")[:, :MOST]
        self.top_words = [tuple(self.words[i] for i in row) for row in best.tolist()]
        self._numbers = _Numbers(self.number)

    @classmethod
    @outside.reader("a topic model")
    def load(cls, folder: str | Path) -> "TopicModel":
        """Read a model's folder; InputError names what is missing and the command that makes a model."""
        place = paths.given(folder)
        try:
            matrix = np.load(place / "exp_elog_beta.npy", allow_pickle=False)
            lines = (place / "dictionary.tsv").read_text(encoding="utf-8").splitlines()
            rows = [(int(number), word, int(df)) for number, word, df in (li.split("\t") for li in lines)]
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InputError(
                f"no topic model in {paths.shown(place)} ({reason}); it is two files, exp_elog_beta.npy and "
                f"dictionary.tsv: train one on a catalogue's plots with {TRAIN}, set CRS_MIRROR to a folder "
                "that holds thesis/lda (the thesis's own), or do without: topics heuristic"
            ) from error
        if sorted(number for number, _, _ in rows) != list(range(len(rows))):
            raise InputError("dictionary.tsv must number its words 0, 1, 2, … without a gap")
        rows.sort()
        return cls([word for _, word, _ in rows], matrix, [df for _, _, df in rows])

    def save(self, folder: Path) -> None:
        """Write the two files, each atomically."""
        with tables.write_aside(folder / "exp_elog_beta.npy", "wb") as file:
            np.save(file, np.ascontiguousarray(self.beta.T))
        with tables.write_aside(folder / "dictionary.tsv") as file:
            for number, word in enumerate(self.words):
                file.write(f"{number}\t{word}\t{self.document_frequency[number]}\n")

    def bag(self, text: str) -> Bag:
        """The model's words in a text: number and count, ascending."""
        if len(self._numbers) > 200_000:
            self._numbers.clear()
        found = Counter(map(self._numbers.__getitem__, pieces(text)))
        found.pop(-1, None)
        return tuple(sorted(found.items()))

    def shares(self, bags: Sequence[Bag], starts: Sequence[int], *, steps: int = 50) -> Floats:
        """Topic shares of bags of words, (bags, topics), rows sum to 1; an empty bag is uniform.

        The variational E-step: γ = α + Σ over words of the expected topic counts, until the mean change is
        below 0.001, at most ``steps`` times. ``starts`` says with which of the fixed draws from
        Gamma(100, 0.01), near equal topics, each bag begins; what else is asked for does not matter.
        """
        out = np.full((len(bags), self.n_topics), 1 / self.n_topics, dtype=np.float32)
        by_length: dict[int, list[int]] = {}
        for row, bag in enumerate(bags):
            if bag:
                by_length.setdefault(len(bag), []).append(row)
        for length, rows in sorted(by_length.items()):
            size = max(1, 4096 // length)
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                both = np.array([bags[row] for row in part], dtype=np.int64)
                begin = self._starts[[starts[row] for row in part]]
                gamma = self.infer(both[:, :, 0], both[:, :, 1].astype(np.float32), begin, steps)
                out[part] = gamma / gamma.sum(axis=1, keepdims=True)
        return out

    @cached_property
    def _starts(self) -> Floats:
        draws = rng.stream(0, "topics", "start").gamma(100.0, 0.01, (_STARTS, self.n_topics))
        starts: Floats = draws.astype(np.float32)
        return starts

    def infer(self, words: NDArray[np.int64], counts: Floats, gamma: Floats, steps: int = 50) -> Floats:
        """γ of bags of equal length from their starts: (bags, words) numbers and counts to (bags, topics).

        ``gamma`` holds the starts, one row a bag, and is overwritten.
        """
        beta = self.beta[words]
        active = np.arange(len(words))
        theta = _exp_elog(gamma)
        for _ in range(steps):
            before = gamma[active]
            norm = np.einsum("bwk,bk->bw", beta, theta) + _SMALL
            expected = theta * np.einsum("bw,bwk->bk", counts / norm, beta)
            new = np.float32(self.alpha) + expected
            gamma[active] = new
            moving = np.abs(new - before).mean(axis=1) >= np.float32(0.001)
            if not moving.any():
                break
            active, counts, beta = active[moving], counts[moving], beta[moving]
            theta = _exp_elog(new[moving])
        return gamma

    def topics(self, texts: Sequence[str], least: float = 0.1) -> list[tuple[str, ...]]:
        """The five words of each text's most probable topic; none where no topic has a share of ``least``."""
        asked = [(self.bag(text), start_of(text)) for text in texts]
        distinct = [pair for pair in dict.fromkeys(asked) if pair[0]]
        shares = self.shares([bag for bag, _ in distinct], [start for _, start in distinct])
        best, high = shares.argmax(axis=1).tolist(), shares.max(axis=1).tolist()
        words = {
            pair: self.top_words[topic]
            for pair, topic, share in zip(distinct, best, high, strict=True)
            if share >= least
        }
        return [words.get(pair, ()) for pair in asked]


def start_of(text: str) -> int:
    """Which of the fixed starts a text takes: the same in every process, and spread over texts.

    (The thesis drew a new start per call, so that its figures depend on the order of calls.)
    """
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) % _STARTS


def _exp_elog(gamma: Floats) -> Floats:
    """exp(E[log θ]) under a Dirichlet: exp(ψ(γ) − ψ(Σγ))."""
    from scipy.special import psi

    out: Floats = np.exp(psi(gamma) - psi(gamma.sum(axis=1, keepdims=True)))
    return out


def train(
    plots: Sequence[str],
    *,
    n_topics: int = 50,
    passes: int = 15,
    seed: int = 42,
    least: int = 5,
    most: float = 0.5,
) -> TopicModel:
    """A model of the plots: words in at least ``least`` and at most a share ``most`` of them.

    scikit-learn's variational Bayes with symmetric priors of 1/topics, in one process: the same plots and
    seed give the same model. Raises InputError where fewer words than topics are left.
    """
    from scipy.sparse import csr_array
    from scipy.special import psi
    from sklearn.decomposition import LatentDirichletAllocation

    cut = [[word for word in tokens(plot) if word not in FUNCTION_WORDS] for plot in plots]
    seen = {word for words in cut for word in words}
    texts = [[singular(word, seen) for word in words] for words in cut]
    df = Counter(word for words in texts for word in set(words))
    kept = sorted(word for word, n in df.items() if least <= n <= most * len(plots))
    if len(kept) < n_topics:
        raise InputError(
            f"only {len(kept)} words occur in {least} to {most:.0%} of the {len(plots)} plots; too few for "
            f"{n_topics} topics, ask for fewer topics or a lower bound"
        )
    number = {word: n for n, word in enumerate(kept)}
    rows = [row for row, words in enumerate(texts) for word in words if word in number]
    columns = [number[word] for words in texts for word in words if word in number]
    counts = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(texts), len(kept)))
    model = LatentDirichletAllocation(n_topics, max_iter=passes, random_state=seed, learning_method="batch")
    model.fit(counts)
    lam = model.components_
    exp_elog_beta = np.exp(psi(lam) - psi(lam.sum(axis=1, keepdims=True))).astype(np.float32)
    return TopicModel(kept, exp_elog_beta, [df[word] for word in kept])
