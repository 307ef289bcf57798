from .config import RealTalkConfig
from .study import REALTALK, cases, chats, describe_corpus, evaluate, of_run, predict

__all__ = ["REALTALK", "RealTalkConfig", "cases", "chats", "describe_corpus", "evaluate", "of_run", "predict"]
