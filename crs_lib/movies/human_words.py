"""How a person and a system speak in a turn: cues by word lists, for the learned head only."""

import re

from crs_lib.core.text import fold, words

_REQUESTS = re.compile(
    r"\b(recommend|recommendations?|suggest|suggestions?|looking for|find|give me|show me|want|another|more"
    r"|other)\b"
)
_REJECTS = re.compile(
    r"\b(seen|watched|saw|already|don t like|not interested|didn t like|hate|another|other|different|else"
    r"|boring|wrong)\b"
)
_ACCEPTS = re.compile(r"\b(thanks?|thank you|great|ok|okay|yes|sure|good|perfect|bye)\b")
_HEDGES = re.compile(r"\b(haven t|not sure|don t|can t|never|no)\b")
_LISTED = re.compile(r"(?:^|\s)\d{1,2}[.:)]?\s")


def cues(user: str, reply: str) -> dict[str, float]:
    """Cues of one turn, each a flag or a count: what the person does, and how the reply is worded."""
    said, answered = fold(user), fold(reply)
    mine, theirs = words(reply), set(words(user))
    return {
        "requests": float(bool(_REQUESTS.search(said))),
        "rejects": float(bool(_REJECTS.search(said))),
        "accepts": float(bool(_ACCEPTS.search(said))),
        "user_asks": float("?" in user),
        "shared_words": len(set(mine) & theirs) / max(1, len(set(mine))),
        "hedges": float(bool(_HEDGES.search(answered))),
        "first_person": float(answered.startswith("i ")),
        "whole_sentence": float(reply.strip()[-1:] in tuple(".!?")),
        "repeated_words": float(len(mine) - len(set(mine))),
        "listed": float(len(_LISTED.findall(reply))),
    }
