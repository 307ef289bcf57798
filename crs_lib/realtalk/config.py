"""The settings of a RealTalk run, checked before anything starts."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict

from crs_lib.core.settings import Field, OneOf, RunName, Seed, Settings
from crs_lib.realtalk import corpus, index

STUDY = "realtalk"
SAMPLE = "sample"
SPLITS = (corpus.TRAIN, corpus.TEST, "all")
# The defaults of the command that scores; the log of experiments names what differs from them.
COMMAND: Mapping[str, Any] = {"encoder": "auto", "ranker": "auto", "data": "realtalk", "split": corpus.TRAIN}
OWN = "realtalk"
STRANGERS = "strangers"  # RealTalk's train chats of other people
TEACHERS = (OWN, STRANGERS)
_ENCODERS = ("auto", *index.ENCODERS)
TRADEOFF = re.compile(r"(?P<loss>.{1,80}) -(?P<most>[\d.]+) for (?P<gain>.{1,80}) \+(?P<least>[\d.]+)")
PREVIEW_AND_IDS = "preview+ids"
_VIEWS = ("windowed", PREVIEW_AND_IDS, "preview")
# Names, permissions and what cannot change a prediction: all other settings are levers.
_NO_LEVERS = ("run", "split", "final", "force", "engine", "against", "tradeoff")

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Distance = Annotated[float, Field(ge=0)]


class RealTalkConfig(Settings):
    """The effective settings of a run, checked."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    run: RunName = "smoke"
    """name of the run, its folder under results/realtalk"""
    data: str = SAMPLE
    """sample, realtalk, locomo, or a chat file or folder"""
    split: Annotated[str, OneOf(SPLITS)] = "all"
    """train (chats 1 to 7), test (chats 8 to 10, scored once) or all"""
    encoder: Annotated[str, OneOf(_ENCODERS)] = "hashing"
    """what turns texts into vectors"""
    ranker: Annotated[str, Field(pattern="^(hand|learned|auto|onnx:.+)$")] = "hand"
    """hand; learned (from train chats); auto; onnx:FOLDER, a cross-encoder"""
    teachers: Annotated[str, OneOf(TEACHERS)] = OWN
    """chats that a learned ranker learns from; strangers: none with one of its people"""
    selection: Literal["coverage", "preview"] = "coverage"
    """how the evidence is chosen: coverage, or the old preview"""
    engine: Literal["auto", "langgraph"] = "auto"
    """what runs the nodes: LangGraph"""
    share: Annotated[float, Field(gt=0, le=1)] = 0.25
    """how much of a chat becomes candidates"""
    keep: Positive = 40
    """how many candidates stay after re-ranking"""
    single: Distance = 1.1
    """a fact's distance below the best score, one answer"""
    listed: Distance = 2.4
    """the same for lists, counts and questions about both people"""
    most: Positive = 9
    """the largest evidence set of a fact"""
    narrative: Positive = 30
    """the largest evidence set of a narrative"""
    phase_least: Positive = 3
    """ids of a phase, at least"""
    phase_most: Positive = 15
    """ids of a phase, at most but for the margin"""
    margin: Distance = 4.0
    """steps below the best score within which a phase may hold more"""
    window: Count = 3
    """messages around a hit that a second search lifts"""
    nodes: Count = 0
    """the best segments that give evidence; 0: all"""
    covered: Count = 0
    """the best segments of which each gives at least one id; 0: none need to"""
    reading: Annotated[str, OneOf(corpus.READINGS)] = corpus.VALID
    """which evidence ids count as gold"""
    with_unanswerable: bool = False
    """count questions without answer (LoCoMo's category 5) among all"""
    llm: str = ""
    """a language model's spec, e.g. local:smollm2; empty for none"""
    forms: str = "auto"
    """nodes by form, e.g. planner=model,selector=rule; auto: with llm the model plans, selects and answers"""
    view: Annotated[str, OneOf(_VIEWS)] = "windowed"
    """what a model selects from: windowed, every message; preview+ids, 8 and all ids; preview, 3"""
    segments: Annotated[int, Field(ge=1, le=40)] = 8
    """the best segments that a model selects from; fewer are faster"""
    prompts: str = ""
    """folder of own prompts; empty: the shipped ones"""
    questions: Count = 0
    """the first n questions of each chat; 0 for all"""
    arc_cases: str = ""
    """a file of own ARC cases; empty: derived from evidence"""
    final: bool = False
    """score the test split, once"""
    force: bool = False
    """score the test split again; marked as repeated"""
    against: str = ""
    """the run that a trade-off is held against"""
    tradeoff: Annotated[str, Field(pattern=f"^({TRADEOFF.pattern})?$")] = ""
    """what may fall for a gain: "f1 -0.01 for recall +0.02\""""
    seed: Seed = 0
    """seed of every random choice"""

    def levers(self) -> dict[str, Any]:
        """What can change a prediction or its score: everything but the run's name and the permissions."""
        return {name: value for name, value in self.values().items() if name not in _NO_LEVERS}
