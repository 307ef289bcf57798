r"""Words: one tokenisation for grounding, copying and retrieval; what a system said, its thoughts apart.

A word is a run of letters and digits after folding: compatibility decomposition (NFKD), case folding,
accents dropped, strokes too. "Amélie's" has the words ``amelie`` and ``s``; "ＡＢＣ" is ``abc``, "Brøndby"
is ``brondby``. An underscore is no letter: Markdown's _Alien_ is ``alien``.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

_LETTER = re.compile(r"[^\W_]")
_FEW = 8  # distinct characters beyond ASCII
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_RUN = re.compile(r"\S+")
_ACCENTS = ("Mn", "Me")  # categories of marks that belong to the letter before
# Letters that Unicode does not decompose, as keyboards without them write them.
_PLAIN = str.maketrans("øłıđðħŧ", "oliddht") | str.maketrans({"æ": "ae", "œ": "oe", "þ": "th"})


def _fold_character(character: str) -> str:
    """What one character contributes: its folded letters, a blank, or nothing (an accent)."""
    small = unicodedata.normalize("NFKD", character).casefold()
    folded = ""
    for part in unicodedata.normalize("NFKD", small).translate(_PLAIN):
        if unicodedata.category(part) in _ACCENTS or unicodedata.combining(part):
            continue
        folded += part if _LETTER.match(part) else " "
    return folded


class _FoldTable(dict[int, str]):
    """Fills itself: ``str.translate`` asks for each code point once."""

    def __missing__(self, code: int) -> str:
        return self.setdefault(code, _fold_character(chr(code)))


_TABLE = _FoldTable()
_ASCII = bytes(ord(_fold_character(chr(code))) for code in range(128)).ljust(256)


def fold(text: str) -> str:
    """The text's words in folded form, joined by one blank: "Amélie (2001)" -> "amelie 2001"."""
    return " ".join(words(text))


def words(text: str) -> list[str]:
    """Folded words of a text, in order; an empty list where there is none."""
    if not text.isascii():
        characters = set(_BEYOND_ASCII.findall(text))
        if len(characters) <= _FEW:  # as accents and quotation marks: a character at a time is faster
            for character in characters:
                text = text.replace(character, _TABLE[ord(character)])
    if text.isascii():  # one byte a character, and ten times as fast
        return text.encode().translate(_ASCII).decode().split()
    return text.translate(_TABLE).split()


def spans(text: str) -> list[tuple[int, int]]:
    """The character range of every word of a text, half-open, in order."""
    runs = [match.span() for match in _RUN.finditer(text.translate(_TABLE))]
    if text.isascii() or all(len(_TABLE[ord(character)]) == 1 for character in set(text)):
        return runs  # positions stay the same
    origins = []  # of each folded character, the position of the one that it comes from
    for position, character in enumerate(text):
        origins += [position] * len(_TABLE[ord(character)])
    return [(origins[start], origins[end - 1] + 1) for start, end in runs]


def ngrams(tokens: Sequence[str], order: int) -> set[tuple[str, ...]]:
    """The distinct runs of ``order`` consecutive tokens; empty where the text is shorter."""
    shifted = [tokens[start:] for start in range(order)]
    return set(zip(*shifted, strict=False))


def shorten(text: str, limit: int) -> str:
    """The text cut to ``limit`` characters, with an ellipsis where something was cut."""
    if len(text) <= limit:
        return text
    return text[: max(0, limit - 1)] + "…"


def listing(parts: Iterable[str], word: str = "and") -> str:
    """How a sentence lists things: "a", then "a and b", then "a, b and c"; empty for nothing."""
    items = list(parts)
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {word} {items[-1]}"


# C0 and C1 controls but tab and line feed, line separators, bidirectional marks, lone surrogates.
_STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with control characters, bidirectional marks and lone surrogates as escapes."""
    return _STEERS.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def without_secrets(text: str) -> str:
    """The text with "…" in place of what may be secret in its addresses: names, passwords, queries."""
    if ":" not in text or not ("@" in text or "?" in text):
        return text
    return "".join(map(_without_secret, re.split(r"(\s)", text)))


def _without_secret(word: str) -> str:
    """A word without the user part and the query of the address in it; ``?api-version=`` stays."""
    before, _, host = word.rpartition("@")
    kind, colon, _ = before.partition(":")
    if colon:
        slashes = "//" if before[len(kind) :].startswith("://") else ""
        word = f"{kind}:{slashes}…@{host}"
    address, _, query = word.partition("?")
    if query and ":" in address and "/" in address and not query.startswith("api-version="):
        word = f"{address}?…"
    return word


def one_line(text: str, limit: int = 1_000) -> str:
    r"""``printable`` on one line of at most ``limit`` characters; a line break is shown as ``\n``."""
    line = printable(text[: limit + 1]).replace("\n", "\\n")
    return shorten(line, limit)


_TAG = (
    r"(?:[a-z]{1,20}[:_])?"
    r"(?:(?:ant)?think(?:ing)?(?:_process)?|thoughts?|chain_of_thought|cot|reason(?:ing)?|analysis|reflection"
    r"|monologue|(?:reasoning_)?scratchpad)"
)
_SUMMARY = r"\W{0,9}(?:(?:show|view|see|model|chain of)\s)?(?:think|thought|reasoning)[^<>]{0,99}"
_FLAGS = re.DOTALL | re.IGNORECASE
# How models mark what they think, opening and closing: those whose opening alone tells, up to the end.
_OPEN = (
    (rf"<{_TAG}(?:\s[^<>]*)?(?<!/)>", rf"</{_TAG}\s*>"),
    (r"<details\s(?=[^<>]{0,300}?reasoning)[^<>]{0,300}>", r"</details>"),
    (rf"<details[^<>]{{0,300}}>\s{{0,9}}<summary[^<>]{{0,99}}>{_SUMMARY}</summary>", r"</details>"),
    (rf"(?:&lt;|＜){_TAG}(?:&gt;|＞)", rf"(?:&lt;|＜)[/／]{_TAG}(?:&gt;|＞)"),
    (r"<unused94>(?:thought)?", r"<unused95>"),
    (r"\[(?:THINK(?:ING)?|THOUGHTS?|REASONING)\]", r"\[/(?:THINK(?:ING)?|THOUGHTS?|REASONING)\]"),
    (r"<\|think(?:ing)?\|>", r"<(?:/\||\|/)think(?:ing)?\|>"),
    (r"◁think▷", r"◁/think▷"),
    (
        r"<\|(?:START_THINKING|begin_of_thought|thought_start)\|>",
        r"<\|(?:END_THINKING|end_of_thought|thought_end)\|>",
    ),
    (r"<\|channel>\s*thought\b", r"<channel\|>"),
    (r"```(?:think(?:ing)?|thoughts?|reasoning)[ \t]{0,9}\n", r"```"),
)
_WHOLE = (
    (r"\AHere(?: is|'s) my thought process:", r"Here(?: is|'s) my response:"),
    (r"\A(?:assistant)?analysis(?=\S)", r"assistantfinal"),  # channels whose marks the server dropped
    (r"\AThought:", r"\bFinal Answer:|(?<=\n)Answer:"),  # ReAct
)


class _Block(NamedTuple):
    """Marks around a thought; ``alone``: an opening mark that begins or ends a line, or stands right behind a
    sentence, and so needs no other.
    """

    opening: re.Pattern[str]
    closing: re.Pattern[str]
    alone: re.Pattern[str] | None = None


def _block(opening: str, closing: str, whole: bool) -> _Block:
    behind = r"(?:(?<=[.!?…])|(?<=[.!?…][)\"”’*]))"
    begins = rf"(?:\A|(?<=\n))[ \t]{{0,9}}{opening}"
    alone = re.compile(rf"{begins}|{behind}{opening}|{opening}(?=[ \t]{{0,9}}\n)", _FLAGS)
    marks = (re.compile(opening, _FLAGS), re.compile(closing, _FLAGS))
    return _Block(*marks, None if whole else alone)


_BLOCKS = tuple(_block(opening, closing, False) for opening, closing in _OPEN)
_WHOLE_BLOCKS = tuple(_block(opening, closing, True) for opening, closing in _WHOLE)
_CLOSE = re.compile(
    rf"</{_TAG}\s*>|(?:&lt;|＜)[/／]{_TAG}(?:&gt;|＞)"
    r"|\[/THINK(?:ING)?\]|◁/think▷|<\|(?:end_of_thought|thought_end)\|>|<unused95>",
    re.IGNORECASE,
)
_CHANNEL = re.compile(
    r"<\|channel\|>\s*(\w++)[^<]*+(?:<\|constrain\|>[^<]*+)?<\|message\|>(.*?)(?=<\|(?:end|return|call|start|channel)\|>|\Z)",
    re.DOTALL,
)
_ANSWER_MARK = re.compile(
    r"</?(?:answer|response|output)>|<\|(?:START|END)_RESPONSE\|>|<\|(?:begin|end)_of_solution\|>",
    re.IGNORECASE,
)
_BLANKS = re.compile(r"(?<!\s)\s{100,}")  # a run that nobody hears
_SIGN = re.compile(r"[<\[◁＜]|```|&lt;|\A\s*(?:(?:assistant)?analysis|Here|Thought:)", re.IGNORECASE)
_JSON = re.compile(r"\s*(?:\{|\[\s*[\"\[{\]\d])")
_IS_THOUGHT = re.compile("think|thought|reason", re.IGNORECASE)
_TEXT_FIELDS = ("text", "thinking", "reasoning", "summary", "content", "refusal", "value")
THOUGHT_FIELDS = ("reasoning", "reasoning_content", "thinking", "thought", "thoughts", "reasoning_details")


class Said(NamedTuple):
    """What a system said: the ``text`` that its user hears, what it thought beside it, and the kinds of those
    ``parts`` of its message that hold no text (an image, a call).
    """

    text: str
    thinking: str = ""
    parts: tuple[str, ...] = ()

    @classmethod
    def within(cls, record: Mapping[str, object], field: str) -> "Said":
        """What stands in a field of a message, and the thoughts in the message's own fields for them."""
        return said(record.get(field), *[record.get(name) for name in THOUGHT_FIELDS if name != field])


def said(content: object, *thoughts: object) -> Said:
    """What a system said: the one place where thoughts are told from words, whoever spoke.

    ``content`` is a text, or a list of parts (a text, or an object with a kind and a text), which are joined,
    with a line break where no blank parts them; ``thoughts`` were set apart by the server. Thoughts in the
    text stand between marks (``<think>``, ``[THINK]``, the channels of gpt-oss, …); one that is never closed
    reaches to the end where its mark begins or ends a line or follows a sentence at once, and a closing mark
    alone ends one that began in the template of the prompt. Marks inside JSON are left alone, and runs of
    100 blanks or more are one.
    """
    texts: list[str] = []
    thinking: list[str] = []
    parts: list[str] = []
    for thought in thoughts:
        _sort_out(thought, thinking, thinking, parts)
    _sort_out(content, texts, thinking, parts)
    text = ""
    for piece in texts:
        parted = not text or text[-1].isspace() or piece[:1].isspace()
        text += piece if parted else f"\n{piece}"
    text = _BLANKS.sub(_one_blank, _without_thoughts(text, thinking))
    spoken = [thought.strip() for thought in thinking]
    return Said(text, "\n".join(filter(None, spoken)), tuple(parts))


def _one_blank(blanks: re.Match[str]) -> str:
    return "\n" if "\n" in blanks[0] else " "


def _sort_out(content: object, texts: list[str], thinking: list[str], parts: list[str]) -> None:
    """Add a content's texts to ``texts`` or ``thinking``, and the kinds of its other parts to ``parts``."""
    if isinstance(content, str):
        texts.append(content)
    elif isinstance(content, list | tuple):
        for part in content:
            _sort_out(part, texts, thinking, parts)
    elif isinstance(content, Mapping):
        kind = str(content.get("type") or content.get("kind") or next(iter(content), "nothing"))
        thought = _IS_THOUGHT.search(kind) or _is_marked(content) or _is_marked(content.get("metadata"))
        for field in _TEXT_FIELDS:
            if content.get(field):
                _sort_out(content[field], thinking if thought else texts, thinking, parts)
                return
        parts.append(kind)
    elif content is not None:
        parts.append(type(content).__name__)


def _is_marked(facts: object) -> bool:
    """Whether an object says of itself that it is a thought, as parts of agents do in their metadata."""
    return isinstance(facts, Mapping) and (facts.get("thought") is True or facts.get("adk_thought") is True)


def _without_thoughts(text: str, thoughts: list[str]) -> str:
    """The text without what was thought aloud, which is added to ``thoughts``."""
    if not _SIGN.search(text):
        return text.strip()
    before = len(thoughts)
    if _CHANNEL.search(text):
        text = _final_channel(text, thoughts)
    shorter = _leading_cut(text, thoughts)
    while shorter != text:
        text = shorter
        shorter = _leading_cut(text, thoughts)
    if _JSON.match(text):
        return text.strip()
    for block in _BLOCKS:
        text = _without_block(text, block, thoughts)
    closing = list(_CLOSE.finditer(text))
    if closing and text[closing[-1].end() :].strip():
        thoughts.append(_CLOSE.sub("", text[: closing[-1].start()]))
        text = text[closing[-1].end() :]
    elif closing:
        text = _CLOSE.sub("", text)
    if len(thoughts) > before or _ANSWER_MARK.match(text.strip()):
        text = _ANSWER_MARK.sub("", text)
    return text.strip()


def _without_block(text: str, block: _Block, thoughts: list[str]) -> str:
    """The text without what stands between a block's marks, and behind an opening mark that stands alone."""
    pieces = []
    position = 0
    while opening := block.opening.search(text, position):
        closing = block.closing.search(text, opening.end())
        if closing is None:
            alone = block.alone.search(text, position) if block.alone else None
            if alone:
                thoughts.append(text[alone.end() :])
                text = text[: alone.start()]
            break
        pieces.append(text[position : opening.start()].rstrip())
        thoughts.append(text[opening.end() : closing.start()])
        position = closing.end()
    pieces.append(text[position:])
    return "".join(pieces)


def _final_channel(text: str, thoughts: list[str]) -> str:
    """The words in the channel ``final``; those of the other channels are thoughts."""
    words = []
    for channel, body in _CHANNEL.findall(text):
        if channel == "final":
            words.append(body)
        else:
            thoughts.append(body)
    return "\n".join(words)


def _leading_cut(text: str, thoughts: list[str]) -> str:
    """The text without a thought at its beginning; the same text where there is none."""
    start = text.lstrip()
    for block in (*_BLOCKS, *_WHOLE_BLOCKS):
        opening = block.opening.match(start)
        if not opening:
            continue
        closing = block.closing.search(start, opening.end())
        if closing:
            thoughts.append(start[opening.end() : closing.start()])
            return start[closing.end() :]
        if block.alone and block.alone.match(start):
            thoughts.append(start[opening.end() :])
            return ""
    return text
