"""Questions to assessors about CoSRec (relevance, intents, quality), and the corpus files of their answers.

Relevance is asked of a pool: the best documents of several runs, as TREC makes it. Where the assessors of a
question of relevance or intents differ, a second page asks it again, and that answer stands.
Source: docs/cosrec.md, section 6; pooling: Voorhees and Harman (2005), TREC.
"""

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crs_lib.core import paths, prompts, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.cosrec import corpus, index, labels, retrieve
from crs_lib.cosrec.records import ASPECTS, INTENTS, Conversation, Partition, topic, user_of
from crs_lib.cosrec.settings import NAME
from crs_lib.retrieval.runs import Run
from crs_lib.stats.agreement import read_labels

_RANGES = {"relevance": (0, 2), "intents": (0, 1), "quality": (1, 5)}
_REVIEW = "review"
Record = dict[str, Any]  # a line of a corpus file


def pool(runs: Mapping[str, Run], depth: int) -> dict[str, list[str]]:
    """The documents to judge for each topic: the ``depth`` best of every run, sorted by id. Neither the order
    of the runs nor a rank shows in it.
    """
    documents: dict[str, set[str]] = {}
    for run in runs.values():
        for name, hits in run.items():
            documents.setdefault(name, set()).update(hit.id for hit in hits[:depth])
    return {name: sorted(documents[name]) for name in sorted(documents)}


class _Line(NamedTuple):
    """A line that a page shows: its kind (user, system, note), who says it, the text."""

    kind: str
    who: str
    text: str


@dataclass(frozen=True)
class Question:
    """A question as the page shows it: the conversation before, the lines asked about, and words of its own.
    Its id is ``<topic> <document>``, ``<conversation>_<turn> <intent>`` or ``<conversation> <aspect>``.
    """

    id: str
    lines: tuple[_Line, ...]
    earlier: tuple[_Line, ...] = ()
    text: str = ""

    def data(self) -> dict[str, Any]:
        """The question in the form that the page reads."""
        earlier = [f"{line.who}: {line.text}" for line in self.earlier]
        lines = [line._asdict() for line in self.lines]
        data: dict[str, Any] = {"id": self.id, "earlier": earlier, "sides": [lines]}
        if self.text:
            data["text"] = self.text
        return data


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
    left_out: Counter[str] = field(default_factory=Counter)
    """what of the pool is not asked about, by reason; there once ``questions`` are"""

    @cached_property
    def _read(self) -> Partition:
        return corpus.load(corpus.locate(self.source), self.partition)

    @cached_property
    def talks(self) -> list[Conversation]:
        """The conversations that are asked about."""
        return list(self._read.conversations.values())[: self.n]

    @cached_property
    def questions(self) -> list[Question]:
        """The questions; their ids are all that an answer needs to be read. Raises InputError where there is
        nothing to ask.
        """
        makers = {"relevance": self._relevance, "intents": self._intents, "quality": self._quality}
        questions = list(makers[self.kind]())
        if not questions:
            raise InputError(f"nothing to ask about {self.kind} in {self.partition} of {self.source!r}")
        return questions

    def _relevance(self) -> Iterator[Question]:
        stock = index.opened(corpus.locate(self.source))
        talks = {talk.id: talk for talk in self.talks}
        runs = retrieve.read_runs(paths.run_folder(NAME, self.run) / "runs").runs
        for name, documents in pool(runs, self.depth).items():
            judged = topic(name)
            if judged.conversation not in talks:
                self.left_out["topics of other conversations"] += 1
                continue
            *earlier, last = _lines(talks[judged.conversation], judged.turn)
            shown = [last]
            user = user_of(self._read, judged, self.mapping)
            if user and user.profile:
                shown.append(_Line("note", "About this person", user.profile))
            for document in documents:
                if judged.kind == "search" and document in stock.passages:
                    line = _Line("system", "Passage", stock.passages[document].block())
                elif judged.kind == "recommendation" and document in stock.products:
                    line = _Line("system", "Product", stock.products[document].block(0))
                else:
                    self.left_out["documents whose text is not here"] += 1
                    continue
                yield Question(f"{name} {document}", (*shown, line), tuple(earlier))

    def _intents(self) -> Iterator[Question]:
        texts = prompts.lists("cosrec/annotation")["intents_text"]
        for talk in self.talks:
            for turn in range(len(talk.turns)):
                lines = _lines(talk, turn)
                for kind in INTENTS:
                    yield Question(_turn_item(talk, turn, kind), lines[-2:], lines[:-2], texts[kind])

    def _quality(self) -> Iterator[Question]:
        texts = prompts.lists("cosrec/annotation")["quality_text"]
        for talk in self.talks:
            for aspect in ASPECTS:
                yield Question(f"{talk.id} {aspect}", _lines(talk), text=texts[aspect])

    def page(self, questions: Sequence[Question] | None = None) -> dict[str, Any]:
        """The data of the page of all questions, or of the review of some."""
        first = ""
        if questions is None:
            questions = self.questions
        else:
            first = _REVIEW
        identity = "\n".join([first, *(question.id for question in questions)])  # tells pages apart
        digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
        words = prompts.lists("cosrec/annotation")[self.kind]
        return {"page": digest, "text": "", **words, "questions": [question.data() for question in questions]}

    def answers(self, files: Iterable[str | Path]) -> "Answers":
        """The exported answers of all assessors, and of the review; InputError for those of another page."""
        return Answers(self, files)


class Answers:
    """The answers to an assessment: all ``views``, what is ``doubtful``, what the review says of it
    (``reviewed``), what is still ``open``, and the values that stand (``final``).
    """

    def __init__(self, assessment: Assessment, files: Iterable[str | Path]) -> None:
        self.assessment = assessment
        questions = {question.id: question for question in assessment.questions}
        whole = assessment.page()["page"]
        last = {}  # of an assessor's answers to a question the last counts
        for where, label in read_labels(files, *_RANGES[assessment.kind]):
            last[label.page, label.rater, label.item] = (where, label)
        self.views = {}
        values: dict[str, set[int]] = {}
        for _, label in last.values():
            if label.page == whole:
                self.views[label.item, label.rater] = label
                values.setdefault(label.item, set()).add(label.value)
        self.raters = sorted({rater for _, rater in self.views})
        self.doubtful = []
        for name, question in questions.items():
            if len(values.get(name, ())) > 1 and assessment.kind != "quality":
                self.doubtful.append(self._with_views(question))
        review = assessment.page(self.doubtful)["page"]
        self.reviewed = {}
        for where, label in last.values():
            if label.page not in (whole, review) or label.item not in questions:
                other = f"{where}: the answer belongs to page {label.page!r}, not to {whole!r} or its review"
                raise InputError(f"{other}; give the settings, runs and first answers of its page")
            if label.page == review:
                self.reviewed[label.item] = label
        self.open = [question for question in self.doubtful if question.id not in self.reviewed]
        self.final = {name: min(each) for name, each in values.items()}
        for name, label in self.reviewed.items():
            self.final[name] = label.value

    def _with_views(self, question: Question) -> Question:
        """A question with what its assessors said, for the review."""
        scale = prompts.lists("cosrec/annotation")[self.assessment.kind][
            "scale"
        ]  # reviewed scales begin at 0
        views = []
        for (item, _), label in self.views.items():
            if item == question.id:
                views.append(f"{scale[label.value]} {label.words}".strip())
        note = _Line("note", "The assessors said", "; ".join(views))
        return replace(question, lines=(*question.lines, note))

    def write(self, out: Path) -> Partition:
        """Write the answers into a corpus: a copy of the source, made where ``out`` is not there yet.
        Relevance gives ``qrels.qrels``; quality ``quality.jsonl``; intents ``intents.jsonl`` and the views of
        all, ``intent_annotations.jsonl``, and takes former judgments away. Raises RunError while a doubtful
        question is not reviewed, or a turn or rating is not complete.
        """
        if self.open:
            raise RunError(f"{len(self.open)} questions are in doubt; import the answers of the review, too")
        if not out.exists():
            shutil.copytree(corpus.locate(self.assessment.source), out)
        folder = out / self.assessment.partition
        if self.assessment.kind == "relevance":
            tables.write_whole(folder / "qrels.qrels", self._qrels())
        elif self.assessment.kind == "quality":
            self._write(folder / "quality.jsonl", self._ratings)
        else:
            self._write(folder / "intents.jsonl", self._intents)
            self._write(folder / "intent_annotations.jsonl", self._annotations)
            (folder / "qrels.qrels").unlink(missing_ok=True)
        return corpus.load(out, self.assessment.partition)

    def _write(self, path: Path, make: Callable[[Conversation], object]) -> None:
        """Write a line for each conversation."""
        tables.write_jsonl(path, [{talk.id: make(talk)} for talk in self.assessment.talks])

    def _qrels(self) -> str:
        lines = []
        for item in sorted(self.final, key=str.split):
            name, document = item.split()
            lines.append(f"{name} 0 {document} {self.final[item]}\n")
        return "".join(lines)

    def _complete(self, items: Iterable[str]) -> list[str]:
        """The assessors who answered all of some questions."""
        raters = self.raters
        for item in items:
            raters = [rater for rater in raters if (item, rater) in self.views]
        return raters

    def _ratings(self, talk: Conversation) -> list[dict[str, int]]:
        """A conversation's ratings, one a rater; those that lack an aspect are left out."""
        items = {aspect: f"{talk.id} {aspect}" for aspect in ASPECTS}
        ratings = []
        for rater in self._complete(items.values()):
            ratings.append({aspect: self.views[item, rater].value for aspect, item in items.items()})
        return ratings

    def _cells(self, talk: Conversation, turn: int) -> list[list[Record]]:
        """What each annotator sees in a turn; their query, or the turn as it is."""
        items = {kind: _turn_item(talk, turn, kind) for kind in INTENTS}
        cells = []
        for rater in self._complete(items.values()):
            cell = []
            for kind, item in items.items():
                label = self.views[item, rater]
                if label.value:
                    cell.append({"type": kind, "query": label.words or talk.texts("U")[turn]})
            cells.append(cell)
        return cells

    def _annotations(self, talk: Conversation) -> list[Record]:
        """The views of all annotators."""
        turns = range(len(talk.turns))
        return [{"utterance": turn, "intent_annotations": self._cells(talk, turn)} for turn in turns]

    def _intents(self, talk: Conversation) -> list[Record]:
        """The intents of a conversation's turns that stand."""
        records = []
        for turn in range(len(talk.turns)):
            intents: list[Record] = []
            cells = self._cells(talk, turn)
            for kind in INTENTS:
                item = _turn_item(talk, turn, kind)
                if item not in self.final:
                    raise RunError(f"no answer to {item!r}; every intent of every turn needs one")
                if self.final[item]:
                    name = f"{talk.id}_{turn}_{len(intents)}"
                    variants = self._variants(item, kind, cells) or [talk.texts("U")[turn]]
                    intents.append({"id": name, "type": kind, "query_variants": variants})
            if intents:
                records.append({"utterance": turn, "intents": intents})
        return records

    def _variants(self, item: str, kind: str, cells: Sequence[Sequence[Record]]) -> list[str]:
        """The queries of an intent, each once, that of the review first."""
        queries = []
        if item in self.reviewed and self.reviewed[item].words:
            queries.append(self.reviewed[item].words)
        for cell in cells:
            queries += [need["query"] for need in cell if need["type"] == kind]
        return list(dict.fromkeys(queries))

    def agreement(self, partition: Partition, **draws: Any) -> pd.DataFrame:
        """Krippendorff's alpha of the assessors before the review, with intervals; of quality ICC, too."""
        if len(self.raters) < 2:
            return pd.DataFrame()
        if self.assessment.kind == "quality":
            return labels.quality_agreement({partition.name: partition}, **draws)
        if self.assessment.kind == "intents":
            return labels.intent_agreement(partition, **draws)
        rows = [(item, rater, label.value) for (item, rater), label in self.views.items()]
        frame = pd.DataFrame(rows, columns=["item", "rater", "relevance"])
        return labels.alpha_table(frame, {"relevance": "ordinal"}, **draws)


def _turn_item(talk: Conversation, turn: int, kind: str) -> str:
    return f"{talk.id}_{turn} {kind}"


def _lines(talk: Conversation, turn: int | None = None) -> tuple[_Line, ...]:
    """A conversation as a page shows it, up to a user turn or to its end."""
    utterances = talk.utterances
    if turn is not None:
        utterances = utterances[: talk.turns[turn] + 1]
    lines = []
    for speaker, text in utterances:
        if speaker == "U":
            lines.append(_Line("user", "Person", text))
        else:
            lines.append(_Line("system", "Assistant", text))
    return tuple(lines)


def folder(run: str) -> Path:
    """The folder of a run's pages."""
    return paths.run_folder(NAME, run) / "annotation"
