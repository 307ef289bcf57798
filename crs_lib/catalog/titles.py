"""Titles in text: those of the catalogue by their words, others by how titles are written; their polarity.

A stretch counts as a title that the catalogue lacks when it is written like one and stands in quotation or
emphasis marks, or right before a year in brackets. A bare name in running text is not found, so counts are
lower bounds.
"""

import re
from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from crs_lib.catalog import lexicon, rules
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.rules import Context, Matcher
from crs_lib.core.text import fold, shorten

_MARKED = re.compile(
    r"“([^“”\n]{1,120})”|\"([^\"\n]{1,120})\"|«([^«»\n]{1,120})»|‘([^‘’\n]{1,120})’(?!\w)"
    r"|\*{1,3}([^*\n]{1,120})\*{1,3}|(?<!\w)_{1,2}([^_\n]{1,120})_{1,2}(?!\w)"
)
_YEAR = re.compile(r"\s*[(\[](?:18|19|20)\d\d[)\]]")
_LAST_YEAR = re.compile(r"\s*[(\[](\d{4})[)\]]\s*$")
_SMALL = "of|the|and|a|an|in|on|at|to|for|from|with|by|or|as|de|la|le|les|du|des|el|los|y|und|der|die|das|di"
_WORD = r"[A-Z0-9À-ÖØ-Þ][\w'’.&:!?-]{0,40}(?:,(?!\s{1,3}(?:and|or)\b))?"
_BEFORE_YEAR = re.compile(
    rf"(?<!\w)({_WORD}(?:\s{{1,3}}(?:{_WORD}|(?:{_SMALL})\b|[&–-])){{0,11}})\s{{0,3}}[(\[](?:18|19|20)\d\d[)\]]"
)
_OPENERS = frozenset(
    "also and but check consider enjoy finally how if is like maybe next now or perhaps recommend see so "
    "suggest take then these this those try watch what while yes".split()
)
_LONGEST = 12  # words; a longer stretch is a sentence
# Polarity. Praise in the form of a negation, which is blanked before anything else is looked for.
_PRAISE = re.compile(
    r"\b(?:(?:can(?:no|')?t|could(?: not|n't)|can not) (?:go wrong|recommend|praise|beat|stop|wait"
    r"|get enough)"
    r"|(?:do not|don't|never|not to|wouldn't|not) (?:\w+ )?(?:miss|be missed|forget|overlook|hesitate)"
    r"|(?:will not|won't|wouldn't|not) (?:be disappointed|regret|disappoint|mind|let you down|only|just"
    r"|bad)"
    r"|is(?: not|n't) bad|why not|no doubt|not to mention|never (?:fails|disappoints|gets old|bores)"
    r"|if you (?:have not|haven't|never)(?: yet)?(?: seen| watched)?|(?:have not"
    r"|haven't) (?:yet )?(?:seen|watched)"
    r"|nothing beats|no better \w+ than|not avoid|never skip)\b"
)
_RULED_OUT = re.compile(  # what follows is advised against, up to the clause's end
    r"\b(?:avoid|skip|pass on|pass over|steer clear of|stay (?:away from|clear of)|keep away from"
    r"|leave (?:out|aside)"
    r"|forget(?: about)?|drop|rule out|set aside|except(?: for)?|apart from|nothing like|not a fan of"
    r"|(?:not|never|\w*n't|cannot|no longer|no need to|hardly) (?:\w+ ){0,3}?(?:recommend\w*|suggest\w*"
    r"|advise|watch|see"
    r"|pick|choose|select|go (?:for|with)|offer|bother|waste|try|include|want|propose|consider|put|play"
    r"|start|think|believe))\b"
    r"|\b(?:not|never|neither|nor)\W+(?:the |another |the film |the movie )?$"
)
_IN_PLACE = re.compile(  # what follows is what another film is preferred to, up to the next comma
    r"\b(?:instead of|rather than|in place of|unlike|as opposed to|in lieu of|(?:better|safer|other"
    r"|sooner) than|over)\b"
)
_TURNS = re.compile(  # and here the advice turns round
    r"[.!?;:\n]|\s[–—-]\s|—|\b(?:but|however|though|instead(?! of)|yet)\b"
    r"|\bi(?:'d| would|'ll| will| suggest| recommend)\b"
    r"|(?:,|\band|\bso) (?:(?:and|so|then|just|rather|please|perhaps|maybe|i(?:'d| would)?|you(?:'d"
    r"| would| could| should)?|we) )*"
    r"(?:try|watch|go for|go with|pick|choose|consider|recommend|suggest|take|see|prefer|enjoy|have|give"
    r"|look at)\b"
)
_AGAINST = re.compile(  # said of the title before it
    r"^[\"'”’»*_)\s]*(?:\(\d{4}\))?[\"'”’»*_\s,]*(?:which |that |it |they |and \S+ |really |simply "
    r"|probably |, ){0,3}"
    r"(?:(?:is|are|was|would be|will be|should be|can be|may be|might be|seems?|looks?) (?:\w+ ){0,2}?"
    r"(?:out|wrong|avoided|skipped|left|unsuitable|to (?:skip|avoid)|a (?:mistake|poor|bad)|off the"
    r"|the wrong|no (?:good|match|fit|longer))"
    r"|(?:(?:is|are|was|would|wo|will|ca|can|could|should|may|might|does|do|did)(?:n't| not| never"
    r"|not)) (?:\w+ ){0,2}?"
    r"(?:for|what|a (?:good|great|match|fit)|the (?:one|right|best)|suitable|right|recommend\w*|worth|my"
    r"|one|ideal|an option|something|it"
    r"|fit|match|suit|work|meet|qualify|belong|do|please|appropriate|available|among|included)|fails"
    r"|misses|falls short)\b"
)
_LOOKED_AT = 50_000  # characters of a reply


class Mention(NamedTuple):
    """A title found in a text: half-open character range, the item, and how many items bear the title."""

    start: int
    end: int
    item: int
    n_same_title: int


class Titles:
    """Finds a catalogue's titles in text; those of ``everyday`` words count under ``rules.title_rule``."""

    def __init__(self, catalog: Catalog, everyday: frozenset[str]) -> None:
        self.catalog = catalog
        forms = list(catalog.title_index)
        self._items = [catalog.title_index[form] for form in forms]
        titles = (catalog.items[found[0]].title for found in self._items)
        self._rules = [rules.title_rule(title, everyday) for title in titles]
        self._matcher = Matcher(forms, everyday)

    def find(self, text: str, prefer: Iterable[int] = ()) -> list[Mention]:
        """The titles that a text names, in text order; of two that overlap the longer.

        Among films of one title the year in brackets after it decides, then ``prefer`` (the candidates
        that a system was given), then the order of the catalogue.
        """
        near = Context(text)
        hits = [
            (start - end, start, end, form)
            for start, end, form in self._matcher.find(near.tokens)
            if not self._rules[form](near, start, end)
        ]
        wanted, taken, found = frozenset(prefer), [False] * len(near.tokens), []
        for _, start, end, form in sorted(hits):
            if any(taken[start:end]):
                continue
            taken[start:end] = [True] * (end - start)
            begin, stop = near.span(start, end)
            item = self._resolve(self._items[form], rules.year_after(text, stop), wanted)
            found.append(Mention(begin, stop, item, len(self._items[form])))
        return sorted(found)

    def _resolve(self, same: Sequence[int], year: int | None, wanted: Set[int]) -> int:
        by_year = [i for i in same if year is not None and self.catalog.items[i].year == year]
        preferred = [i for i in same if i in wanted]
        return (by_year or preferred or list(same))[0]


def recommended(text: str, mentions: Iterable[Mention]) -> list[Mention]:
    """The mentions that a text does not advise against ("avoid X", "Y instead of X", "X is not for you").

    Rules over words, clause by clause; praise that is worded as a negation ("don't miss X") counts as praise.
    What they reach on labelled sentences stands in docs/metrics.md.
    """
    plain = text.lower().replace("’", "'")
    if len(plain) != len(text):  # a letter that changes length in lower case: places would be off
        plain = "".join(c.lower() if len(c.lower()) == 1 else c for c in text).replace("’", "'")
    found = list(mentions)
    for one in found:  # a title's own words are no cue
        plain = plain[: one.start] + "x" * (one.end - one.start) + plain[one.end :]
    plain = _PRAISE.sub(lambda match: " " * len(match[0]), plain)
    return [one for one in found if not _advised_against(plain, one)]


def _advised_against(plain: str, one: Mention) -> bool:
    before = plain[max((m.end() for m in _TURNS.finditer(plain, 0, one.start)), default=0) : one.start]
    after = plain[one.end :]
    in_place = [m.end() for m in _IN_PLACE.finditer(before)]
    if in_place and "," not in before[in_place[-1] :]:
        return True
    return bool(_RULED_OUT.search(before) or _AGAINST.match(after))


class Foreign(NamedTuple):
    """A title outside the catalogue, as a half-open character range and as it is written."""

    start: int
    end: int
    title: str


def written_as_titles(text: str) -> list[Foreign]:
    """The stretches of a text's first 50,000 characters that are written like titles; some may overlap."""
    text = text[:_LOOKED_AT]
    return [*_marked(text), *_before_year(text)]


def _marked(text: str) -> list[Foreign]:
    """Stretches between quotation or emphasis marks that are written like a title."""
    out = []
    for match in _MARKED.finditer(text):
        group = match.lastindex or 1
        inner = _YEAR.sub("", match[group]).strip(" ,.;:")
        words = inner.split()
        if not words or len(words) > _LONGEST or not (inner[0].isupper() or inner[0].isdigit()):
            continue
        if len(words) > 2 and sum(word[0].isupper() for word in words) < 2:
            continue  # a quoted sentence has one capital
        if len(words) == 1 and all(word in lexicon.COMMON_WORDS for word in fold(inner).split()):
            continue
        start = match.start(group) + match[group].index(inner)
        out.append(Foreign(start, start + len(inner), inner))
    return out


def _before_year(text: str) -> list[Foreign]:
    """Runs of capitalised words right before a year in brackets, without the words that lead up to them."""
    out = []
    for match in _BEFORE_YEAR.finditer(text):
        run = match[1].rstrip(" ,")
        end = match.start(1) + len(run)
        while " " in run and run.split()[0].lower().strip(",") in _OPENERS:
            run = run.split(maxsplit=1)[1]
        out.append(Foreign(end - len(run), end, run))
    return out


def films_named(catalog: Catalog, names: Sequence[str]) -> tuple[tuple[int, ...], list[str]]:
    """The films that ids and titles name, each once, and the names that the catalogue lacks.

    Among films of one title a year in brackets decides, then the order of the catalogue.
    """
    items: dict[int, None] = {}
    unknown: list[str] = []
    for name in names:
        item = catalog.id_index.get(name.strip())
        item = _by_title(catalog, name) if item is None else item
        if item is None:
            unknown.append(shorten(" ".join(name.split()), 200))
        else:
            items[item] = None
    return tuple(items), unknown


def _by_title(catalog: Catalog, title: str) -> int | None:
    index = catalog.title_index
    same = index.get(fold(title)) or index.get(fold(without_year(title)), ())
    year = _LAST_YEAR.search(title)
    of_year = (item for item in same if year and catalog.items[item].year == int(year[1]))
    return next(of_year, same[0] if same else None)


def without_year(title: str) -> str:
    """A title without the year in brackets at its end."""
    return _LAST_YEAR.sub("", title)


def cut(text: str, foreign: Sequence[Foreign]) -> str:
    """The text without the sentences that name one of these titles; empty where nothing is left."""
    kept, position = [], 0
    for end in [*(m.end() for m in re.finditer(r"[.!?…]+[\"”’»*_)]*(?=\s)|\n", text)), len(text)]:
        if not any(one.start < end and position < one.end for one in foreign):
            kept.append(text[position:end])
        position = max(position, end)
    return " ".join("".join(kept).split())
