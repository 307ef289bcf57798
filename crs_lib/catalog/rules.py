"""Spellings found in text, and the declared rules for everyday words: when "war" or "Sting" counts as found.

A rule looks at the original text around a match and gives a reason to reject it, or an empty text.
"""

import re
from collections import Counter
from collections.abc import Callable, Container, Sequence
from functools import cached_property

from crs_lib.catalog import lexicon
from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.core.text import fold, spans, words

_OPEN = "\"'“‘«*_`[("
_CLOSE = "\"'”’»*_`])"
_YEAR_AFTER = re.compile(r"[\"'”’»*_`,]*\s*\((\d{4})\b")
_MARKS = frozenset('"“”‘«»*_`')
_SENTENCE_END = ".!?:;\n•–—"
_REACH, _ABOUT_REACH = 2, 8
_ABOUT = frozenset(
    {"about", "plot", "plots", "story", "stories", "theme", "themes", "involving", "concerning"}
)
_WATCHED = frozenset("watch watched watching movie film seen try recommend suggest avoid skip called".split())
_PRONOUNS = frozenset("he her him it me she them they this that up us we what who you".split())
_GENRE_WORDS = {
    form
    for name, aliases in lexicon.GENRES.items()
    for form in map(fold, (name, *aliases))
    if " " not in form
}
# Words that vouch for a weak genre beside them: film words and genres at once, another weak genre only where
# it is vouched for itself: "family history" is no genre, "a war and crime story" is two.
_WEAK_CUES = _GENRE_WORDS & lexicon.WEAK_GENRES
_CUES = (
    lexicon.FILM_WORDS | {"something", "anything", "stuff", "ones", "vibe", "vibes"} | _GENRE_WORDS
) - _WEAK_CUES


FormMatch = tuple[int, int, int]  # a form in a word list: first word, last word + 1, the form's number


class Matcher:
    """Finds forms (folded word sequences) in word lists, overlaps included; a form's number is its place.

    A form is looked up under its rarest word, so that a word of a text costs one dictionary lookup, whatever
    the number of forms; under an everyday word (``everyday``) only where it has no other.
    """

    def __init__(self, forms: Sequence[str], everyday: Container[str] = ()) -> None:
        split = [form.split(" ") for form in dict.fromkeys(forms)]
        frequency = Counter(word for parts in split for word in parts)
        self._anchors: dict[str, tuple[tuple[int, int], ...]] = {}  # word: its place in forms of what length
        self._numbers: dict[tuple[int, str], int] = {}
        for number, parts in enumerate(split):
            offset = min(range(len(parts)), key=lambda i: (parts[i] in everyday, frequency[parts[i]], i))
            place, known = (offset, len(parts)), self._anchors.get(parts[offset], ())
            self._anchors[parts[offset]] = known if place in known else (*known, place)
            self._numbers[offset, " ".join(parts)] = number

    def find(self, tokens: Sequence[str]) -> list[FormMatch]:
        """All forms in a list of folded words."""
        found = []
        for position in [place for place, word in enumerate(tokens) if word in self._anchors]:
            for offset, length in self._anchors[tokens[position]]:
                start, end = position - offset, position - offset + length
                if start >= 0 and end <= len(tokens):
                    number = self._numbers.get((offset, " ".join(tokens[start:end])))
                    if number is not None:
                        found.append((start, end, number))
        return found


class Context:
    """A text with its folded words (``tokens``), and their places, worked out when a rule asks for them."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens = text, words(text)

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The character range of every word."""
        return spans(self.text)

    @cached_property
    def has_marks(self) -> bool:
        """Whether the text has any quotation or emphasis mark."""
        return any(mark in self.text for mark in _MARKS)

    def span(self, first: int, last: int) -> tuple[int, int]:
        """The character range of the words ``first`` to ``last - 1``."""
        return self.spans[first][0], self.spans[last - 1][1]

    def in_marks(self, form: str) -> bool:
        """Whether a form stands between quotation or emphasis marks: the word itself is meant."""
        lower = self.text.lower() if self.has_marks else ""
        place = lower.find(form)
        while place >= 0:
            end = place + len(form)
            if lower[place - 1 : place] in _MARKS and lower[end : end + 1] in _MARKS:
                return True
            place = lower.find(form, end)
        return False

    def has_film_cue(self, first: int, last: int) -> bool:
        """Whether a film word, or a genre that is vouched for, stands at most two words from a run."""
        near = self._near(first, last)
        if not _CUES.isdisjoint([self.tokens[place] for place in near]):
            return True
        weak = [place for place in near if self.tokens[place] in _WEAK_CUES]
        others = (other for place in weak for other in self._near(place, place + 1))
        return any(self.tokens[other] in _CUES for other in others if not first <= other < last)

    def _near(self, first: int, last: int) -> list[int]:
        """The places of the words at most two before and two after a run of words."""
        end = min(len(self.tokens), last + _REACH)
        return [*range(max(0, first - _REACH), first), *range(last, end)]


Rule = Callable[[Context, int, int], str]


def quoted(text: str, start: int, end: int) -> bool:
    """Whether the stretch stands alone between quotation or emphasis marks, or before a "(year)"."""
    before = text[start - 1] if start else ""
    after = text[end] if end < len(text) else ""
    between = bool(before) and before in _OPEN and bool(after) and after in _CLOSE
    # "She's" is no quotation: an apostrophe between two letters opens and closes nothing.
    if between and before in "'’‘" and start > 1 and text[start - 2].isalnum():
        return False
    return between or year_after(text, end) is not None


def year_after(text: str, end: int) -> int | None:
    """The year in brackets right after a stretch ("Alien" (1979)), or None."""
    found = _YEAR_AFTER.match(text, end)
    return int(found.group(1)) if found else None


def starts_sentence(text: str, start: int) -> bool:
    """Whether nothing but marks stands between the stretch and the sentence's beginning."""
    before = text[:start].rstrip(" \t\"'“‘«*_`[(")
    return not before or before[-1] in _SENTENCE_END


def no_rule(near: Context, first: int, last: int) -> str:
    """Accept always."""
    return ""


def capital(near: Context, first: int, last: int) -> str:
    """A one-word name that is also an everyday word: needs a capital inside a sentence, or quotes."""
    text, (start, end) = near.text, near.span(first, last)
    if quoted(text, start, end):
        return ""
    if not text[start].isupper():
        return "everyday word, not capitalised"
    return "everyday word that opens a sentence" if starts_sentence(text, start) else ""


def film_word(near: Context, first: int, last: int) -> str:
    """A genre that is also an everyday noun: needs a film word or another genre within two words."""
    if near.has_film_cue(first, last) or near.in_marks(" ".join(near.tokens[first:last])):
        return ""
    return "everyday word without a film word beside it"


def capital_or_film_word(near: Context, first: int, last: int) -> str:
    """A name that is also an everyday word ("polish"): needs a capital or a film word."""
    if near.text[near.span(first, last)[0]].isupper():
        return ""
    return film_word(near, first, last)


def title_rule(title: str, everyday: frozenset[str]) -> Rule:
    """The rule of a title: one word or everyday words only need quotes, a year, or the title's capitals.

    In another case they count behind a word such as "watch" ("watch heat"), but for short and function words
    ("watch her"), and a word that is no everyday word counts in capitals.
    """
    parts = fold(title).split()
    rare = any(part not in everyday and not part.isdigit() and len(part) > 1 for part in parts)
    if rare and len(parts) > 1:
        return no_rule
    telling = all(len(part) > 3 and part.isalpha() and part not in lexicon.PLOT_STOP_WORDS for part in parts)
    capitals = [part[0].isupper() for part in re.findall(r"\w+", title)]
    one_word = len(parts) == 1

    def rule(near: Context, first: int, last: int) -> str:
        text, (start, end) = near.text, near.span(first, last)
        if quoted(text, start, end):
            return ""
        if one_word and (parts[0].isdigit() or len(parts[0]) == 1):
            return "number or letter without quotes or year"
        named = first and telling and near.tokens[first - 1] in _WATCHED
        if named or (rare and text[start:end].isupper()):
            return ""
        seen = [text[begin].isupper() for begin, _ in near.spans[first:last]]
        wanted = capitals if len(capitals) == len(seen) else [True, *seen[1:]]
        if seen != wanted or not any(seen):
            return "everyday words, not written as the title"
        if title.isupper() and len(title) > 1 and text[start:end] != title:
            return "everyday words, not written as the title"
        if text[start:end].isupper() and not title.isupper():
            return "everyday words, all in capitals"
        if one_word and starts_sentence(text, start) and parts[0] in everyday:
            return "everyday word that opens a sentence"
        return ""

    return rule


def about(near: Context, first: int, last: int) -> str:
    """An everyday word that plots are about: needs a word such as "about" before it in the sentence."""
    start = near.span(first, last)[0]
    for place in range(first - 1, max(-1, first - _ABOUT_REACH - 1), -1):
        if any(mark in _SENTENCE_END for mark in near.text[near.spans[place][1] : start]):
            break
        if near.tokens[place] in _ABOUT:
            return ""
    return "everyday word without a word such as 'about' before it"


# The matching rules that a field's row may name (``Field.rule``): each gives the rule of a value's form.
FIELD_RULES: dict[str, Callable[[str, frozenset[str]], Rule]] = {
    "plain": lambda form, everyday: no_rule,
    "genre": lambda form, everyday: film_word if form in lexicon.WEAK_GENRES else no_rule,
    "name": lambda form, everyday: capital_or_film_word if form in lexicon.COMMON_WORDS else no_rule,
    "person": lambda form, everyday: (
        capital if " " not in form and (form in everyday or len(form) <= 4) else no_rule
    ),
    "plot": lambda form, everyday: no_rule if " " in form and form not in lexicon.COMMON_WORDS else about,
}


def value_rule(field_rule: str, form: str, everyday: frozenset[str]) -> Rule:
    """The rule of a value's form, from the rule that the field names; InputError for an unknown name."""
    if field_rule not in FIELD_RULES:
        raise InputError(
            f"unknown matching rule {field_rule!r}{did_you_mean(field_rule, FIELD_RULES)} "
            f"(known: {', '.join(FIELD_RULES)})"
        )
    return FIELD_RULES[field_rule](form, everyday)


# ── polarity ─────────────────────────────────────────────────────────────────────────────────────
# Praise in the form of a negation, which is blanked before anything else is looked for.
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


def advised_against(text: str, spans: Sequence[tuple[int, int]]) -> list[bool]:
    """For each title of a text, whether the text advises against it ("avoid X", "Y instead of X").

    ``spans`` are the titles' half-open character ranges. Rules over words, clause by clause; praise that is
    worded as a negation ("don't miss X") is praise. What they reach on labelled sentences: docs/metrics.md.
    """
    plain = "".join(c.lower() if len(c.lower()) == 1 else c for c in text).replace("’", "'")
    for start, end in spans:  # a title's own words are no cue
        plain = plain[:start] + "x" * (end - start) + plain[end:]
    plain = _PRAISE.sub(lambda match: " " * len(match[0]), plain)
    return [_is_advised_against(plain, start, end) for start, end in spans]


def _is_advised_against(plain: str, start: int, end: int) -> bool:
    before = plain[max((m.end() for m in _TURNS.finditer(plain, 0, start)), default=0) : start]
    in_place = [m.end() for m in _IN_PLACE.finditer(before)]
    if in_place and "," not in before[in_place[-1] :]:
        return True
    return bool(_RULED_OUT.search(before) or _AGAINST.match(plain[end:]))
