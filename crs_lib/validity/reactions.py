"""How people take a reply, read from the cues of acceptance and rejection in what they say next.

Source: docs/validity.md, section 4. Words inside film titles do not count, nor do films that a person has not
seen: "no, I have never seen it" turns nothing down.
"""

import math
import re
from collections.abc import Sequence

from crs_lib.core.text import fold

_UNSEEN = re.compile(
    r"\b(no |nope |nah )?(\w+ ){0,3}?(haven t|havent|have not|never|didn t|hadn t|not) (\w+ ){0,2}?"
    r"(seen|heard|watched|see|watch)\b"
)
_REJECTS = re.compile(
    r"\b((don t|dont|do not|didn t|didnt|did not|doesn t|does not|wasn t|weren t|isn t|isnt|aren t|arent|not"
    r"|never) (\w+ ){0,3}?(like|liked|love|enjoy|enjoyed|care|want|wanted|into|interested|interest|fan|what"
    r"|good|right|helpful|suitable|great|impressed|answer\w*|sound|my|a|an|for|the|really|work|help)"
    r"|hate|hated|dislike|disliked|boring|wrong|bad|terrible|awful|poor|worse|worst|lame|stupid|useless"
    r"|horrible|ridiculous|disappoint\w+|too \w+|nah|nope|instead|no"
    r"|what does that|that s not|thats not|not what|not helpful|i (just |already )?(asked|said|meant|told)"
    r"|already (said|told|asked)|why (did|are|do|would) you|kidding|w?tf)\b"
)
_ACCEPTS = re.compile(
    r"\b(thanks?|thank you|great|awesome|perfect|loved?|nice|cool|interesting|enjoy|enjoyed|liked|wow"
    r"|excellent|favou?rites?|amazing|sounds? (good|great|fun|interesting|like a)"
    r"|good (one|choice|idea|suggestions?|pick)|check (it|that|them|those) out"
    r"|(ill|i ll|i will|will|gonna|going to) (\w+ )?(watch|check|try|give|look|add|see|rent))\b"
)


def reaction(text: str, titles: Sequence[tuple[int, int]] = ()) -> float:
    """Share of acceptance among the cues of what a person says after a reply, in [0, 1]; NaN without a cue.

    ``titles`` are the character ranges of film titles, which are passed over.
    """
    for start, end in sorted(titles, reverse=True):
        text = f"{text[:start]} {text[end:]}"
    said = _UNSEEN.sub(" ", fold(text))
    rejects = len(_REJECTS.findall(said))
    accepts = len(_ACCEPTS.findall(_REJECTS.sub(" # ", said)))
    return accepts / (accepts + rejects) if accepts or rejects else math.nan
