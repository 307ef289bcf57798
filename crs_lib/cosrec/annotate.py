"""Questions to assessors about CoSRec (relevance, intents, quality), and the corpus files of their answers.

Relevance is asked of a pool: the best documents of several runs, as TREC makes it. Where the assessors of a
question of relevance or intents differ, a second page asks it again, and that answer stands.
Source: docs/cosrec.md, section 6; pooling: Voorhees and Harman (2005), TREC.
"""

import hashlib
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib.core import paths, prompts, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.cosrec import corpus, index, labels, retrieve
from crs_lib.cosrec.records import ASPECTS, INTENTS, Conversation, Partition, topic, user_of
from crs_lib.cosrec.settings import NAME
from crs_lib.retrieval.runs import Run
from crs_lib.stats.labels import read_labels

_Question = dict[str, Any]
_Line = dict[str, str]
_RANGES = {"relevance": (0, 2), "intents": (0, 1), "quality": (1, 5)}
_REVIEW = "review"


def pool(runs: Mapping[str, Run], depth: int) -> dict[str, list[str]]:
    """The documents to judge for each topic: the ``depth`` best of every run, sorted by id. Neither the order
    of the runs nor a rank shows in it.
    """
    found: dict[str, set[str]] = {}
    for run in runs.values():
        for name, hits in run.items():
            found.setdefault(name, set()).update(hit.id for hit in hits[:depth])
    return {name: sorted(found[name]) for name in sorted(found)}


@dataclass(frozen=True)
class Assessment:
    """What assessors are asked about the first ``n`` conversations of a partition. ``kind``: relevance,
    intents or quality. Relevance is asked of the ``depth`` best of each run of notebook 13 (``run``);
    ``mapping`` says whose profile a topic's user index shows.
    """

    kind: str
    run: str = "smoke"
    source: str = "sample"
    partition: str = "curated"
    n: int = 60
    depth: int = 10
    mapping: str = "zero_is_generic"

    @cached_property
    def _read(self) -> Partition:
        return corpus.load(corpus.locate(self.source), self.partition)

    @cached_property
    def talks(self) -> list[Conversation]:
        """The conversations that are asked about."""
        return list(self._read.conversations.values())[: self.n]

    @cached_property
    def questions(self) -> list[_Question]:
        """The questions as the page shows them; their ids are all that an answer needs to be read. Ids are
        ``<topic> <document>``, ``<conversation>_<turn> <intent>`` and ``<conversation> <aspect>``. Raises
        InputError where there is nothing to ask.
        """
        made = {"relevance": self._relevance, "intents": self._intents, "quality": self._quality}[self.kind]
        if found := list(made()):
            return found
        raise InputError(f"nothing to ask about {self.kind} in {self.partition} of {self.source!r}")

    def _relevance(self) -> Iterator[_Question]:
        stock, asked = index.opened(corpus.locate(self.source)), {talk.id for talk in self.talks}
        for name, documents in pool(retrieve.runs_of(self.run), self.depth).items():
            judged = topic(name)
            if judged.conversation not in asked:
                continue
            lines = _lines(self._read.conversations[judged.conversation], judged.turn)
            user = user_of(self._read, judged, self.mapping)
            about = [_line("note", "About this person", user.profile)] if user and user.profile else []
            collection = stock.passages if judged.kind == "search" else stock.products
            for document in (one for one in documents if one in collection):
                what, text = ("Passage", stock.passages[document].block()) if judged.kind == "search" else (
                    "Product", stock.products[document].block(0))  # fmt: skip
                shown = [lines[-1], *about, _line("system", what, text)]
                yield _question(f"{name} {document}", lines[:-1], shown)

    def _intents(self) -> Iterator[_Question]:
        told = prompts.lists("cosrec/annotation")["intents_text"]
        for talk in self.talks:
            for turn, kind in product(range(len(talk.turns)), INTENTS):
                lines = _lines(talk, turn)
                yield _question(f"{talk.id}_{turn} {kind}", lines[:-2], lines[-2:], told[kind])

    def _quality(self) -> Iterator[_Question]:
        told = prompts.lists("cosrec/annotation")["quality_text"]
        for talk, aspect in product(self.talks, ASPECTS):
            yield _question(f"{talk.id} {aspect}", [], _lines(talk, len(talk.turns) - 1, True), told[aspect])

    def page(self, items: Sequence[_Question] | None = None) -> dict[str, Any]:
        """The data of the page of all questions, or of the review of some."""
        shown, review = (self.questions, "") if items is None else (items, _REVIEW)
        told = prompts.lists("cosrec/annotation")[self.kind]
        identity = "\n".join([review, *(one["id"] for one in shown)])  # tells one page from another
        page = hashlib.sha256(identity.encode()).hexdigest()[:16]
        return {"page": page, "text": "", **told, "questions": shown}

    def answers(self, files: Iterable[str | Path]) -> "Answers":
        """The exported answers of all assessors, and of the review; InputError for those of another page."""
        return Answers(self, files)


class Answers:
    """The answers to an assessment: all ``views``, what is in doubt, the values that stand (``final``)."""

    def __init__(self, asked: Assessment, files: Iterable[str | Path]) -> None:
        given = read_labels(files, *_RANGES[asked.kind])
        whole, known = asked.page()["page"], {one["id"]: one for one in asked.questions}
        last = {(one.page, one.rater, one.item): (where, one) for where, one in given}
        self.asked = asked
        self.views = {(one.item, one.rater): one for _, one in last.values() if one.page == whole}
        self.raters = sorted({rater for _, rater in self.views})
        values = dict[str, set[int]]()
        for (item, _), one in self.views.items():
            values.setdefault(item, set()).add(one.value)
        differ = {item for item, given in values.items() if len(given) > 1 and asked.kind != "quality"}
        self.doubtful = [self._with_views(one) for name, one in known.items() if name in differ]
        review = asked.page(self.doubtful)["page"]
        for where, one in last.values():
            if one.page not in (whole, review) or one.item not in known:
                other = f"{where}: the answer belongs to page {one.page!r}, not to {whole!r} or its review"
                raise InputError(f"{other}; give the settings, runs and first answers of its page")
        self.reviewed = {one.item: one for _, one in last.values() if one.page == review}
        self.open = [one for one in self.doubtful if one["id"] not in self.reviewed]
        self.final = {name: min(given) for name, given in values.items()}
        self.final |= {name: one.value for name, one in self.reviewed.items()}

    def _with_views(self, question: _Question) -> _Question:
        """A question with what its assessors said, for the review."""
        scale = prompts.lists("cosrec/annotation")[self.asked.kind]["scale"]  # reviewed scales begin at 0
        views = [one for (item, _), one in self.views.items() if item == question["id"]]
        said = "; ".join(f"{scale[one.value]} {one.words}".strip() for one in views)
        (side,) = question["sides"]
        return {**question, "sides": [[*side, _line("note", "The assessors said", said)]]}

    def write(self, out: Path) -> Partition:
        """Write the answers into a corpus: a copy of the source, made where ``out`` is not there yet.
        Relevance gives ``qrels.qrels``; quality ``quality.jsonl``; intents ``intents.jsonl`` and the views of
        all, ``intent_annotations.jsonl``, and takes former judgments away. Raises RunError while a doubtful
        question is not reviewed, or a turn or rating is not complete.
        """
        if self.open:
            raise RunError(f"{len(self.open)} questions are in doubt; import the answers of the review, too")
        if not out.exists():
            shutil.copytree(corpus.locate(self.asked.source), out)
        folder = out / self.asked.partition
        if self.asked.kind == "relevance":
            pairs = sorted((*name.split(), value) for name, value in self.final.items())
            lines = [f"{name} 0 {document} {value}\n" for name, document, value in pairs]
            tables.write_whole(folder / "qrels.qrels", "".join(lines))
        elif self.asked.kind == "quality":
            tables.write_jsonl(folder / "quality.jsonl", self._ratings())
        else:
            made = [(talk.id, *self._turns(talk)) for talk in self.asked.talks]
            tables.write_jsonl(folder / "intents.jsonl", ({name: final} for name, final, _ in made))
            views = ({name: given} for name, _, given in made)
            tables.write_jsonl(folder / "intent_annotations.jsonl", views)
            (folder / "qrels.qrels").unlink(missing_ok=True)
        return corpus.load(out, self.asked.partition)

    def _ratings(self) -> Iterator[dict[str, list[dict[str, int]]]]:
        """Each conversation's ratings, one a rater; those that lack an aspect are left out."""
        for talk in self.asked.talks:
            items = {aspect: f"{talk.id} {aspect}" for aspect in ASPECTS}
            whole = self._complete(items.values())
            given = [{a: self.views[item, rater].value for a, item in items.items()} for rater in whole]
            yield {talk.id: given}

    def _complete(self, items: Collection[str]) -> list[str]:
        """The assessors who answered all of some questions."""
        return [rater for rater in self.raters if all((item, rater) in self.views for item in items)]

    def _turns(self, talk: Conversation) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The intents of a conversation's turns that stand, and the views of all annotators."""
        final, given = [], []
        for turn, said in enumerate(talk.texts("U")):
            items = {kind: f"{talk.id}_{turn} {kind}" for kind in INTENTS}
            if missing := [item for item in items.values() if item not in self.final]:
                raise RunError(f"no answer to {missing[0]!r}; every intent of every turn needs one")
            cells = [
                [{"type": kind, "query": self.views[item, rater].words or said}
                 for kind, item in items.items() if self.views[item, rater].value]
                for rater in self._complete(items.values())
            ]  # fmt: skip
            found = list[dict[str, Any]]()
            for kind in (kind for kind in INTENTS if self.final[items[kind]]):
                queries = [label["query"] for cell in cells for label in cell if label["type"] == kind]
                if (review := self.reviewed.get(items[kind])) and review.words:
                    queries.insert(0, review.words)
                name, variants = f"{talk.id}_{turn}_{len(found)}", list(dict.fromkeys(queries)) or [said]
                found.append({"id": name, "type": kind, "query_variants": variants})
            final += [{"utterance": turn, "intents": found}] if found else []
            given.append({"utterance": turn, "intent_annotations": cells})
        return final, given

    def agreement(self, made: Partition, **draws: Any) -> pd.DataFrame:
        """Krippendorff's alpha of the assessors before the review, with intervals; of quality ICC, too."""
        if len(self.raters) < 2:
            return pd.DataFrame()
        if self.asked.kind == "quality":
            return labels.quality_agreement({made.name: made}, **draws)
        if self.asked.kind == "intents":
            return labels.intent_agreement(made, **draws)
        rows = [(item, rater, one.value) for (item, rater), one in self.views.items()]
        frame = pd.DataFrame(rows, columns=["item", "rater", "relevance"])
        return labels.alpha_table(frame, {"relevance": "ordinal"}, **draws)


def _line(kind: str, who: str, text: str) -> _Line:
    return {"kind": kind, "who": who, "text": text}


def _lines(talk: Conversation, turn: int, rest: bool = False) -> list[_Line]:
    """A conversation as a page shows it, up to a user turn; with the ``rest`` to its end."""
    said = talk.utterances if rest else talk.utterances[: talk.turns[turn] + 1]
    kinds = {"U": ("user", "Person"), "S": ("system", "Assistant")}
    return [_line(*kinds[speaker], text) for speaker, text in said]


def _question(name: str, earlier: Sequence[_Line], shown: Sequence[_Line], text: str = "") -> _Question:
    before = [f"{line['who']}: {line['text']}" for line in earlier]
    asked = {"id": name, "earlier": before, "sides": [list(shown)]}
    return {**asked, "text": text} if text else asked


def folder(run: str) -> Path:
    """The folder of a run's pages."""
    return paths.run_folder(NAME, run) / "annotation"
