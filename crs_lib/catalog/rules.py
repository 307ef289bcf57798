"""Spellings found in text, and the declared rules for everyday words: when "war" or "Sting" counts as found.

A rule looks at the original text around a match and gives a reason to reject it, or an empty text.
"""

import re
from collections import Counter
from collections.abc import Callable, Container, Sequence
from functools import cache, cached_property

from crs_lib.catalog import lexicon
from crs_lib.core.errors import unknown
from crs_lib.core.text import fold, spans, words

_OPEN = "\"'“‘«*_`[("
_CLOSE = "\"'”’»*_`])"
_YEAR_AFTER = re.compile(r"[\"'”’»*_`,]*\s*\((\d{4})\b")
_MARKS = frozenset('"“”‘«»*_`')
_SENTENCE_END = ".!?:;\n•–—"
_REACH, _ABOUT_REACH = 2, 8
_ABOUT = frozenset("about plot plots story stories theme themes involving concerning".split())
_WATCHED = frozenset("watch watched watching movie film seen try recommend suggest avoid skip called".split())
_GENRE_FORMS = (fold(form) for name, aliases in lexicon.GENRES.items() for form in (name, *aliases))
_GENRE_WORDS = {form for form in _GENRE_FORMS if " " not in form}
# Words that vouch for a weak genre beside them: film words and genres at once, another weak genre only where
# it is vouched for itself: "family history" is no genre, "a war and crime story" is two.
_LOOSE = frozenset("something anything stuff ones vibe vibes".split())


@cache
def film_cues() -> frozenset[str]:
    """The words that vouch for a weak genre beside them, weak genres themselves left out."""
    return (lexicon.words("film words") | _LOOSE | _GENRE_WORDS) - lexicon.weak_genres()


_Places = tuple[tuple[int, int], ...]
FormMatch = tuple[int, int, int]  # a form in a word list: first word, last word + 1, the form's number


class Matcher:
    """Finds forms (folded word sequences, each once) in word lists, overlaps included, by number. A form is
    looked up under its rarest word, under an everyday one (``everyday``) only if it has no other.
    """

    def __init__(self, forms: Sequence[str], everyday: Container[str] = ()) -> None:
        frequency = Counter(word for form in forms for word in form.split(" "))  # split twice: 0.2 GB less
        self._anchors: dict[str, _Places] = {}  # word: its place in forms of what length
        self._numbers: dict[int, dict[str, int]] = {}  # by that place
        shared: dict[_Places, _Places] = {}  # most words of a million titles have the same places
        for number, form in enumerate(forms):
            parts = form.split(" ")
            offset = min(range(len(parts)), key=lambda i: (parts[i] in everyday, frequency[parts[i]], i))
            places = tuple(dict.fromkeys((*self._anchors.get(parts[offset], ()), (offset, len(parts)))))
            self._anchors[parts[offset]] = shared.setdefault(places, places)
            self._numbers.setdefault(offset, {})[form] = number

    def find(self, tokens: Sequence[str]) -> list[FormMatch]:
        """All forms in a list of folded words."""
        found = []
        for position in [place for place, word in enumerate(tokens) if word in self._anchors]:
            for offset, length in self._anchors[tokens[position]]:
                start, end = position - offset, position - offset + length
                form = " ".join(tokens[start:end])
                if start >= 0 and end <= len(tokens) and form in self._numbers[offset]:
                    found.append((start, end, self._numbers[offset][form]))
        return found


class Context:
    """A text with its folded words (``tokens``), and their places, worked out when a rule asks for them.
    ``cues`` are the words that vouch for a weak genre: those of films, and "books" where the items are books.
    """

    def __init__(self, text: str, cues: frozenset[str] | None = None) -> None:
        self.text, self.tokens, self.cues = text, words(text), film_cues() if cues is None else cues

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
        places = (found.span() for found in re.finditer(re.escape(form), lower))
        return any(lower[a - 1 : a] in _MARKS and lower[b : b + 1] in _MARKS for a, b in places)

    def has_film_cue(self, first: int, last: int) -> bool:
        """Whether a film word, or a genre that is vouched for, stands at most two words from a run."""
        near = self._near(first, last)
        if not self.cues.isdisjoint([self.tokens[place] for place in near]):
            return True
        weak = [place for place in near if self.tokens[place] in _GENRE_WORDS]
        others = (other for place in weak for other in self._near(place, place + 1))
        return any(self.tokens[other] in self.cues for other in others if not first <= other < last)

    def _near(self, first: int, last: int) -> list[int]:
        """The places of the words at most two before and two after a run of words."""
        end = min(len(self.tokens), last + _REACH)
        return [*range(max(0, first - _REACH), first), *range(last, end)]


Rule = Callable[[Context, int, int], str]


def _quoted(text: str, start: int, end: int) -> bool:
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


def _starts_sentence(text: str, start: int) -> bool:
    """Whether nothing but marks stands between the stretch and the sentence's beginning."""
    before = text[:start].rstrip(" \t\"'“‘«*_`[(")
    return not before or before[-1] in _SENTENCE_END


def no_rule(near: Context, first: int, last: int) -> str:
    """Accept always."""
    return ""


def _capital(near: Context, first: int, last: int) -> str:
    """A one-word name that is also an everyday word: needs a capital inside a sentence, or quotes."""
    text, (start, end) = near.text, near.span(first, last)
    letter = text[start]
    no_case = letter.isalpha() and not letter.isupper() and not letter.islower()  # as Chinese
    if no_case or _quoted(text, start, end):
        return ""
    if not letter.isupper():
        return "everyday word, not capitalised"
    return "everyday word that opens a sentence" if _starts_sentence(text, start) else ""


def _film_word(near: Context, first: int, last: int) -> str:
    """A genre that is also an everyday noun: needs a film word or another genre within two words."""
    if near.has_film_cue(first, last) or near.in_marks(" ".join(near.tokens[first:last])):
        return ""
    return "everyday word without a film word beside it"


def _capital_or_film_word(near: Context, first: int, last: int) -> str:
    """A name that is also an everyday word ("polish"): needs a capital or a film word."""
    if near.text[near.span(first, last)[0]].isupper():
        return ""
    return _film_word(near, first, last)


def title_rule(title: str, everyday: frozenset[str]) -> Rule:
    """The rule of a title: one word or everyday words only need quotes, a year, or the title's capitals.
    Otherwise they count behind a word such as "watch" ("watch heat", not "watch her"), rare words in
    capitals, and in a text of one case alone rare words and titles of four words or more.
    """
    parts = fold(title).split()
    rare = any(part not in everyday and not part.isdigit() and len(part) > 1 for part in parts)
    if rare and len(parts) > 1:
        return no_rule
    empty = lexicon.words("no plot words")
    telling = all(len(part) > 3 and part.isalpha() and part not in empty for part in parts)
    capitals = [part[0].isupper() for part in re.findall(r"\w+", title)]
    one_word = len(parts) == 1

    def rule(near: Context, first: int, last: int) -> str:
        text, (start, end) = near.text, near.span(first, last)
        if _quoted(text, start, end):
            return ""
        if one_word and (parts[0].isdigit() or len(parts[0]) == 1):
            return "number or letter without quotes or year"
        named = first and telling and near.tokens[first - 1] in _WATCHED
        one_case = (text.islower() or text.isupper()) and (len(parts) > 3 or (rare and telling))
        if named or one_case or (rare and text[start:end].isupper()):
            return ""
        seen = [text[begin].isupper() for begin, _ in near.spans[first:last]]
        wanted = capitals if len(capitals) == len(seen) else [True, *seen[1:]]
        initials = title.isupper() and len(title) > 1 and text[start:end] != title
        if seen != wanted or not any(seen) or initials:
            return "everyday words, not written as the title"
        if text[start:end].isupper() and not title.isupper():
            return "everyday words, all in capitals"
        if one_word and _starts_sentence(text, start) and parts[0] in everyday:
            return "everyday word that opens a sentence"
        return ""

    return rule


def _about(near: Context, first: int, last: int) -> str:
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
    "genre": lambda form, everyday: _film_word if form in lexicon.weak_genres() else no_rule,
    "name": lambda form, everyday: _capital_or_film_word if lexicon.is_common(form) else no_rule,
    "person": lambda form, everyday: (
        _capital if " " not in form and (form in everyday or len(form) <= 4) else no_rule
    ),
    "plot": lambda form, everyday: no_rule if " " in form and not lexicon.is_common(form) else _about,
}


def value_rule(field_rule: str, form: str, everyday: frozenset[str]) -> Rule:
    """The rule of a value's form, from the rule that the field names; InputError for an unknown name."""
    if field_rule not in FIELD_RULES:
        raise unknown("matching rule", field_rule, FIELD_RULES)
    return FIELD_RULES[field_rule](form, everyday)


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
    plain = "".join(c.lower() if len(c.lower()) == 1 else c for c in text).replace("’", "'")
    for start, end in spans:  # a title's own words are no cue
        plain = plain[:start] + "X" * (end - start) + plain[end:]
    for silent in (_SILENT, _PRAISE):
        plain = silent.sub(lambda match: " " * len(match[0]), plain)
    turns = [0, *(match.end() for match in _TURNS.finditer(plain))]
    return [_is_only_named(plain, max(t for t in turns if t <= start), start, end) for start, end in spans]


def _is_only_named(plain: str, turn: int, start: int, end: int) -> bool:
    before = plain[turn:start]
    aside = _ASIDE.search(before) and _MAIN.match(plain, end)
    cues = _NOT_ADVISED.search(before) or _LABEL.search(plain, 0, start) or _AGAINST.match(plain, end)
    return bool(aside or cues)
