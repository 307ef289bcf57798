"""Titles as replies write them, those outside the catalogue included, and the films that a system names."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from crs_lib.catalog import lexicon, spelling
from crs_lib.catalog.catalog import Catalog
from crs_lib.core.text import fold, shorten

_MARKED = re.compile(
    r"“([^“”\n]{1,120})”|\"([^\"\n]{1,120})\"|«([^«»\n]{1,120})»|‘([^‘’\n]{1,120})’(?!\w)"
    r"|\*{1,3}([^*\n]{1,120})\*{1,3}|(?<!\w)_{1,2}([^_\n]{1,120})_{1,2}(?!\w)"
)
_YEAR = re.compile(r"(?<!\s)\s*[(\[](?:18|19|20)\d\d[)\]]")
_LAST_YEAR = re.compile(r"(?<!\s)\s*[(\[](\d{4})[)\]]\s*$")
_SMALL = "of|the|and|a|an|in|on|at|to|for|from|with|by|or|as|de|la|le|les|du|des|el|los|y|und|der|die|das|di"
_WORD = r"[A-Z0-9À-ÖØ-Þ][\w'’.&:!?-]{0,40}(?:,(?!\s{1,3}(?:and|or)\b))?"
_BEFORE_YEAR = re.compile(
    rf"(?<!\w)({_WORD}(?:\s{{1,3}}(?:{_WORD}|(?:{_SMALL})\b|[&–-])){{0,11}})\s{{0,3}}[(\[](?:18|19|20)\d\d[)\]]"
)
_OPENERS = frozenset(
    "also and but check consider enjoy finally how if is like maybe next now or perhaps recommend see so "
    "suggest take then these this those try watch what while yes".split()
)
_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]+[\"”’»*_)]*(?=\s)|\n")
_LONGEST = 12  # words; a longer stretch is a sentence

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
    r"|love|enjoy))\W+(?:(?:the|another|the film|the movie) )?(?:X+\W.{0,2000})?$"
)
_LABEL = re.compile(
    r"\b(?:not [a-z ]{1,30}|seen|know) {0,3}: {0,3}(?:X+ {0,3}(?:, {0,3}|and |or ))*$"
)  # "not a match: X"
# A clause that ends at a comma before another title: "if you liked X, try Y".
_ASIDE = re.compile(
    r"\b(?:if|since|because|although|while)\b(?:(?! try | watch )[^X]){0,300}(?:X+\W.{0,2000})?$"
)
_MAIN = re.compile(r"[^.!?\n,:]*[,:][^.!?\nX]*X")
_TURNS = re.compile(  # here the advice turns round; nor does it reach beyond a title and those joined to it
    r"[.!?;:\n]|(?<![X ']),|\s[–—-]\s|—|\b(?:but|however|though|instead(?! of)|yet)\b|\bi(?:'d| would|'ll"
    r"| will| suggest| recommend)\b|\b(?:and|so) (?:(?:then|just|rather|please|perhaps|maybe|we|i(?:'d"
    r"| would)?|you(?:'d| would| could| should)?) )*(?:try|watch|go|pick|choose|consider|recommend|suggest"
    r"|take|see|prefer|enjoy|have|give|look at)\b|X(?!X|'? {0,3}(?:,? {0,3}(?:and|or|nor|&|/)"
    r" {0,3}(?:the [a-z]+ of )?'?X"
    r"|(?:, {0,3}'?X{1,300}'? {0,3}){1,9}(?:(?:and|or|nor) '?X|[.!?\n]|$)))"
)
_AGAINST = re.compile(  # said of the title before it, unless it is praised after a "but"
    r"[\s',]{0,5}(?:which |that |it |they |and \S+ |really |simply |probably ){0,3}(?![^.!?X]*\bbut (?:it|i"
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


class Foreign(NamedTuple):
    """A title outside the catalogue, as a half-open character range and as it is written."""

    start: int
    end: int
    title: str

    def overlaps(self, other: "Foreign") -> bool:
        """Whether the two share a character."""
        return other.start < self.end and self.start < other.end


def marked_or_dated(text: str) -> list[Foreign]:
    """Stretches that are written like a title: those between marks first, then those before a year."""
    return _marked(text) + _before_year(text)


def _marked(text: str) -> list[Foreign]:
    """Stretches between quotation or emphasis marks that are written like a title."""
    stretches = []
    for match in _MARKED.finditer(text):
        group = match.lastindex or 1
        blank = _YEAR.sub(lambda year: " " * len(year[0]), match[group])  # places stay as they are
        inner = blank.strip(" ,.;:")
        if _is_written_as_title(inner):
            start = match.start(group) + blank.index(inner)
            end = start + len(inner)
            stretches.append(Foreign(start, end, text[start:end]))
    return stretches


def _is_written_as_title(stretch: str) -> bool:
    """Whether a stretch begins like a title and is neither a sentence (one capital) nor an everyday word."""
    words = stretch.split()
    if not words or len(words) > _LONGEST:
        return False
    if not (stretch[0].isupper() or stretch[0].isdigit()):
        return False
    if len(words) == 1:
        return not all(lexicon.is_common(word) for word in fold(stretch).split())
    return len(words) == 2 or sum(word[0].isupper() for word in words) >= 2


def _before_year(text: str) -> list[Foreign]:
    """Runs of capitalised words right before a year in brackets, without the words that lead up to them."""
    stretches = []
    for match in _BEFORE_YEAR.finditer(text):
        run = match[1].rstrip(" ,")
        end = match.start(1) + len(run)
        while " " in run and run.split()[0].lower().strip(",") in _OPENERS:
            run = run.split(maxsplit=1)[1]
        stretches.append(Foreign(end - len(run), end, run))
    return stretches


def films_named(catalog: Catalog, names: Sequence[str]) -> tuple[tuple[int, ...], list[str]]:
    """The films that ids and titles name (a year in brackets decides), and the names not in the catalogue."""
    items: dict[int, None] = {}
    unknown: list[str] = []
    for name in names:
        item = catalog.id_index.get(name.strip())
        if item is None:
            item = film_titled(catalog, name)
        if item is None:
            unknown.append(shorten(" ".join(name.split()), 200))
        else:
            items[item] = None
    return tuple(items), unknown


def film_titled(catalog: Catalog, name: str) -> int | None:
    """The film of a title as lists write it (a year in brackets decides); None for a title of none, and where
    every film of the title is of a year more than one away: release years vary by one.
    """
    index = catalog.title_index
    title = spelling.parse(name)
    namesakes: tuple[int, ...] = index.get(fold(name), ())
    is_whole = bool(namesakes)  # a year in brackets is the title's own
    for text in (title.text, *title.also):
        namesakes = namesakes or index.get(fold(text), ())
    if not namesakes or not title.year:
        return namesakes[0] if namesakes else None
    year = int(title.year)
    nearest = min(namesakes, key=lambda namesake: abs((catalog.items[namesake].year or year + 1) - year))
    if is_whole or abs((catalog.items[nearest].year or year) - year) <= 1:
        return nearest
    return None


def without_year(title: str) -> str:
    """A title without the year in brackets at its end."""
    return _LAST_YEAR.sub("", title)


def cut(text: str, foreign: Sequence[Foreign]) -> str:
    """The text without the sentences that name one of these titles; empty where nothing is left."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    sentences = []
    start = 0
    for end in [*ends, len(text)]:
        sentence = Foreign(start, end, text[start:end])
        if not any(sentence.overlaps(title) for title in foreign):
            sentences.append(sentence.title)
        start = max(start, end)
    return " ".join("".join(sentences).split())


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
