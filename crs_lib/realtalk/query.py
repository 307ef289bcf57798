"""The agent: Planner → Retriever → Grader (→ Explorer → Retriever) → Selector → Generator.

Each node is a plain function of the state in one of two forms, rule or model. LangGraph runs the nodes where
it is installed; a loop of our own gives the same result where it is not. Predictions are lines of JSON that
any other program can read.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import tables
from crs_lib.core.errors import InputError
from crs_lib.core.rng import one_thread
from crs_lib.core.safety import check_limit as within
from crs_lib.core.text import shorten
from crs_lib.realtalk import answers, channels, corpus, features, plan, wording
from crs_lib.realtalk import index as indexes
from crs_lib.realtalk import ranker as rankers
from crs_lib.realtalk.config import OWN, STRANGERS, RealTalkConfig
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.ranker import Hand, Ranker
from crs_lib.retrieval.encoders import CrossEncoder

Floats = NDArray[np.float32]
RANKED, ROUNDS = 200, 3  # messages of a ranking, most searches of a question
NODES = ("planner", "retriever", "grader", "explorer", "selector", "generator")
KEYS = ("chat", "qa_index", "question", "plan", "candidates", "ranked", "selected", "phases", "timings")


def _node_forms(text: str, model: bool) -> dict[str, str]:
    """The form of each node (rule or model), in the order of the graph, that a text names. Texts are
    ``auto``, ``rule``, ``model``, or ``planner=model,selector=rule``; ``auto`` gives planner, selector and
    generator to the model where there is one. InputError for a node or a form that is not known.
    """
    if text in ("rule", "model"):
        return dict.fromkeys(NODES, text)
    found = dict.fromkeys(NODES, "rule")
    if text == "auto":
        return found | (dict.fromkeys(("planner", "selector", "generator"), "model") if model else {})
    for part in text.split(","):
        node, _, form = part.strip().partition("=")
        if node not in NODES or form not in ("rule", "model"):
            known = f"nodes are {', '.join(NODES)}, forms rule and model"
            raise InputError(f"forms: {part.strip()!r} is no NODE=FORM; {known}")
        found[node] = form
    return found


class ModelForm(Protocol):
    """The model's form of every node: it sees the state and what the rule made of it, and may do better."""

    name: str

    def decide(
        self, node: str, index: ChatIndex, state: "AgentState", ruled: "AgentState"
    ) -> tuple["AgentState", str]:
        """The node's result and a note; the rule's result with the reason where no reply can be used."""
        ...


class AgentState(TypedDict, total=False):
    """What the nodes hand on. Positions are message positions in the chat."""

    question: str
    plan: plan.QueryPlan
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
    phases: list[answers.Phase]
    answer: answers.ChatAnswer
    trace: list[dict[str, Any]]


class _Pipeline:
    """The agent of one chat: ``Pipeline(index, ranker).ask(questions)``. ``engine`` says what runs it."""

    def __init__(
        self, index: ChatIndex, ranker: Ranker | None = None, config: RealTalkConfig | None = None,
        model: ModelForm | None = None,
    ) -> None:  # fmt: skip
        """InputError where a node is to ask a model and none is given."""
        self.index, self.config, self.model = index, config or RealTalkConfig(), model
        self.forms = _node_forms(self.config.forms, model is not None)
        if "model" in self.forms.values() and model is None:
            raise InputError("a node has the form model, but no language model is named; give llm=SPEC")
        self.ranker: Ranker = ranker or Hand()
        wider = channels.SPREAD.get(index.encoder, 1.0) if self.ranker.name == Hand.name else 1.0
        self._unit = self.ranker.unit * wider
        self._starts = [s.start for s in index.segments]
        self.engine, self._run = self._engine()

    def ask(self, questions: Sequence[str]) -> list[dict[str, Any]]:
        """The results of some questions, in order; a question's result does not depend on the others. Raises
        InputError for a question beyond the limit ``question_characters``.
        """
        for question in questions:
            within("question_characters", len(question), f"the question {shorten(question, 40)!r} has")
        with one_thread():
            if self.forms["planner"] == "rule":  # scored together, read one by one from the cache
                ruled = list(map(self.index.plan, questions))
                channels.scores(self.index, questions, ruled)
            return [self._result(self._run({"question": q, "round": 0, "trace": []})) for q in questions]

    # ── nodes, in their rule form ────────────────────────────────────────────────────────────────────

    def planner(self, state: AgentState) -> AgentState:
        """What is asked, and in which words to search."""
        return {"plan": self.index.plan(state["question"])}

    def retriever(self, state: AgentState) -> AgentState:
        """First stage: every message scored, the best share of the chat become candidates."""
        found, fused = state.get("channels"), state.get("fused")
        if found is None or fused is None:
            found = channels.scores(self.index, [state["question"]], [state["plan"]])[0]
            fused = channels.fuse(self.index, state["plan"], found)
        wanted = state.get("widened", fused)
        size = rankers.depth(self.index.size, self.config.share)
        return {
            "channels": found, "fused": fused, "candidates": channels.ranking(wanted)[:size].tolist(),
            "round": state["round"] + 1,
        }  # fmt: skip

    def grader(self, state: AgentState) -> AgentState:
        """Second stage, and whether what was found is enough: a list is looked for again until it stays."""
        if (rows := state.get("features")) is None:
            rows = features.matrix(self.index, state["plan"], state["channels"], state["fused"])
        places = np.array(state["candidates"], dtype=np.intp)
        texts = [self.index.chat.messages[place].text for place in state["candidates"]]
        scores = self.ranker.score(rows[places], state["fused"][places], state["question"], texts)
        order = np.lexsort((places, -scores))
        ranked = places[order].tolist()
        settled = state["round"] > 1 and ranked[:10] == state.get("ranked", [])[:10]
        enough = not state["plan"].many or settled
        return {"features": rows, "ranked": ranked, "scores": scores[order], "sufficient": enough}

    def explorer(self, state: AgentState) -> AgentState:
        """First-stage scores plus what the best point to: look-alikes, their threads, their time."""
        best = state["ranked"][:3]
        near = self.index.vectors.sentences @ self.index.vectors.sentences[best].sum(axis=0)
        joined = np.isin(self.index.thread, [t for t in self.index.thread[best] if t >= 0])
        around = np.zeros(self.index.size)
        for place in best:
            around[max(0, place - self.config.window) : place + self.config.window + 1] = 1.0
        around *= np.isin(self.index.session, self.index.session[best])
        wide = channels.zscore(state["fused"]) + 0.3 * channels.zscore(near) + 0.3 * joined + 0.3 * around
        wide[best] = np.inf
        return {"widened": wide.astype(np.float32)}

    def selector(self, state: AgentState) -> AgentState:
        """Evidence for the fact and for the narrative, out of the first of the ranking."""
        config, kept = self.config, state["ranked"][: self.config.keep]
        scores = state["scores"][: len(kept)]
        if config.nodes:
            nodes = list(dict.fromkeys(self.index.owner[kept].tolist()))[: config.nodes]
            places = [i for i, place in enumerate(kept) if self.index.owner[place] in nodes]
            kept, scores = [kept[i] for i in places], scores[places]
        if config.selection == "preview":
            selected = answers.preview(kept, self.index.owner, self._starts, config.most)
            chosen = answers.preview(kept, self.index.owner, self._starts, config.narrative)
        else:
            reach = (config.listed if state["plan"].many else config.single) * self._unit
            selected = answers.facts(kept, scores, reach, config.most)
            least = max(len(selected), config.phase_least)
            chosen = answers.narrative(kept, scores, least, config.narrative, self._unit)
        return {"selected": selected, "narrative": chosen}

    def generator(self, state: AgentState) -> AgentState:
        """The answer in words of the evidence, and the narrative's phases."""
        kept = state["ranked"][: self.config.keep]
        known = {place: float(score) for place, score in zip(kept, state["scores"], strict=False)}
        config = self.config
        bar = float(state["scores"][0]) - config.margin * self._unit if kept else 0.0
        chosen = [place for place in state["narrative"] if place in set(kept)]
        sizes = (config.phase_most, config.phase_least, config.narrative)
        told = answers.phases(self.index, chosen, known, bar, *sizes)
        inside = {name for phase in told for name in phase.ids}
        chosen = [place for place in kept if self.index.chat.messages[place].id in inside]
        answer = answers.extract(self.index, state["plan"], state["selected"], state["channels"])
        return {"narrative": chosen, "phases": told, "answer": answer}

    def route(self, state: AgentState) -> str:
        """Where to go after grading: on to the selector, or round by the explorer."""
        return "selector" if state["sufficient"] or state["round"] >= ROUNDS else "explorer"

    # ── the graph ────────────────────────────────────────────────────────────────────────────────────

    def _node(self, name: str) -> Callable[[AgentState], AgentState]:
        rule: Callable[[AgentState], AgentState] = getattr(self, name)
        form = self.forms[name]

        def run(state: AgentState) -> AgentState:
            out, note = rule(state), ""
            if form == "model" and self.model is not None:
                out, note = self.model.decide(name, self.index, state, out)
            now: AgentState = {**state, **out}
            entry = {"node": name, "form": form, **_after(name, self.index, now)}
            out["trace"] = [*state["trace"], entry | ({"note": note} if note else {})]
            return out

        return run

    def _engine(self) -> tuple[str, Callable[[AgentState], AgentState]]:
        from importlib.metadata import version
        from importlib.util import find_spec

        here = find_spec("langgraph") is not None
        if self.config.engine == "langgraph" and not here:
            raise InputError('LangGraph is not installed: pip install "crs-lib[memory]", or engine "plain"')
        if self.config.engine == "plain" or not here:
            return "plain", self._plain
        return f"langgraph {version('langgraph')}", self._graph()

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

    def _result(self, state: AgentState) -> dict[str, Any]:
        """The last state. ``ranked`` goes on behind the candidates to 200 messages in first-stage order;
        ``kept`` are its first (checkpoint C2), with their ``scores``: candidates ⊇ kept ⊇ selected.
        """
        kept, known = state["ranked"][: self.config.keep], set(state["ranked"])
        if not set(state["candidates"]) >= set(kept) >= {*state["selected"], *state["narrative"]}:
            raise AssertionError("the checkpoints are not nested; this is a defect, please report it")
        rest = [place for place in channels.ranking(state["fused"]).tolist() if place not in known]
        ranked = state["ranked"] + rest[: max(0, RANKED - len(known))]
        scores = [round(float(score), 4) for score in state["scores"][: len(kept)]]
        return {**state, "ranked": ranked, "kept": kept, "scores": scores}


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


# ── predictions ──────────────────────────────────────────────────────────────────────────────────────


def predict(
    index: ChatIndex, ranker: Ranker, config: RealTalkConfig | None = None, model: ModelForm | None = None,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """One record a question of the chat, in file order; ids instead of positions. ``ranked`` holds 200 ids
    (all of a shorter chat), best first; ``scores`` are those of the first ``kept`` after re-ranking;
    ``selected`` the evidence of a fact, ``phases`` the evidence of a narrative, ``answer`` its text or null,
    ``trace`` the state after each node. ``timings`` says how often the retriever was visited. Equal inputs
    give equal bytes.
    """
    pipeline = _Pipeline(index, ranker, config, model)
    config, ids = pipeline.config, index.chat.ids
    asked = index.chat.questions[: config.questions or None]
    made_with = {
        "encoder": index.encoder, "tuned": index.tuned, "ranker": ranker.name, "learnt_from": ranker.origin,
        "selection": config.selection, "mode": "agent", "engine": pipeline.engine,
        "forms": pipeline.forms, "llm": model.name if model else "",
    }  # fmt: skip
    for question, told in zip(asked, pipeline.ask([q.text for q in asked]), strict=True):
        yield {
            "chat": index.chat.name, "qa_index": question.index, "question": question.text,
            "plan": told["plan"]._asdict(), "candidates": ids(told["candidates"]),
            "ranked": ids(told["ranked"]), "kept": len(told["kept"]), "scores": told["scores"],
            "selected": ids(told["selected"]), "narrative": ids(told["narrative"]),
            "phases": [phase._asdict() for phase in told["phases"]], "answer": told["answer"]._asdict(),
            "trace": told["trace"], "timings": {"rounds": told["round"], "seconds": None},
            "made_with": dict(made_with),
        }  # fmt: skip


SURE = 0.311  # below it the chat holds no answer
_NEAR, _NAMED, _STRANGE, _BIAS = 10.92, 2.97, -1.72, -7.42


def confidence(index: ChatIndex, record: Mapping[str, Any]) -> float:
    """How likely a chat holds the answer of a prediction, in [0, 1], where every other question is foreign.
    By the best token match among the five best messages, the number of its people that the question names,
    and that of names in it that the chat never says. A logistic regression on questions of RealTalk chats 1
    to 4 and 320 about other chats, of which ``SURE`` refuses 85 %; without MiniLM a rough guess.
    """
    asked = record["question"]
    made = index.plan(asked)
    near = channels.scores(index, [asked], [made])[0]["tokens"]
    best = max(float(near[index.chat.position[name]]) for name in record["ranked"][:5])
    said = set(re.findall(r"\b[A-Z][a-z]+\b", asked.partition(" ")[2])) - {*wording.named(asked, index.names)}
    strange = sum(any(not len(index.having(term)) for term in wording.content_words(name)) for name in said)
    scaled = best * answers.FAR["minilm"] / answers.FAR.get(index.main, answers.FAR["minilm"])
    log_odds = _NEAR * scaled + _NAMED * len(made.speakers) + _STRANGE * strange + _BIAS
    return 1 / (1 + math.exp(-log_odds))


def read(path: Path, chats: Iterable[Chat]) -> list[dict[str, Any]]:
    """The predictions of a file, checked against their chats. Raises InputError for a missing key, an unknown
    chat, or an id that the chat does not have: every id must exist, or groundedness is not 1.
    """
    known = {chat.name: chat for chat in chats}
    out = []
    for number, record in enumerate(tables.read_jsonl(path), start=1):
        where = f"{path.name}, line {number}"
        if missing := [key for key in KEYS if key not in record]:
            raise InputError(f"{where}: keys {missing} are missing; expected {', '.join(KEYS)}")
        if (chat := known.get(str(record["chat"]))) is None:
            raise InputError(f"{where}: chat {record['chat']!r} is not among {', '.join(sorted(known))}")
        named = [*record["candidates"], *record["ranked"], *record["selected"]]
        named += [name for phase in record["phases"] for name in phase["ids"]]
        if strange := [name for name in named if name not in chat.position]:
            raise InputError(f"{where}: {chat.name} has no message {strange[0]!r}")
        out.append(record)
    return out


def choose_ranker(name: str, index: ChatIndex, folder: Path | None = None, teachers: str = OWN) -> Ranker:
    """``auto`` takes the ranker that comes with the package, unless this chat taught it. Then, and where a
    folder or other teachers are named, it learns from the train chats where these are there; else the hand
    order. Without LightGBM what is learnt is linear. ``hand`` never learns; ``learned`` raises InputError
    where it cannot. The chat itself never teaches its own ranker.
    """
    if name == "hand":
        return Hand()
    if name.startswith("onnx:"):
        return CrossEncoder(name.partition(":")[2])
    if name == "learned":
        rankers.need_trees()
    if name == "auto" and folder is None and teachers == OWN:
        ready = rankers.shipped(index.encoder)
        if ready and not any(corpus.resembles(index.chat.sketch, taught) for taught in ready[1]):
            return ready[0]
    own_chats, foreign = rankers.train_chats(folder, teachers)
    if teachers == STRANGERS:
        own_chats = rankers.not_of(index.chat, own_chats)
    found = rankers.for_chat(index.chat, own_chats, foreign, lambda c: indexes.build(c, index.encoder))
    if name == "learned" and found.name == Hand.name:
        remedy = "set CRS_MIRROR or download them, or use ranker 'hand'"
        raise InputError(f"no training chats were found; {remedy}")
    return found
