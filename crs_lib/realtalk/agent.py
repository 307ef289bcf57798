"""The agent: Planner → Retriever → Grader (→ Explorer → Retriever) → Selector → Generator.

Each node is a function of the state in one of two forms, rule or model. LangGraph runs the nodes.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.core.rng import one_thread
from crs_lib.core.safety import check_limit
from crs_lib.core.text import shorten
from crs_lib.realtalk import answers, channels, features, phases
from crs_lib.realtalk import ranker as rankers
from crs_lib.realtalk.config import RealTalkConfig
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.plan import QueryPlan
from crs_lib.realtalk.ranker import Hand, Ranker

Floats = NDArray[np.float32]
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
    phases: list[phases.Phase]
    answer: answers.ChatAnswer
    trace: list[dict[str, Any]]


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
    phases: list[phases.Phase]
    answer: answers.ChatAnswer
    trace: list[dict[str, Any]]
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
        self.ranker: Ranker = ranker or Hand()
        self._unit = self.ranker.unit
        if self.ranker.name == Hand.name:
            self._unit *= channels.SPREAD.get(index.encoder, 1.0)
        self._starts = [segment.start for segment in index.segments]
        self.engine = _engine()
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
                plans = [self.index.plan(question) for question in questions]
                channels.scores(self.index, questions, plans)
            results = []
            for question in questions:
                state = self._run({"question": question, "round": 0, "trace": []})
                results.append(self._result(state))
        return results

    # ── nodes, in their rule form ────────────────────────────────────────────────────────────────────

    def planner(self, state: AgentState) -> AgentState:
        """What is asked, and in which words to search."""
        return {"plan": self.index.plan(state["question"])}

    def retriever(self, state: AgentState) -> AgentState:
        """First stage: every message scored, the best share of the chat become candidates."""
        scores, fused = state.get("channels"), state.get("fused")
        if scores is None or fused is None:
            (scores,) = channels.scores(self.index, [state["question"]], [state["plan"]])
            fused = channels.fuse(self.index, state["plan"], scores)
        size = rankers.depth(self.index.size, self.config.share)
        order = channels.ranking(state.get("widened", fused))
        return {
            "channels": scores,
            "fused": fused,
            "candidates": order[:size].tolist(),
            "round": state["round"] + 1,
        }

    def grader(self, state: AgentState) -> AgentState:
        """Second stage, and whether the ranking is enough: a list is searched again until its first stay."""
        rows = state.get("features")
        if rows is None:
            rows = features.matrix(self.index, state["plan"], state["channels"], state["fused"])
        candidates = np.array(state["candidates"], dtype=np.intp)
        texts = [self.index.chat.messages[position].text for position in state["candidates"]]
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
        alike = channels.zscore(sentences @ sentences[best].sum(axis=0))
        threads = [thread for thread in index.thread[best] if thread >= 0]
        around = np.zeros(index.size)
        for position in best:
            around[max(0, position - window) : position + window + 1] = 1.0
        around *= np.isin(index.session, index.session[best])
        widened = channels.zscore(state["fused"]) + _EXPLORER * alike
        widened = widened + _EXPLORER * np.isin(index.thread, threads) + _EXPLORER * around
        widened[best] = np.inf
        return {"widened": widened.astype(np.float32)}

    def selector(self, state: AgentState) -> AgentState:
        """Evidence for the fact and for the narrative, out of the first of the ranking."""
        config = self.config
        best = state["ranked"][: config.keep]
        scores = state["scores"][: len(best)]
        if config.nodes:
            best, scores = self._of_best_segments(best, scores, config.nodes)
        if config.selection == "preview":
            owner = self.index.owner
            selected = phases.preview(best, owner, self._starts, config.most)
            narrative = phases.preview(best, owner, self._starts, config.narrative)
        else:
            distance = config.listed if state["plan"].many else config.single
            selected = phases.facts(best, scores, distance * self._unit, config.most)
            selected = phases.covering(selected, best, self.index.owner, config.covered)
            least = max(len(selected), config.phase_least)
            narrative = phases.narrative(best, scores, least, config.narrative, self._unit)
            narrative = phases.covering(narrative, best, self.index.owner, config.covered)
        return {"selected": selected, "narrative": narrative}

    def _of_best_segments(self, best: list[int], scores: Floats, most: int) -> tuple[list[int], Floats]:
        """The messages of the ``most`` best segments, and their scores."""
        owners = self.index.owner[best].tolist()
        segments = list(dict.fromkeys(owners))[:most]
        inside = np.isin(owners, segments)
        return np.array(best)[inside].tolist(), scores[inside]

    def generator(self, state: AgentState) -> AgentState:
        """The answer in words of the evidence, and the narrative's phases."""
        config = self.config
        best = state["ranked"][: config.keep]
        scores = dict(zip(best, map(float, state["scores"]), strict=False))
        bar = 0.0
        if best:
            bar = float(state["scores"][0]) - config.margin * self._unit
        limits = phases.Limits(bar, config.phase_most, config.phase_least, config.narrative)
        chosen = [position for position in state["narrative"] if position in scores]
        story = phases.phases(self.index, chosen, scores, limits)
        in_story: set[str] = set()
        for phase in story:
            in_story.update(phase.ids)
        narrative = [position for position in best if self.index.chat.messages[position].id in in_story]
        answer = answers.extract(self.index, state["plan"], state["selected"], state["channels"])
        return {"narrative": narrative, "phases": story, "answer": answer}

    def route(self, state: AgentState) -> str:
        """Where to go after grading: on to the selector, or round by the explorer."""
        return "selector" if state["sufficient"] or state["round"] >= ROUNDS else "explorer"

    # ── the graph ────────────────────────────────────────────────────────────────────────────────────

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
            entry = {"node": name, "form": form, **_after(name, self.index, {**state, **update})}
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
        scored = set(ranked)
        order = channels.ranking(state["fused"]).tolist()
        behind = [position for position in order if position not in scored]
        room = max(0, RANKED - len(scored))
        scores = state["scores"][: len(reranked)]
        return Result(
            plan=state["plan"],
            candidates=state["candidates"],
            ranked=ranked + behind[:room],
            reranked=reranked,
            scores=[round(float(score), 4) for score in scores],
            selected=state["selected"],
            narrative=state["narrative"],
            phases=state["phases"],
            answer=state["answer"],
            trace=state["trace"],
            rounds=state["round"],
        )


def _engine() -> str:
    """LangGraph with its version; InputError where it is not installed."""
    if find_spec("langgraph") is None:
        raise InputError('the study\'s agent needs LangGraph: pip install "crs-lib[memory]"')
    return f"langgraph {version('langgraph')}"


def _after(node: str, index: ChatIndex, state: AgentState) -> dict[str, Any]:
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
