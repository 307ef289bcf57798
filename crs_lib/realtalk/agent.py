"""The agent: Planner → Retriever → Grader (→ Explorer → Retriever) → Selector → Generator.

Each node is a function of the state in one of two forms, rule or model. LangGraph runs the nodes. What the
rules select, tell in phases and answer in words stands here, too.
"""

import datetime as dt
import itertools
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol, TypedDict

import numpy as np

from crs_lib.core import prompts
from crs_lib.core.errors import InputError
from crs_lib.core.rng import one_thread
from crs_lib.core.safety import check_limit
from crs_lib.core.text import shorten, words
from crs_lib.realtalk import search, wording
from crs_lib.realtalk.config import RealTalkConfig
from crs_lib.realtalk.corpus import ChatMessage
from crs_lib.realtalk.index import ChatIndex, Positions, TopicSegment
from crs_lib.realtalk.search import Floats, Hand, Ranker
from crs_lib.realtalk.wording import WORDS, QueryPlan, Span, content_words, short_spans, stop_words

# ── the evidence of a fact keeps messages by distance of scores, that of a story by weight ───────────

STORY = 0.99  # the share of the scores' weight that a narrative holds
PREVIEWED = 3  # messages of a segment that the old selection saw
_PREVIEWED_SEGMENTS = 5
_SHARPNESS = 2.0  # of a narrative's weights


def facts(ranked: Sequence[int], scores: Floats, reach: float, most: int) -> list[int]:
    """The evidence of a fact: from the best message down to ``reach`` below it, at least one, ranked.
    ``scores`` follow ``ranked``. An empty ranking gives an empty set.
    """
    if not len(ranked):
        return []
    count = int(np.sum(scores >= scores[0] - reach))
    return list(ranked[: max(1, min(count, most))])


def narrative(ranked: Sequence[int], scores: Floats, least: int, most: int, unit: float) -> list[int]:
    """The evidence of a narrative, ranked: as many messages as the scores call for, from least to most.

    A message weighs e to the power of twice its distance from the best, in steps of ``unit``; the best are
    selected until they hold 99 % of all that the ranking weighs. One clear message gives a short story, many
    near ones a long one.
    """
    if not len(ranked):
        return []
    distance = np.asarray(scores, dtype=np.float64) - float(scores[0])
    weight = np.exp(_SHARPNESS * distance / unit)
    shares = np.cumsum(weight) / weight.sum()
    enough = 1 + int(np.searchsorted(shares, STORY - 1e-9))
    return list(ranked[: max(least, min(enough, most, len(ranked)))])


def best_of_segments(ranked: Sequence[int], owner: Positions) -> dict[int, int]:
    """The best message of each segment, by the number of the segment, best segment first."""
    best: dict[int, int] = {}
    for position in ranked:
        best.setdefault(int(owner[position]), position)
    return best


def covering(chosen: Sequence[int], ranked: Sequence[int], owner: Positions, segments: int) -> list[int]:
    """The chosen messages, and the best of each of the ``segments`` best that gives none (Fix B)."""
    covered = set(best_of_segments(chosen, owner))
    best = list(best_of_segments(ranked, owner).items())[:segments]
    lacking = [position for number, position in best if number not in covered]
    return [*chosen, *lacking]


def preview(
    ranked: Sequence[int], owner: Positions, segments: Sequence[TopicSegment], most: int
) -> list[int]:
    """The selection that this study replaces: only the first three messages of the five best segments count.

    A segment's rank is that of its best message; whatever stands deeper in a segment cannot be selected,
    however good it is; a shorter segment gives all of its messages, and none of the next. It stays to show
    what the change does. At most ``most`` ids, best segment first.
    """
    selected: list[int] = []
    for number in list(best_of_segments(ranked, owner))[:_PREVIEWED_SEGMENTS]:
        segment = segments[number]
        shown = range(segment.start, segment.end)[:PREVIEWED]
        selected += [position for position in shown if position in ranked]
    return selected[:most]


# ── the story in phases ──────────────────────────────────────────────────────────────────────────────

_MOST_PHASES = 8
_TITLE = 3  # words
_SHOWN = 240  # characters of a summary


class Phase(NamedTuple):
    """One phase of a narrative: its evidence ids, and texts copied from them word for word. ``summary`` is
    its best message, ``conclusion`` the last one that is no question. ``start`` and ``end`` are the times of
    its first and last message (ISO, null where unknown); every id's time lies between them. ``uncertain`` is
    the share of ids whose score is far from the best.
    """

    title: str
    ids: tuple[str, ...]
    start: str | None
    end: str | None
    summary: str
    uncertain: float
    conclusion: str = ""


class Limits(NamedTuple):
    """How large phases are: below ``bar`` a message counts as uncertain; in a phase of more than ``soft_cap``
    messages the uncertain ones beyond the cap are dropped; a phase has ``least`` messages while all phases
    have no more than ``most``.
    """

    bar: float
    soft_cap: int = 15
    least: int = 3
    most: int = 30


class Story:
    """The phases of one narrative, out of chosen positions with their scores, in time order.

    Eight phases are the most. A phase of fewer than ``limits.least`` messages gets the best scored of its
    segments, then of its sessions; one that is still too small joins the nearer neighbour.
    """

    def __init__(self, index: ChatIndex, scores: Mapping[int, float], limits: Limits) -> None:
        self._index = index
        self._scores = scores
        self._limits = limits

    def tell(self, chosen: Iterable[int]) -> list[Phase]:
        """The phases; one where few positions are chosen, none where none is."""
        parts = list(map(self.capped, _cut(self._index, sorted(chosen))))
        parts = _joined(self._filled(parts), self._limits.least)
        counts = list(map(self._count_words, parts))
        everywhere = sum(counts, Counter[str]())
        story = []
        for part, count in zip(parts, counts, strict=True):
            story.append(self._phase(part, _title(count, everywhere)))
        return story

    def _score(self, position: int) -> float:
        return self._scores.get(position, -math.inf)

    def _best_first(self, positions: Iterable[int]) -> list[int]:
        return sorted(positions, key=lambda position: (-self._score(position), position))

    def capped(self, part: Sequence[int]) -> list[int]:
        """The messages of a phase that stay, the best of each of its segments before all others."""
        best = self._best_first(part)
        leads = best_of_segments(best, self._index.owner).values()
        order = list(dict.fromkeys([*self._best_first(leads), *best]))
        staying = set(order[: self._limits.soft_cap])
        certain = [position for position in part if self._score(position) >= self._limits.bar]
        return sorted(staying.union(certain))

    def _filled(self, parts: Sequence[list[int]]) -> list[list[int]]:
        """Phases with further scored messages of their own segments, then sessions, up to ``least`` each."""
        used = set(itertools.chain.from_iterable(parts))
        filled = []
        for part in parts:
            room = self._limits.most - len(used)
            missing = min(self._limits.least - len(part), room)
            added = self._neighbours(part, used)[: max(0, missing)]
            used.update(added)
            filled.append(sorted([*part, *added]))
        return filled

    def _neighbours(self, part: Sequence[int], used: set[int]) -> list[int]:
        """Scored messages that no phase has: those of the part's segments, then of its sessions."""
        neighbours: list[int] = []
        for group in (self._index.owner, self._index.session):
            own = set(group[list(part)].tolist())
            free = self._scores.keys() - used - set(neighbours)
            inside = [position for position in free if int(group[position]) in own]
            neighbours += self._best_first(inside)
        return neighbours

    def _count_words(self, part: Sequence[int]) -> Counter[str]:
        """How often each word of content of more than two letters stands in a phase."""
        count: Counter[str] = Counter()
        for position in part:
            for word in words(self._index.chat.texts[position]):
                if len(word) > 2 and word not in stop_words():
                    count[word] += 1
        return count

    def _phase(self, part: Sequence[int], title: str) -> Phase:
        """A phase of the narrative: what its messages say, under a title."""
        messages = self._index.chat.at(part)
        times = [message.time.isoformat() for message in messages if message.time]
        lead = self._index.chat.messages[self._best_first(part)[0]]
        statements = [message for message in messages if not message.text.rstrip().endswith("?")]
        last = (statements or messages)[-1]
        uncertain = sum(self._score(position) < self._limits.bar for position in part)
        share = round(uncertain / len(part), 3)
        ids = tuple(self._index.chat.ids(part))
        start, end = min(times, default=None), max(times, default=None)
        return Phase(title, ids, start, end, _line(lead), share, _line(last))


def _line(message: ChatMessage) -> str:
    return shorten(f"{message.speaker}: {message.text or message.caption}", _SHOWN)


def _title(count: Counter[str], everywhere: Counter[str]) -> str:
    """The three words that stand in this phase rather than in the others."""

    def rank(word: str) -> tuple[float, int, str]:
        elsewhere = everywhere[word] - count[word]
        return (-count[word] / (1 + elsewhere), -len(word), word)

    return " · ".join(sorted(count, key=rank)[:_TITLE]) or "untitled"


def _cut(index: ChatIndex, order: Sequence[int]) -> list[Sequence[int]]:
    """Ascending positions cut into phases, each in one piece: as many as the evidence has, at most eight.

    A phase ends where the next message lies in another session: what is told on one occasion belongs
    together. Of more than seven such borders the strongest seven count.
    """
    if not order:
        return []
    borders = []
    for i, (before, after) in enumerate(itertools.pairwise(order), start=1):
        if index.session[before] != index.session[after]:
            borders.append((-_strength(index, before, after), i))
    strongest = sorted(borders)[: _MOST_PHASES - 1]
    edges = sorted([0, len(order), *(i for _, i in strongest)])
    return [order[start:end] for start, end in itertools.pairwise(edges)]


def _strength(index: ChatIndex, before: int, after: int) -> float:
    """How clearly a story breaks between two messages: the silence (log hours) plus the change of topic
    (1 - cosine).
    """
    earlier, later = index.chat.messages[before], index.chat.messages[after]
    vectors = index.vectors.sentences
    strength = 0.0
    if earlier.time and later.time:
        silence = max(0.0, (later.time - earlier.time).total_seconds())
        strength = float(np.log1p(silence / 3600))
    return strength + (1 - float(vectors[before] @ vectors[after]))


def _joined(parts: list[list[int]], least: int) -> list[list[int]]:
    """Phases in order, each too small one joined to the neighbour that is nearer in the chat."""
    parts = list(parts)
    while len(parts) > 1:
        small = [i for i, part in enumerate(parts) if len(part) < least]
        if not small:
            break
        first = small[0]
        before = after = math.inf
        if first > 0:
            before = parts[first][0] - parts[first - 1][-1]
        if first + 1 < len(parts):
            after = parts[first + 1][0] - parts[first][-1]
        if before <= after:
            first -= 1
        parts[first : first + 2] = [parts[first] + parts[first + 1]]
    return parts


# ── the answer in words; no language model writes it, so its scores are a floor ──────────────────────

_READ = 4  # messages of a list that are read
_LONGEST = 12  # words of an answer's clause
FAR: Mapping[str, float] = {
    "minilm": 0.35,
    "gte-small": 0.78,
    "hashing": 0.2,
}  # token match that chance gives
_CLAUSE = re.compile(r"(?<=[.!?;…])\s+|\n+|,\s+(?=(?:and|but|so|because|then)\b)|(?<!\s)\s+-\s+")
_PLACE = re.compile(
    r"\b(?:in|at|to|from|near|visit(?:ed|ing)?|around)\s+(?:the\s+)?"
    r"((?:[A-Z][\w'’]+)(?:\s+(?:of\s+)?[A-Z][\w'’]+)*)"
)


class ChatAnswer(NamedTuple):
    """The answer to a question: its text (None where nothing answers it), the ids it rests on, its form.
    ``days`` are the first and last day meant (ISO), where the answer is one of time. ``form`` is "extractive"
    or "written"; ``why`` says in words what an abstention rests on.
    """

    text: str | None
    ids: tuple[str, ...] = ()
    days: tuple[str, str] | None = None
    form: str = "extractive"
    why: str = ""


def extract(index: ChatIndex, plan: QueryPlan, selected: Sequence[int], tokens: Floats) -> ChatAnswer:
    """The answer that the selected messages bear, best first; an abstention where they bear none.

    Nothing answers where no message is selected, or where none of them shares a content word with the
    question and their best token match (``tokens``, (messages,)) lies below what chance gives.
    """
    if not _near(index, plan, selected, tokens):
        return ChatAnswer(None, why="no message shares a word with the question or comes near it")
    if plan.kind == "when":
        answer = _when(index, plan, selected)
        if answer is not None:
            return answer
    best = selected[:_READ] if plan.many else selected[:1]
    if plan.kind == "yes-no":
        clauses = _clauses(index, plan, selected[0])
        denial = re.compile(prompts.lists(WORDS)["no"], re.IGNORECASE)
        denies = clauses and denial.search(clauses[0])
        return ChatAnswer("no" if denies else "yes", tuple(index.chat.ids(selected[:1])))
    texts = []
    for position in best:
        texts.append(_part(index, plan, position))
    text = ", ".join(filter(None, dict.fromkeys(texts)))
    return ChatAnswer(text or None, tuple(index.chat.ids(best)))


def _near(index: ChatIndex, plan: QueryPlan, selected: Sequence[int], tokens: Floats) -> bool:
    """Whether a selected message shares a word with the question or is nearer to it than by chance."""
    terms = set(plan.terms)
    if any(terms.intersection(index.tokens[position]) for position in selected):
        return True
    best = max((float(tokens[position]) for position in selected), default=-math.inf)
    return best >= FAR.get(index.main, FAR["minilm"])


def _when(index: ChatIndex, plan: QueryPlan, selected: Sequence[int]) -> ChatAnswer | None:
    """The day that one of the two best messages speaks of, else the day on which the best was written."""
    for position in selected[:2]:
        message = index.chat.messages[position]
        if message.time is None:
            continue
        spans = short_spans(index.signals.days[position])
        if spans:
            span = _nearest_span(message.text, spans, set(plan.terms))
            start, end = span.start, span.end
        elif position == selected[0]:
            start = end = message.time.date()
        else:
            continue
        days = (start.isoformat(), end.isoformat())
        return ChatAnswer(written(start, end), (message.id,), days)
    return None


def _nearest_span(text: str, spans: Sequence[Span], terms: set[str]) -> Span:
    """Of several days in a text the one nearest to a word of the question."""
    plain = text.lower().replace("’", "'")
    starts = []
    for match in re.finditer(r"\w+", text):
        if terms.intersection(content_words(match[0])):
            starts.append(match.start())

    def distance(span: Span) -> int:
        span_start = plain.find(span.words)
        return min((abs(start - span_start) for start in starts), default=0)

    return min(spans, key=distance)


def written(start: dt.date, end: dt.date) -> str:
    """A day, a month, a year or a stretch of days as people write it: "19 January 2024"."""
    if start == end:
        return f"{start.day} {start:%B %Y}"
    whole_months = start.day == 1 and (end + dt.timedelta(days=1)).day == 1
    if whole_months and (end - start).days > 300:
        return f"{start.year}"
    if whole_months:
        return f"{start:%B %Y}"
    return f"between {start.day} {start:%B} and {end.day} {end:%B %Y}"


def _part(index: ChatIndex, plan: QueryPlan, position: int) -> str:
    """What one message adds: a place, a number, or its clause nearest to the question without its words."""
    message = index.chat.messages[position]
    clauses = _clauses(index, plan, position)
    if not clauses:
        return message.caption
    clause = clauses[0]
    match = None
    if plan.kind == "where":
        match = _PLACE.search(clause) or _PLACE.search(message.text)
    if plan.kind in ("count", "how long"):
        number = re.compile(prompts.lists(WORDS)["number"], re.IGNORECASE)
        match = number.search(clause) or number.search(message.text)
    if match:
        return match[1] if plan.kind == "where" else match[0].strip()
    return _without_question(clause, set(plan.terms))


def _clauses(index: ChatIndex, plan: QueryPlan, position: int) -> list[str]:
    """The clauses of a message that tell something, nearest to the question first."""
    parts = _CLAUSE.split(index.chat.texts[position])
    clauses = list(filter(None, map(str.strip, parts)))
    statements = [clause for clause in clauses if not clause.endswith("?")]
    terms = set(plan.terms)

    def nearness(clause: str) -> float:
        length = min(len(clause.split()), _LONGEST)
        return len(terms.intersection(content_words(clause))) + 0.01 * length

    return sorted(statements or clauses, key=nearness, reverse=True)


def _without_question(clause: str, terms: set[str]) -> str:
    """A clause from behind the last word that it shares with the question, at most twelve words."""
    whole = clause.split()
    behind: list[str] = []  # words behind the last one that the question has
    for word in whole:
        if terms.intersection(content_words(word)):
            behind = []
        else:
            behind.append(word)
    if not content_words(" ".join(behind)):
        behind = whole
    return " ".join(behind[:_LONGEST]).strip(" ,.;:!—-")


# ── the nodes ────────────────────────────────────────────────────────────────────────────────────────

RANKED = 200  # messages of a ranking
ROUNDS = 3  # searches of a question, at most
NODES = ("planner", "retriever", "grader", "explorer", "selector", "generator")
RULE, MODEL = "rule", "model"
WITH_A_MODEL = ("planner", "retriever", "grader", "selector", "generator")  # nodes that a model may decide
_ASKED_OF_A_MODEL = ("planner", "selector", "generator")  # by the form "auto"
_COMPARED = 10  # of a ranking: a list is settled when they stay
_EXPLORED = 3  # messages that the explorer starts from
_EXPLORER = 0.3  # weight of what they point to
_FIRST = 5  # candidates in the trace
Entry = dict[str, Any]  # of a trace, as a line of JSON holds it


class AgentState(TypedDict, total=False):
    """What the nodes hand on. Positions are message positions in the chat."""

    question: str
    plan: QueryPlan
    channels: dict[str, Floats]
    features: Floats
    fused: Floats
    widened: Floats
    candidates: list[int]
    ranked: list[int]
    scores: Floats
    sufficient: bool
    round: int
    selected: list[int]
    narrative: list[int]
    phases: list[Phase]
    answer: ChatAnswer
    trace: list[Entry]


class ModelForm(Protocol):
    """The model's form of every node: it sees the state and what the rule made of it, and may do better."""

    name: str

    def decide(
        self, node: str, index: ChatIndex, state: AgentState, ruled: AgentState
    ) -> tuple[AgentState, str]:
        """The node's result and a note; the rule's result with the reason where no reply can be used."""
        ...


@dataclass(frozen=True)
class Result:
    """What the agent made of one question; positions in the chat, candidates ⊇ reranked ⊇ selected.

    ``ranked`` goes on behind the candidates to 200 messages in first-stage order; ``reranked`` are its first
    (checkpoint C2), with their ``scores``.
    """

    plan: QueryPlan
    candidates: list[int]
    ranked: list[int]
    reranked: list[int]
    scores: list[float]
    selected: list[int]
    narrative: list[int]
    phases: list[Phase]
    answer: ChatAnswer
    trace: list[Entry]
    rounds: int


def node_forms(text: str, model: bool) -> dict[str, str]:
    """The form of each node (rule or model), in the order of the graph, that a text names.

    Texts are ``auto``, ``rule``, ``model``, or ``planner=model,selector=rule``; ``auto`` gives planner,
    selector and generator to the model where there is one. InputError for a node or a form that is not known.
    """
    forms = dict.fromkeys(NODES, RULE)
    if text == RULE or (text == "auto" and not model):
        return forms
    if text in ("auto", MODEL):
        nodes = _ASKED_OF_A_MODEL if text == "auto" else WITH_A_MODEL
        return forms | dict.fromkeys(nodes, MODEL)
    for part in text.split(","):
        node, _, form = part.strip().partition("=")
        if node not in NODES or form not in (RULE, MODEL):
            options = f"nodes are {', '.join(NODES)}, forms rule and model"
            raise InputError(f"forms: {part.strip()!r} is no NODE=FORM; {options}")
        if form == MODEL and node not in WITH_A_MODEL:
            raise InputError(f"forms: the {node} follows rules alone (its form model went with 0.4)")
        forms[node] = form
    return forms


class Agent:
    """The agent of one chat: ``Agent(index, ranker).ask(questions)``. ``engine`` says what runs it.

    Raises InputError where a node is to ask a model and none is given, and where LangGraph is missing.
    """

    def __init__(
        self,
        index: ChatIndex,
        ranker: Ranker | None = None,
        config: RealTalkConfig | None = None,
        model: ModelForm | None = None,
    ) -> None:
        self.index = index
        self.config = config or RealTalkConfig()
        self.model = model
        self.forms = node_forms(self.config.forms, model is not None)
        if MODEL in self.forms.values() and model is None:
            raise InputError("a node has the form model, but no language model is named; give llm=SPEC")
        if find_spec("langgraph") is None:
            raise InputError('the study\'s agent needs LangGraph: pip install "crs-lib[memory]"')
        self.engine = f"langgraph {version('langgraph')}"
        self.ranker: Ranker = ranker or Hand()
        self._unit = self.ranker.unit
        if self.ranker.name == Hand.name:
            self._unit *= search.SPREAD.get(index.encoder, 1.0)
        self._run = self._graph()

    def ask(self, questions: Sequence[str]) -> list[Result]:
        """The results of some questions, in order; a question's result does not depend on the others. Raises
        InputError for a question beyond the limit ``question_characters``.
        """
        for question in questions:
            beginning = shorten(question, 40)
            check_limit("question_characters", len(question), f"the question {beginning!r} has")
        with one_thread():
            if self.forms["planner"] == RULE:  # scored together, read one by one from the cache
                search.scores(self.index, questions, list(map(self.index.plan, questions)))
            results = []
            for question in questions:
                state = self._run({"question": question, "round": 0, "trace": []})
                results.append(self._result(state))
        return results

    def planner(self, state: AgentState) -> AgentState:
        """What is asked, and in which words to search."""
        return {"plan": self.index.plan(state["question"])}

    def retriever(self, state: AgentState) -> AgentState:
        """First stage: every message scored, the best share of the chat become candidates."""
        scores, fused = state.get("channels"), state.get("fused")
        if scores is None or fused is None:
            (scores,) = search.scores(self.index, [state["question"]], [state["plan"]])
            fused = search.fuse(self.index, state["plan"], scores)
        size = search.depth(self.index.size, self.config.share)
        best = search.ranking(state.get("widened", fused))[:size].tolist()
        return {"channels": scores, "fused": fused, "candidates": best, "round": state["round"] + 1}

    def grader(self, state: AgentState) -> AgentState:
        """Second stage, and whether the ranking is enough: a list is searched again until its first stay."""
        rows = state.get("features")
        if rows is None:
            rows = search.matrix(self.index, state["plan"], state["channels"], state["fused"])
        candidates = np.array(state["candidates"], dtype=np.intp)
        texts = [self.index.chat.texts[position] for position in state["candidates"]]
        fused = state["fused"][candidates]
        scores = self.ranker.score(rows[candidates], fused, state["question"], texts)
        order = np.lexsort((candidates, -scores))
        ranked = candidates[order].tolist()
        earlier = state.get("ranked", [])
        settled = state["round"] > 1 and ranked[:_COMPARED] == earlier[:_COMPARED]
        enough = settled or not state["plan"].many
        return {"features": rows, "ranked": ranked, "scores": scores[order], "sufficient": enough}

    def explorer(self, state: AgentState) -> AgentState:
        """First-stage scores plus what the best point to: look-alikes, their threads, their time."""
        index, window = self.index, self.config.window
        best = state["ranked"][:_EXPLORED]
        sentences = index.vectors.sentences
        alike = search.zscore(sentences @ sentences[best].sum(axis=0))
        threads = [thread for thread in index.thread[best] if thread >= 0]
        nearby = np.zeros(index.size)
        for position in best:
            nearby[max(0, position - window) : position + window + 1] = 1.0
        nearby *= np.isin(index.session, index.session[best])
        widened = search.zscore(state["fused"]) + _EXPLORER * alike
        widened = widened + _EXPLORER * np.isin(index.thread, threads) + _EXPLORER * nearby
        widened[best] = np.inf
        return {"widened": widened.astype(np.float32)}

    def selector(self, state: AgentState) -> AgentState:
        """Evidence for the fact and for the narrative, out of the first of the ranking."""
        config, owner = self.config, self.index.owner
        best = state["ranked"][: config.keep]
        scores = state["scores"][: len(best)]
        if config.nodes:
            segments = list(best_of_segments(best, owner))[: config.nodes]
            inside = np.isin(owner[best], segments)
            best, scores = np.array(best)[inside].tolist(), scores[inside]
        if config.selection == "preview":
            cuts = self.index.segments
            fact = preview(best, owner, cuts, config.most)
            return {"selected": fact, "narrative": preview(best, owner, cuts, config.narrative)}
        distance = config.listed if state["plan"].many else config.single
        fact = facts(best, scores, distance * self._unit, config.most)
        fact = covering(fact, best, owner, config.covered)
        least = max(len(fact), config.phase_least)
        story = narrative(best, scores, least, config.narrative, self._unit)
        return {"selected": fact, "narrative": covering(story, best, owner, config.covered)}

    def generator(self, state: AgentState) -> AgentState:
        """The answer in words of the evidence, and the narrative's phases."""
        config = self.config
        best = state["ranked"][: config.keep]
        scores = dict(zip(best, map(float, state["scores"]), strict=False))
        bar = max(scores.values(), default=0.0) - config.margin * self._unit
        limits = Limits(bar, config.phase_most, config.phase_least, config.narrative)
        chosen = [position for position in state["narrative"] if position in scores]
        phases = Story(self.index, scores, limits).tell(chosen)
        in_phases: set[int] = set()
        for phase in phases:
            in_phases.update(self.index.chat.positions(phase.ids))
        story = [position for position in best if position in in_phases]
        tokens = state["channels"]["tokens"]
        answer = extract(self.index, state["plan"], state["selected"], tokens)
        return {"narrative": story, "phases": phases, "answer": answer}

    def route(self, state: AgentState) -> str:
        """Where to go after grading: on to the selector, or round by the explorer."""
        return "selector" if state["sufficient"] or state["round"] >= ROUNDS else "explorer"

    def _graph(self) -> Callable[[AgentState], AgentState]:
        """The nodes as a compiled LangGraph workflow."""
        os.environ.setdefault("LANGSMITH_TRACING", "false")
        from langgraph.graph import END, START, StateGraph

        graph = StateGraph(AgentState)
        for name in NODES:
            graph.add_node(name, self._node(name))
        graph.add_edge(START, "planner")
        graph.add_edge("planner", "retriever")
        graph.add_edge("retriever", "grader")
        graph.add_conditional_edges("grader", self.route, ["explorer", "selector"])
        graph.add_edge("explorer", "retriever")
        graph.add_edge("selector", "generator")
        graph.add_edge("generator", END)
        run: Callable[[AgentState], AgentState] = graph.compile().invoke
        return run

    def _node(self, name: str) -> Callable[[AgentState], AgentState]:
        """A node in its form, which also writes the trace."""
        by_rule: Callable[[AgentState], AgentState] = getattr(self, name)
        form = self.forms[name]

        def run(state: AgentState) -> AgentState:
            update = by_rule(state)
            note = ""
            if form == MODEL and self.model is not None:
                update, note = self.model.decide(name, self.index, state, update)
            entry: Entry = {"node": name, "form": form}
            entry |= _after(name, self.index, {**state, **update})
            if note:
                entry["note"] = note
            update["trace"] = [*state["trace"], entry]
            return update

        return run

    def _result(self, state: AgentState) -> Result:
        ranked = state["ranked"]
        reranked = ranked[: self.config.keep]
        chosen = {*state["selected"], *state["narrative"]}
        if not set(state["candidates"]) >= set(reranked) >= chosen:
            raise AssertionError("the checkpoints are not nested; this is a defect, please report it")
        order = search.ranking(state["fused"]).tolist()
        length = max(RANKED, len(ranked))
        scores = state["scores"][: len(reranked)]
        return Result(
            plan=state["plan"],
            candidates=state["candidates"],
            ranked=list(dict.fromkeys([*ranked, *order]))[:length],
            reranked=reranked,
            scores=[round(float(score), 4) for score in scores],
            selected=state["selected"],
            narrative=state["narrative"],
            phases=state["phases"],
            answer=state["answer"],
            trace=state["trace"],
            rounds=state["round"],
        )


def _after(node: str, index: ChatIndex, state: AgentState) -> Entry:
    """What the state says after a node, small enough to be written beside a prediction; ids, no positions."""
    ids = index.chat.ids
    if node == "planner":
        plan = state["plan"]
        return {"kind": plan.kind, "speakers": list(plan.speakers), "searched": plan.first_person}
    if node == "retriever":
        candidates = state["candidates"]
        return {"round": state["round"], "candidates": len(candidates), "first": ids(candidates[:_FIRST])}
    if node == "grader":
        verdict = "keep" if state["sufficient"] else "more"
        return {"verdict": verdict, "first": ids(state["ranked"][:_COMPARED])}
    if node == "explorer":
        return {"from": ids(state["ranked"][:_EXPLORED])}
    if node == "selector":
        return {"selected": ids(state["selected"]), "narrative": len(state["narrative"])}
    return {"answer": state["answer"].text, "phases": len(state["phases"])}


# ── predictions: a question's result as a line of JSON that any other program can read ───────────────


def predict(
    index: ChatIndex,
    ranker: Ranker,
    config: RealTalkConfig | None = None,
    model: ModelForm | None = None,
) -> Iterator[dict[str, Any]]:
    """One record a question of the chat, in file order; ids instead of positions.

    ``ranked`` holds 200 ids (all of a shorter chat), best first; ``scores`` are those of the first ``kept``
    after re-ranking; ``selected`` the evidence of a fact, ``phases`` the evidence of a narrative, ``answer``
    its text or null, ``trace`` the state after each node. ``timings`` says how often the retriever was
    visited. Equal inputs give equal bytes.
    """
    agent = Agent(index, ranker, config, model)
    ids = index.chat.ids
    questions = index.chat.questions[: agent.config.questions or None]
    made_with: dict[str, Any] = {"encoder": index.encoder, "tuned": index.tuned}
    made_with["ranker"] = ranker.name
    made_with["learnt_from"] = ranker.origin
    made_with["selection"] = agent.config.selection
    made_with["mode"] = "agent"
    made_with["engine"] = agent.engine
    made_with["forms"] = agent.forms
    made_with["llm"] = model.name if model else ""
    results = agent.ask([question.text for question in questions])
    for question, result in zip(questions, results, strict=True):
        record: dict[str, Any] = {"chat": index.chat.name, "qa_index": question.index}
        record["question"] = question.text
        record["plan"] = result.plan._asdict()
        record["candidates"] = ids(result.candidates)
        record["ranked"] = ids(result.ranked)
        record["kept"] = len(result.reranked)
        record["scores"] = result.scores
        record["selected"] = ids(result.selected)
        record["narrative"] = ids(result.narrative)
        record["phases"] = [phase._asdict() for phase in result.phases]
        record["answer"] = result.answer._asdict()
        record["trace"] = result.trace
        record["timings"] = {"rounds": result.rounds, "seconds": None}
        record["made_with"] = dict(made_with)
        yield record


# ── how sure an answer is ────────────────────────────────────────────────────────────────────────────

SURE = 0.311  # below it the chat holds no answer
_NEAR, _NAMED, _STRANGE, _BIAS = 10.92, 2.97, -1.72, -7.42  # of the log-odds
_BEST = 5  # messages that are looked at


def confidence(index: ChatIndex, record: Mapping[str, Any]) -> float:
    """How likely a chat holds the answer of a prediction, in [0, 1], where half of the questions are about
    another chat.

    By the best token match among the five best messages, the number of its people that the question names,
    and that of names in it that the chat never says. A logistic regression on questions of RealTalk chats 1
    to 4 and 320 about other chats, of which ``SURE`` refuses 85 %; without MiniLM a rough guess. Where under
    90 % of a chat's times are read it falls by the unread share (by half of it where no time is asked for).
    """
    question = record["question"]
    plan = index.plan(question)
    (scores,) = search.scores(index, [question], [plan])
    near = index.chat.positions(record["ranked"][:_BEST])
    best = float(scores["tokens"][near].max())
    best *= FAR["minilm"] / FAR.get(index.main, FAR["minilm"])
    strange = _strange_names(index, question)
    log_odds = _NEAR * best + _NAMED * len(plan.speakers) + _STRANGE * strange + _BIAS
    sure = 1 / (1 + math.exp(-log_odds))
    if not index.chat.time_note:
        return sure
    if plan.kind == "when" or plan.windows:
        return sure * index.chat.timed
    return sure * (1 + index.chat.timed) / 2


def _strange_names(index: ChatIndex, question: str) -> int:
    """How many capitalised words behind the first mean no speaker and stand nowhere in the chat."""
    capitalised = set(re.findall(r"\b[A-Z][a-z]+\b", question.partition(" ")[2]))
    strange = set()
    for name in capitalised.difference(wording.named(question, index.names)):
        for stem in content_words(name):
            if not len(index.having(stem)):
                strange.add(name)
    return len(strange)
