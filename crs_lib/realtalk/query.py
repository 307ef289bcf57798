"""The agent: Planner → Retriever → Grader (→ Explorer → Retriever) → Selector → Generator.

Each node is a plain function of the state in one of two forms, rule or model. LangGraph runs the nodes where
it is installed; a loop of our own gives the same result where it is not.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Protocol, TypedDict, get_args

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.config import Config, Field
from crs_lib.core.errors import InputError
from crs_lib.core.rng import one_thread
from crs_lib.core.safety import check_limit as within
from crs_lib.core.text import shorten
from crs_lib.realtalk import answers, channels, features, phases, plan, select, threads
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.ranker import Hand, Ranker
from crs_lib.realtalk.training import depth

Floats = NDArray[np.float32]
RANKED = 200


NODES = ("planner", "retriever", "grader", "explorer", "selector", "generator")
Form = Literal["rule", "model"]


@dataclass(frozen=True)
class NodeForms(Config):
    """How each node of the agent decides: by rules, or by a language model that rules stand behind."""

    planner: Annotated[Form, Field(description="kind of question and its wording")] = "rule"
    retriever: Annotated[Form, Field(description="more wordings to search with")] = "rule"
    grader: Annotated[Form, Field(description="order of the best, and whether they are enough")] = "rule"
    explorer: Annotated[Form, Field(description="threads that the next search follows")] = "rule"
    selector: Annotated[Form, Field(description="which messages are the evidence")] = "rule"
    generator: Annotated[Form, Field(description="the answer and the words of the phases")] = "rule"

    @property
    def any_model(self) -> bool:
        """Whether any node asks a model."""
        return "model" in self.by_node().values()

    def by_node(self) -> dict[str, str]:
        """Form by name of node, in the order of the graph."""
        return {name: getattr(self, name) for name in NODES}


def node_forms(text: str, model: bool) -> NodeForms:
    """The forms that a text names: ``auto``, ``rule``, ``model``, or ``planner=model,selector=rule``.

    ``auto`` gives planner, selector and generator to the model where there is one. InputError for a node or a
    form that is not known.
    """
    if text in ("rule", "model"):
        return NodeForms(**dict.fromkeys(NODES, text))  # type: ignore[arg-type]
    chosen = dict.fromkeys(("planner", "selector", "generator"), "model") if model else {}
    if text != "auto":
        chosen = {}
        for part in text.split(","):
            node, _, form = part.strip().partition("=")
            if node not in NODES or form not in get_args(Form):
                raise InputError(
                    f"forms: {part.strip()!r} is no NODE=FORM; nodes are {', '.join(NODES)}, "
                    "forms rule and model"
                )
            chosen[node] = form
    return NodeForms(**chosen)  # type: ignore[arg-type]


class ModelForm(Protocol):
    """The model's form of every node: it sees the state and what the rule made of it, and may do better."""

    name: str

    def decide(
        self, node: str, index: ChatIndex, state: "AgentState", ruled: "AgentState"
    ) -> tuple["AgentState", str]:
        """The node's result and a note; the rule's result with the reason where no reply can be used."""
        ...


Share = Annotated[float, Field(gt=0, le=1, description="how much of a chat becomes candidates")]
Keep = Annotated[int, Field(ge=1, description="how many candidates stay after re-ranking")]
Mode = Annotated[
    Literal["agent", "oneshot"],
    Field(description="agent may search twice; oneshot (deprecated) ranks by the first stage"),
]
Engine = Annotated[
    Literal["auto", "langgraph", "plain"], Field(description="what runs the nodes; the result is the same")
]


@dataclass(frozen=True)
class PipelineSettings(Config):
    """The levers of the pipeline."""

    share: Share = 0.25
    keep: Keep = 40
    rounds: Annotated[int, Field(ge=1, le=3, description="most searches of a question")] = 3
    forms: Annotated[NodeForms, Field(description="rule or model, node by node")] = field(
        default_factory=NodeForms
    )
    mode: Mode = "agent"
    selection: select.Selection = "coverage"
    engine: Engine = "auto"
    bounds: Annotated[select.Bounds, Field(description="distances and sizes of the evidence sets")] = field(
        default_factory=select.Bounds
    )
    weights: Annotated[
        tuple[tuple[str, float], ...] | None, Field(description="of the channels; null: the encoder's own")
    ] = None
    smoothing: Annotated[
        tuple[float, float], Field(description="how much of a score the neighbours before and after get")
    ] = channels.SMOOTHING


class AgentState(TypedDict, total=False):
    """What the nodes hand on. Positions are message positions in the chat."""

    question: str
    plan: plan.QueryPlan
    wordings: list[str]
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
    seconds: dict[str, float]


@dataclass(frozen=True)
class Result:
    """What the pipeline found for one question; C1 ⊇ C2 ⊇ selected, all of them positions.

    ``ranked`` goes on behind the candidates to 200 messages in first-stage order, ``kept`` are its
    first (checkpoint C2). ``trace`` has one entry a visited node: its form, and the state after it.
    ``seconds`` is wall time a node, and differs from run to run.
    """

    question: str
    plan: plan.QueryPlan
    candidates: tuple[int, ...]
    ranked: tuple[int, ...]
    kept: tuple[int, ...]
    selected: tuple[int, ...]
    narrative: tuple[int, ...]
    phases: tuple[phases.Phase, ...]
    answer: answers.ChatAnswer
    rounds: int
    trace: tuple[dict[str, Any], ...]
    seconds: dict[str, float]


class Pipeline:
    """The agent of one chat: ``Pipeline(index, ranker).ask(questions)``. ``engine`` says what runs it."""

    def __init__(
        self,
        index: ChatIndex,
        ranker: Ranker | None = None,
        settings: PipelineSettings | None = None,
        model: ModelForm | None = None,
    ) -> None:
        """InputError where a node is to ask a model and none is given."""
        self.index, self.settings, self.model = index, settings or PipelineSettings(), model
        if self.settings.forms.any_model and model is None:
            raise InputError("a node has the form model, but no language model is named; give llm=SPEC")
        self.ranker: Ranker = Hand() if ranker is None or self.settings.mode == "oneshot" else ranker
        wider = channels.SPREAD.get(index.encoder, 1.0) if self.ranker.name == Hand.name else 1.0
        self._unit = self.ranker.unit * wider
        self.threads = threads.find(index)
        self._thread = threads.of_segment(self.threads, len(index.segments))[index.owner]
        self._starts = [s.start for s in index.segments]
        self.engine, self._run = self._engine()

    def ask(self, questions: Sequence[str]) -> list[Result]:
        """The results of some questions, in order; a question's result does not depend on the others.

        Raises InputError for a question beyond the limit ``question_characters``.
        """
        for question in questions:
            within("question_characters", len(question), f"the question {shorten(question, 40)!r} has")
        with one_thread():
            if self.settings.forms.planner == "rule":  # scored together, read one by one from the cache
                ruled = [plan.make(question, self.index.names, self.index.today) for question in questions]
                channels.scores(self.index, questions, ruled)
            return [self._result(self._run({"question": q, "round": 0, "trace": []})) for q in questions]

    # ── nodes, in their rule form ────────────────────────────────────────────────────────────────────

    def planner(self, state: AgentState) -> AgentState:
        """What is asked, and in which words to search."""
        return {"plan": plan.make(state["question"], self.index.names, self.index.today)}

    def retriever(self, state: AgentState) -> AgentState:
        """First stage: every message scored, the best share of the chat become candidates."""
        found, fused = state.get("channels"), state.get("fused")
        if found is None or fused is None:
            found = channels.scores(self.index, [state["question"]], [state["plan"]])[0]
            weights = dict(self.settings.weights) if self.settings.weights else None
            fused = channels.fuse(self.index, state["plan"], found, weights, self.settings.smoothing)
        wanted = state.get("widened", fused)
        size = depth(self.index.size, self.settings.share)
        return {
            "channels": found,
            "fused": fused,
            "candidates": channels.ranking(wanted)[:size].tolist(),
            "round": state["round"] + 1,
        }

    def grader(self, state: AgentState) -> AgentState:
        """Second stage, and whether what was found is enough: a list is looked for again until it stays."""
        rows = state.get("features")
        if rows is None:
            rows = features.matrix(self.index, state["plan"], state["channels"], state["fused"])
        places = np.array(state["candidates"], dtype=np.intp)
        scores = self.ranker.score(rows[places], state["fused"][places])
        order = np.lexsort((places, -scores))
        ranked = places[order].tolist()
        settled = state["round"] > 1 and ranked[:10] == state.get("ranked", [])[:10]
        enough = not state["plan"].many or settled
        return {"features": rows, "ranked": ranked, "scores": scores[order], "sufficient": enough}

    def explorer(self, state: AgentState) -> AgentState:
        """First-stage scores plus what the best point to: look-alikes, their threads, their time."""
        best = state["ranked"][:3]
        near = self.index.vectors.sentences @ self.index.vectors.sentences[best].sum(axis=0)
        joined = np.isin(self._thread, [t for t in self._thread[best] if t >= 0])
        around = np.zeros(self.index.size)
        for place in best:
            around[max(0, place - 3) : place + 4] = 1.0
        around *= np.isin(self.index.session, self.index.session[best])
        wide = channels.zscore(state["fused"]) + 0.3 * channels.zscore(near) + 0.3 * joined + 0.3 * around
        wide[best] = np.inf
        return {"widened": wide.astype(np.float32)}

    def selector(self, state: AgentState) -> AgentState:
        """Evidence for the fact and for the narrative, out of the first of the ranking."""
        bounds, kept = self.settings.bounds, state["ranked"][: self.settings.keep]
        scores = state["scores"][: len(kept)]
        if self.settings.selection == select.PREVIEW:
            selected = select.preview(kept, self.index.owner, self._starts, bounds.most)
            chosen = select.preview(kept, self.index.owner, self._starts, bounds.narrative)
        else:
            selected = select.facts(kept, scores, state["plan"], bounds, self._unit)
            chosen = select.narrative(kept, scores, selected, bounds, self._unit)
        return {"selected": selected, "narrative": chosen}

    def generator(self, state: AgentState) -> AgentState:
        """The answer in words of the evidence, and the narrative's phases."""
        bounds, kept = self.settings.bounds, state["ranked"][: self.settings.keep]
        known = {place: float(score) for place, score in zip(kept, state["scores"], strict=False)}
        bar = float(state["scores"][0]) - 2 * bounds.listed * self._unit if kept else 0.0
        chosen = [place for place in state["narrative"] if place in set(kept)]
        told = phases.make(self.index, chosen, known, bar, bounds.phase)
        answer = answers.extract(self.index, state["plan"], state["selected"], state["channels"])
        return {"narrative": chosen, "phases": told, "answer": answer}

    def route(self, state: AgentState) -> str:
        """Where to go after grading: on to the selector, or round by the explorer."""
        again = self.settings.mode == "agent" and state["round"] < self.settings.rounds
        return "explorer" if again and not state["sufficient"] else "selector"

    # ── the graph ────────────────────────────────────────────────────────────────────────────────────

    def _node(self, name: str) -> Callable[[AgentState], AgentState]:
        rule: Callable[[AgentState], AgentState] = getattr(self, name)
        form = self.settings.forms.by_node()[name]

        def run(state: AgentState) -> AgentState:
            start, note = time.perf_counter(), ""
            out = rule(state)
            if form == "model" and self.model is not None:
                out, note = self.model.decide(name, self.index, state, out)
            now: AgentState = {**state, **out}
            entry = {"node": name, "form": form, **_after(name, self.index, now)}
            out["trace"] = [*state["trace"], entry | ({"note": note} if note else {})]
            spent = dict(state.get("seconds") or {})
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - start
            out["seconds"] = spent
            return out

        return run

    def _engine(self) -> tuple[str, Callable[[AgentState], AgentState]]:
        from importlib.metadata import version
        from importlib.util import find_spec

        here = find_spec("langgraph") is not None
        if self.settings.engine == "langgraph" and not here:
            raise InputError(
                'engine "langgraph" is not installed; pip install "crs-lib[memory]", or use "plain"'
            )
        if here and self.settings.engine != "plain":
            return f"langgraph {version('langgraph')}", self._graph()
        return "plain", self._plain

    def _plain(self, state: AgentState) -> AgentState:
        now: AgentState = state
        step = "planner"
        while step:
            now = {**now, **self._node(step)(now)}
            step = self.route(now) if step == "grader" else _NEXT[step]
        return now

    def _graph(self) -> Callable[[AgentState], AgentState]:
        """The same nodes as a compiled LangGraph workflow."""
        import os

        os.environ.setdefault("LANGSMITH_TRACING", "false")
        from langgraph.graph import END, START, StateGraph

        graph = StateGraph(AgentState)
        for name in NODES:
            graph.add_node(name, self._node(name))
        graph.add_edge(START, "planner")
        for one, two in _NEXT.items():
            graph.add_edge(one, two or END)
        graph.add_conditional_edges("grader", self.route, ["explorer", "selector"])
        compiled = graph.compile()
        return lambda state: compiled.invoke(state)

    def _result(self, state: AgentState) -> Result:
        ranked = list(state["ranked"])
        inside = set(ranked)
        for place in channels.ranking(state["fused"]).tolist():
            if len(ranked) >= RANKED:
                break
            if place not in inside:
                ranked.append(place)
        kept = state["ranked"][: self.settings.keep]
        _check(state["candidates"], kept, state["selected"], state["narrative"])
        return Result(
            state["question"], state["plan"], tuple(state["candidates"]), tuple(ranked), tuple(kept),
            tuple(state["selected"]), tuple(state["narrative"]), tuple(state["phases"]), state["answer"],
            state["round"], tuple(state["trace"]), state["seconds"],
        )  # fmt: skip


def _after(node: str, index: ChatIndex, state: AgentState) -> dict[str, Any]:
    """What the state says after a node, small enough to be written beside a prediction; ids, no positions."""
    ids = index.chat.ids
    if node == "planner":
        made = state["plan"]
        return {"kind": made.kind, "speakers": list(made.speakers), "searched": made.first_person}
    if node == "retriever":
        return {"round": state["round"], "candidates": len(state["candidates"]),
                "first": ids(state["candidates"][:5])}  # fmt: skip
    if node == "grader":
        return {"verdict": "keep" if state["sufficient"] else "more", "first": ids(state["ranked"][:10])}
    if node == "explorer":
        return {"from": ids(state["ranked"][:3])}
    if node == "selector":
        return {"selected": ids(state["selected"]), "narrative": len(state["narrative"])}
    return {"answer": state["answer"].text, "phases": len(state["phases"])}


_NEXT = {
    "planner": "retriever", "retriever": "grader", "explorer": "retriever", "selector": "generator",
    "generator": "",
}  # fmt: skip


def _check(
    candidates: Sequence[int], kept: Sequence[int], selected: Sequence[int], told: Sequence[int]
) -> None:
    """C1 ⊇ C2 ⊇ S, or the trace means nothing."""
    if not set(candidates) >= set(kept) >= set(selected) | set(told):
        raise AssertionError("the checkpoints are not nested; this is a defect, please report it")


def oneshot(settings: PipelineSettings) -> PipelineSettings:
    """The same levers in the deprecated mode: one round, first stage only."""
    return replace(settings, mode="oneshot", rounds=1)
