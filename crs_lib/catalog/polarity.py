"""Which of the titles that a reply names it recommends: comparisons and talk are no advice."""

import re
from collections.abc import Sequence

# Reached on labelled replies: docs/metrics.md. The patterns read lower-case text without quotation marks and
# years, in which every title is a run of X.
_SILENT = re.compile(r"\(\d{4}\)|[\"“”«»*_`]")
# Praise in the form of a negation, which is blanked before anything else is looked for.
_PRAISE = re.compile(
    r"\b(?:(?:can(?:no|')?t|could(?: not|n't)|can not) (?:go wrong|beat|stop|wait|get enough|(?:recommend"
    r"|praise)(?=[^.!?]* (?:enough|highly|more)\b))|(?:do not|don't|never|not to|won't|wouldn't"
    r"|not) (?:[a-z]+ ){0,2}(?:miss|be missed|forget|overlook|hesitate)|(?:will not|won't|wouldn't"
    r"|not) (?:be disappointed|regret|disappoint|mind|let you down|only|just|bad)|is(?: not|n't) bad"
    r"|why (?:not|don't (?:you|we))|no (?:doubt|reason not)|not to mention|never (?:fails|disappoints"
    r"|gets old|bores|skip)|(?:not|[a-z]+n't) (?:skip|avoid)|nothing beats|(?:if you )?(?:have not|haven't"
    r"|never)(?: yet)?(?: seen| watched)|until you(?:'ve| have)|(?:not?|nothing|never"
    r"|[a-z]+n't)(?: [a-z]+){0,3} better(?: [a-z]+)? than)\b"
)
_NOT_ADVISED = re.compile(  # what follows is ruled out, compared with, or what somebody saw, said or asked
    r"\b(?:avoid|skip|pass on|pass over|steer clear of|stay (?:away from|clear of)|keep away from|set aside"
    r"|leave (?:out|aside)|forget(?: about)?|drop|rule out|cross(?:ed)? off|except(?: for)?|apart from"
    r"|(?:instead|in place|in lieu|not a fan) of|rather than|unlike|as opposed to|i doubt|afraid|sorry|(?:not"
    r"|never|[a-z]*n't|cannot|no longer|no need to|hardly) (?:[a-z']+ ){0,3}?(?:recommend\w*|pick|suggest\w*"
    r"|advise|watch|see|choose|select|go (?:for|with)|offer|bother|waste|try|include|want|propose|consider"
    r"|put|play|start|think|believe|like|enjoy|mean|tell|find)|thank(?:s| you) for|that's from|hated|disliked"
    r"|(?:was going to|almost|normally|stopped) (?:suggest\w*|recommend\w*|say)|did you|i (?:suggested"
    r"|recommended|said)|do you (?:know|like|prefer)|information (?:on|about)|similar to"
    r"|plays (?:[a-z]+ ){0,3}in|nothing like|feels like|(?:mix|blend) of|has the [a-z]+ of|(?:who"
    r"|(?<!have )you(?:'ve| have)?) (?:already |also |just )?(?:liked|loved|enjoyed|hated|mentioned|said|told"
    r"|gave|rated|watched|seen|finished))\b|\b(?:not?|never|neither|nor|than|over|save|leave|if you (?:like"
    r"|love|enjoy))\W+(?:(?:the|another|the film|the movie) )?(?:X+\W.*)?$"
)
_LABEL = re.compile(r"\b(?:not [a-z ]{1,30}|seen|know) *: *(?:X+ *(?:, *|and |or ))*$")  # "not a match: X"
# A clause that ends at a comma before another title: "if you liked X, try Y".
_ASIDE = re.compile(r"\b(?:if|since|because|although|while)\b(?:(?! try | watch )[^X])*(?:X+\W.*)?$")
_MAIN = re.compile(r"[^.!?\n]*[,:][^.!?\n]*X")
_TURNS = re.compile(  # here the advice turns round; nor does it reach beyond a title and those joined to it
    r"[.!?;:\n]|(?<![X ']),|\s[–—-]\s|—|\b(?:but|however|though|instead(?! of)|yet)\b|\bi(?:'d| would|'ll"
    r"| will| suggest| recommend)\b|\b(?:and|so) (?:(?:then|just|rather|please|perhaps|maybe|we|i(?:'d"
    r"| would)?|you(?:'d| would| could| should)?) )*(?:try|watch|go|pick|choose|consider|recommend|suggest"
    r"|take|see|prefer|enjoy|have|give|look at)\b|X(?!X|'? *(?:,? *(?:and|or|nor|&|/) *(?:the [a-z]+ of )?'?X"
    r"|(?:, *'?X+'? *){1,9}(?:(?:and|or|nor) '?X|[.!?\n]|$)))"
)
_AGAINST = re.compile(  # said of the title before it, unless it is praised after a "but"
    r"[\s',]*(?:which |that |it |they |and \S+ |really |simply |probably ){0,3}(?![^.!?X]*\bbut (?:it|i"
    r"|you)\b)(?:(?:is|are|was|(?:would|will|should|can|may|might) be|seems?"
    r"|looks?) (?:(?!not)[a-z]+ ){0,2}?(?:out|wrong|avoided|skipped|left|unsuitable|to (?:skip|avoid)|off the"
    r"|a (?:mistake|poor|bad)|the wrong|no (?:good|match|fit|longer))|less so|(?:again)?[?:] *no(?! [a-z])"
    r"|(?:(?:is|are|was|would|wo|will|ca|can|could|should|may|might|does|do|did)(?:n't| not| never"
    r"|not)) (?:[a-z]+ ){0,2}?(?:for|what|as good|a (?:good|great|match|fit)|the (?:one|right|best)|suitable"
    r"|right|recommend\w*|worth|my|your|one|ideal|something|it|fit|match|suit|work|meet|qualify|belong|do"
    r"|please|appropriate|available|among|included)|(?:would|will|might) (?:probably )?(?:disappoint|bore)"
    r"|i'd wait|(?:(?:is|was|(?:would|might) be) (?:a bit |far |just )?)?too (?!good|if|as|and|because|since"
    r"|for)[a-z]+|(?:got|had) (?:[a-z]+ )?(?:terrible|bad|poor)|fails|misses|falls short)\b"
)


def only_named(text: str, spans: Sequence[tuple[int, int]]) -> list[bool]:
    """For each title of a text (half-open ``spans``), whether it is named without being recommended: advised
    against ("avoid X"), compared with ("feels like X") or talked of ("you liked X"); "don't miss X" is
    praise.
    """
    plain = _lower(text).replace("’", "'")
    for start, end in spans:  # a title's own words are no cue
        plain = plain[:start] + "X" * (end - start) + plain[end:]
    for silent in (_SILENT, _PRAISE):
        plain = silent.sub(_blank, plain)
    turns = [0]
    for match in _TURNS.finditer(plain):
        turns.append(match.end())
    verdicts = []
    for start, end in spans:
        turn = max(turn for turn in turns if turn <= start)
        verdicts.append(_is_only_named(plain, turn, start, end))
    return verdicts


def _lower(text: str) -> str:
    """The text in small letters; a letter that would become two stays, so that places stay."""
    return "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _is_only_named(plain: str, turn: int, start: int, end: int) -> bool:
    before = plain[turn:start]
    if _ASIDE.search(before) and _MAIN.match(plain, end):
        return True
    return bool(_NOT_ADVISED.search(before) or _LABEL.search(plain, 0, start) or _AGAINST.match(plain, end))
