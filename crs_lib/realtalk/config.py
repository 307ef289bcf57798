"""The settings of a RealTalk run, checked before anything starts."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from crs_lib.core.settings import Field, OneOf, RunName, Seed, Settings
from crs_lib.realtalk import corpus, index, phases
from crs_lib.realtalk.tradeoff import TRADEOFF

STUDY = "realtalk"
SAMPLE = "sample"
SPLITS = (corpus.TRAIN, corpus.TEST, "all")
# The defaults of the command that scores; the log of experiments names what differs from them.
COMMAND: Mapping[str, Any] = {"encoder": "auto", "ranker": "auto", "data": "realtalk", "split": corpus.TRAIN}
OWN, FOREIGN = "realtalk", "locomo"
STRANGERS = "strangers"  # RealTalk's train chats of other people
TEACHERS = (OWN, STRANGERS, f"{OWN}+{FOREIGN}", FOREIGN)
_ENCODERS = ("auto", *index.ENCODERS)
_VIEWS = ("windowed", "preview")
# Names, permissions and what cannot change a prediction: all other settings are levers.
_NO_LEVERS = ("run", "split", "final", "force", "engine", "against", "tradeoff")

_FORMS = (
    "nodes by form, e.g. planner=model,selector=rule; auto: with llm the model plans, selects and answers"
)


class RealTalkConfig(Settings):
    """The effective settings of a run, checked."""

    run: Annotated[RunName, Field(description="name of the run, its folder under results/realtalk")] = "smoke"
    data: Annotated[str, Field(description="sample, realtalk, locomo, or a chat file or folder")] = SAMPLE
    split: Annotated[
        str,
        OneOf(SPLITS),
        Field(description="train (chats 1 to 7), test (8 to 10), all; of questions: people leak"),
    ] = "all"
    encoder: Annotated[str, OneOf(_ENCODERS), Field(description="what turns texts into vectors")] = "hashing"
    ranker: Annotated[
        str,
        Field(
            pattern="^(hand|learned|auto|onnx:.+)$",
            description="hand; learned (from train chats); auto; onnx:FOLDER, a cross-encoder",
        ),
    ] = "hand"
    teachers: Annotated[
        str,
        OneOf(TEACHERS),
        Field(description="chats that a learned ranker learns from; strangers: none with one of its people"),
    ] = OWN
    selection: Annotated[
        Literal["coverage", "preview"],
        Field(description="how the evidence is chosen: coverage, or the old preview"),
    ] = "coverage"
    engine: Annotated[
        Literal["auto", "langgraph", "plain"], Field(description="what runs the nodes: LangGraph")
    ] = "auto"
    share: Annotated[float, Field(gt=0, le=1, description="how much of a chat becomes candidates")] = 0.25
    keep: Annotated[int, Field(ge=1, description="how many candidates stay after re-ranking")] = 40
    single: Annotated[
        float, Field(ge=0, description="a fact's distance below the best score, one answer")
    ] = 1.1
    listed: Annotated[
        float, Field(ge=0, description="the same for lists, counts and questions about both people")
    ] = 2.2
    most: Annotated[int, Field(ge=1, description="the largest evidence set of a fact")] = 9
    narrative: Annotated[int, Field(ge=1, description="the largest evidence set of a narrative")] = 30
    phase_least: Annotated[int, Field(ge=1, description="ids of a phase, at least")] = phases.LEAST
    phase_most: Annotated[int, Field(ge=1, description="ids of a phase, at most but for the margin")] = (
        phases.PHASE
    )
    margin: Annotated[
        float, Field(ge=0, description="steps below the best score within which a phase may hold more")
    ] = 4.0
    window: Annotated[int, Field(ge=0, description="messages around a hit that a second search lifts")] = 3
    nodes: Annotated[int, Field(ge=0, description="the best segments that give evidence; 0: all")] = 0
    reading: Annotated[str, OneOf(corpus.READINGS), Field(description="which evidence ids count as gold")] = (
        corpus.VALID
    )
    with_unanswerable: Annotated[
        bool, Field(description="count questions without answer (LoCoMo's category 5) among all")
    ] = False
    llm: Annotated[str, Field(description="a language model's spec, e.g. local:smollm2; empty for none")] = ""
    forms: Annotated[
        str,
        Field(description=_FORMS),
    ] = "auto"
    view: Annotated[str, OneOf(_VIEWS), Field(description="how much of a segment a model selects from")] = (
        "windowed"
    )
    segments: Annotated[
        int, Field(ge=1, le=40, description="the best segments that a model selects from; fewer are faster")
    ] = 8
    prompts: Annotated[str, Field(description="folder of own prompts; empty: the shipped ones")] = ""
    questions: Annotated[int, Field(ge=0, description="the first n questions of each chat; 0 for all")] = 0
    arc_cases: Annotated[str, Field(description="a file of own ARC cases; empty: derived from evidence")] = ""
    final: Annotated[bool, Field(description="score the test split, once")] = False
    force: Annotated[bool, Field(description="score the test split again; marked as repeated")] = False
    against: Annotated[str, Field(description="the run that a trade-off is held against")] = ""
    tradeoff: Annotated[
        str,
        Field(
            pattern=f"^({TRADEOFF.pattern})?$",
            description='what may fall for a gain: "f1 -0.01 for recall +0.02"',
        ),
    ] = ""
    seed: Annotated[Seed, Field(description="seed of every random choice")] = 0

    def levers(self) -> dict[str, Any]:
        """What can change a prediction or its score: everything but the run's name and the permissions."""
        return {name: value for name, value in self.values().items() if name not in _NO_LEVERS}
