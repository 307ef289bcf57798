from .config import SAMPLE, SPLITS, STUDY, RealTalkConfig
from .study import REALTALK, cases, chats, describe_corpus, evaluate, of_run, predict

__all__ = [
    "REALTALK",
    "SAMPLE",
    "SPLITS",
    "STUDY",
    "RealTalkConfig",
    "cases",
    "chats",
    "describe_corpus",
    "evaluate",
    "of_run",
    "predict",
]
