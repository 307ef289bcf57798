"""The query pipeline: Planner → Retriever → Grader → Generator, with one loop back to retrieval.

Each node is a plain function of the state; LangGraph runs them where it is installed, a loop of our own
gives the same result where it is not.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.config import Config, Field
from crs_lib.core.errors import InputError
from crs_lib.realtalk import channels, features, phases, plan, select, threads
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.ranker import Hand, Ranker
from crs_lib.realtalk.training import depth
from crs_lib.retrieval import dense

Floats = NDArray[np.float32]
RANKED = 200


class Advice:
    """What a language model may add at each node; the offline pipeline asks this one and hears nothing."""

    def plan(self, index: ChatIndex, question: str, made: plan.Plan) -> plan.Plan:
        """The plan, perhaps better."""
        return made

    def grade(self, index: ChatIndex, question: str, ranked: list[int]) -> list[int]:
        """The best-ranked messages, perhaps in a better order; always the same messages."""
        return ranked

    def tell(self, index: ChatIndex, question: str, told: list[phases.Phase]) -> list[phases.Phase]:
        """The phases, perhaps with better titles and summaries; always the same ids."""
        return told


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
    rounds: Annotated[int, Field(ge=1, description="most searches of a question")] = 2
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


class State(TypedDict, total=False):
    """What the nodes hand on. Positions are message positions in the chat."""

    question: str
    plan: plan.Plan
    query: channels.Query
    channels: dict[str, Floats]
    features: Floats
    fused: Floats
    candidates: list[int]
    ranked: list[int]
    scores: Floats
    sufficient: bool
    round: int
    selected: list[int]
    narrative: list[int]
    phases: list[phases.Phase]
    seconds: dict[str, float]


@dataclass(frozen=True)
class Result:
    """What the pipeline found for one question; C1 ⊇ C2 ⊇ selected, all of them positions.

    ``ranked`` goes on behind the candidates to 200 messages in first-stage order, ``kept`` are its
    first (checkpoint C2). ``seconds`` is wall time a node, and differs from run to run.
    """

    question: str
    plan: plan.Plan
    candidates: tuple[int, ...]
    ranked: tuple[int, ...]
    kept: tuple[int, ...]
    selected: tuple[int, ...]
    narrative: tuple[int, ...]
    phases: tuple[phases.Phase, ...]
    rounds: int
    seconds: dict[str, float]


class Pipeline:
    """The pipeline of one chat: ``Pipeline(index, ranker).ask(questions)``."""

    def __init__(
        self,
        index: ChatIndex,
        ranker: Ranker | None = None,
        settings: PipelineSettings | None = None,
        advice: Advice | None = None,
    ) -> None:
        self.index, self.settings = index, settings or PipelineSettings()
        self.ranker: Ranker = Hand() if ranker is None or self.settings.mode == "oneshot" else ranker
        self.advice = advice or Advice()
        wider = channels.SPREAD.get(index.encoder, 1.0) if self.ranker.name == Hand.name else 1.0
        self._unit = self.ranker.unit * wider
        self.threads = threads.find(index)
        self._thread = threads.of_segment(self.threads, len(index.segments))[index.owner]
        self._starts = [s.start for s in index.segments]
        self._run = self._engine()

    def ask(self, questions: list[str]) -> list[Result]:
        """The results of some questions, in order; a question's result does not depend on the others."""
        with dense.one_thread():
            plans = [self.advice.plan(self.index, q, self._plan(q)) for q in questions]
            asked = channels.queries(self.index, questions, plans)
            return [self._result(self._run({"question": q.text, "query": q, "plan": q.plan})) for q in asked]

    def _plan(self, question: str) -> plan.Plan:
        return plan.make(question, self.index.names, self.index.today)

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────────

    def planner(self, state: State) -> State:
        """What is asked was read before (all questions are encoded together); opens the first round."""
        return {"plan": state["plan"], "round": 0}

    def retriever(self, state: State) -> State:
        """First stage; in a second round the best hits' threads and look-alikes are drawn in."""
        query = state["query"]
        found = state.get("channels") or channels.scores(self.index, query)
        weights = dict(self.settings.weights) if self.settings.weights else None
        fused = channels.fuse(self.index, query.plan, found, weights, self.settings.smoothing)
        wanted = fused if state["round"] == 0 else self._widened(fused, state)
        size = depth(self.index.size, self.settings.share)
        candidates = channels.ranking(wanted)[:size].tolist()
        return {"channels": found, "fused": fused, "candidates": candidates, "round": state["round"] + 1}

    def grader(self, state: State) -> State:
        """Second stage, and whether what was found is enough."""
        rows = state.get("features")
        if rows is None:
            rows = features.matrix(self.index, state["query"], state["channels"], state["fused"])
        places = np.array(state["candidates"], dtype=np.intp)
        scores = self.ranker.score(rows[places], state["fused"][places])
        order = np.lexsort((places, -scores))
        ranked = self.advice.grade(self.index, state["question"], places[order].tolist())
        return {
            "features": rows,
            "ranked": ranked,
            "scores": scores[order],
            "sufficient": self._enough(state),
        }

    def generator(self, state: State) -> State:
        """Evidence for the fact, evidence for the narrative, and its phases."""
        bounds, kept = self.settings.bounds, state["ranked"][: self.settings.keep]
        scores, unit = state["scores"][: len(kept)], self._unit
        if self.settings.selection == select.PREVIEW:
            selected = select.preview(kept, self.index.owner, self._starts, bounds.most)
            chosen = select.preview(kept, self.index.owner, self._starts, bounds.narrative)
        else:
            selected = select.facts(kept, scores, state["plan"], bounds, unit)
            chosen = select.narrative(kept, self.index.owner, bounds)
        known = {place: float(score) for place, score in zip(kept, scores, strict=True)}
        bar = float(scores[0]) - 2 * bounds.listed * unit if len(scores) else 0.0
        told = phases.make(self.index, chosen, known, bar, bounds.phase)
        told = self.advice.tell(self.index, state["question"], told)
        return {"selected": selected, "narrative": chosen, "phases": told}

    def route(self, state: State) -> str:
        """Where to go after grading: back to the retriever, or on to the generator."""
        again = (
            self.settings.mode == "agent"
            and state["round"] < self.settings.rounds
            and not state["sufficient"]
        )
        return "retriever" if again else "generator"

    # ── helpers ──────────────────────────────────────────────────────────────────────────────────────

    def _enough(self, state: State) -> bool:
        """A question for one answer is answered by one round; a list is looked for twice."""
        return not state["plan"].many or state["round"] > 1

    def _widened(self, fused: Floats, state: State) -> Floats:
        """First-stage scores plus what the best three of the last round point to."""
        best = state["ranked"][:3]
        near = self.index.vectors.sentences @ self.index.vectors.sentences[best].sum(axis=0)
        joined = np.isin(self._thread, [t for t in self._thread[best] if t >= 0])
        wide = channels.zscore(fused) + 0.3 * channels.zscore(near) + 0.3 * joined
        wide[best] = np.inf
        return wide.astype(np.float32)

    def _result(self, state: State) -> Result:
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
            tuple(state["selected"]), tuple(state["narrative"]), tuple(state["phases"]),
            state["round"], state["seconds"],
        )  # fmt: skip

    def _timed(self, name: str) -> Callable[[State], State]:
        node: Callable[[State], State] = getattr(self, name)

        def run(state: State) -> State:
            start = time.perf_counter()
            out = node(state)
            spent = dict(state.get("seconds") or {})
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - start
            out["seconds"] = spent
            return out

        return run

    def _engine(self) -> Callable[[State], State]:
        from importlib.util import find_spec

        here = find_spec("langgraph") is not None
        if self.settings.engine == "langgraph" and not here:
            raise InputError(
                'engine "langgraph" is not installed; pip install "crs-lib[memory]", or use "plain"'
            )
        return self._graph() if here and self.settings.engine != "plain" else self._plain

    def _plain(self, state: State) -> State:
        now: dict[str, Any] = dict(state)
        step = "planner"
        while step:
            now |= self._timed(step)(now)  # type: ignore[arg-type]
            step = {"planner": "retriever", "retriever": "grader", "generator": ""}.get(step) or (
                self.route(now) if step == "grader" else ""  # type: ignore[arg-type]
            )
        return now  # type: ignore[return-value]

    def _graph(self) -> Callable[[State], State]:
        """The same nodes as a compiled LangGraph workflow."""
        import os

        os.environ.setdefault("LANGSMITH_TRACING", "false")
        from langgraph.graph import END, START, StateGraph

        graph = StateGraph(State)
        for name in ("planner", "retriever", "grader", "generator"):
            graph.add_node(name, self._timed(name))
        graph.add_edge(START, "planner")
        graph.add_edge("planner", "retriever")
        graph.add_edge("retriever", "grader")
        graph.add_conditional_edges("grader", self.route, ["retriever", "generator"])
        graph.add_edge("generator", END)
        compiled = graph.compile()
        return lambda state: compiled.invoke(state)


def _check(candidates: list[int], kept: list[int], selected: list[int], narrative: list[int]) -> None:
    """C1 ⊇ C2 ⊇ S, or the trace means nothing."""
    if not set(candidates) >= set(kept) >= set(selected) | set(narrative):
        raise AssertionError("the checkpoints are not nested; this is a defect, please report it")


def oneshot(settings: PipelineSettings) -> PipelineSettings:
    """The same levers in the deprecated mode: one round, first stage only."""
    return replace(settings, mode="oneshot", rounds=1)
