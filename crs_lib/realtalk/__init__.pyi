from .arcs import check
from .config import SAMPLE, SPLITS, STUDY, RealTalkConfig
from .stages import cases, chats, describe_corpus, evaluate, of_run, predict

__all__ = [
    "SAMPLE",
    "SPLITS",
    "STUDY",
    "RealTalkConfig",
    "cases",
    "chats",
    "check",
    "describe_corpus",
    "evaluate",
    "of_run",
    "predict",
]
