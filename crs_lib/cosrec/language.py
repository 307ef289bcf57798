"""Is a text English? Decided by its letters and its function words; no model, microseconds a text."""

from collections import Counter
from typing import NamedTuple

_FUNCTION_WORDS = {
    "en": "the and is it this for with that was are not but have you they from very would when so my just "
    "than were been had which there what if has will can your of to in on as at be its i",
    "es": "el la los las es en con por para que una del muy más pero como lo su sus está son se le esta este "
    "fue han hay ya también y de un al mi no me te si porque cuando todo bien tiene",
    "fr": "le la les des est et avec pour que une dans sur pas très mais ce cette il elle sont au aux qui je "
    "nous vous du un de en ne se plus bien comme tout mon ma été c'est j'ai",
    "de": "der die das und ist mit für nicht ein eine den dem sehr auch auf es ich war sich zu von aber wie "
    "im bei nur noch sind wird so hat einen als man oder gut",
    "it": "il la gli le è con per che una del molto ma non sono di nel come più si lo questo questa ho ha "
    "della anche mi un e i da ottimo bene tutto stato",
    "pt": "o a os as é com para que uma do da muito mas não são em no na como mais se ele isso este foi um "
    "de e por meu minha bem já tem produto",
    "nl": "de het een en is met voor niet van dat op te zijn maar ook als er aan heel deze goed bij wel ik "
    "was zeer om dit naar nog door",
}
_OWNERS: dict[str, list[str]] = {}
for _language, _words in _FUNCTION_WORDS.items():
    for _word in _words.split():
        _OWNERS.setdefault(_word, []).append(_language)
_HEAD = 600  # characters that are looked at
_ENOUGH = 3  # function words that must speak for another language
_TRIM = ".,;:!?\"'()[]{}…"


class Verdict(NamedTuple):
    """The best guess (a code, ``other script``, or ``unknown``) and whether to keep the text as English."""

    language: str
    english: bool


def latin_share(text: str) -> float:
    """Share of characters below U+0100, in [0, 1]; 1 for an empty text."""
    return len(text.encode("latin-1", "ignore")) / len(text) if text else 1.0


def language(text: str) -> Verdict:
    """The language of a text by script and function words.

    Not English: under 80 % of characters are Latin-1 or typographic, or at least three function words
    speak for another language and more of them than for English (words of several languages count for
    each). A text with too little evidence, as a title often has, is ``unknown`` and kept.
    """
    head = text[:_HEAD]
    typographic = sum(head.count(sign) for sign in "’‘“”–—…™•") if not head.isascii() else 0
    if head and len(head.encode("latin-1", "ignore")) + typographic < 0.8 * len(head):
        return Verdict("other script", False)
    votes: Counter[str] = Counter()
    for word in head.lower().split():
        for owner in _OWNERS.get(word, ()) or _OWNERS.get(word.strip(_TRIM), ()):
            votes[owner] += 1
    if not votes:
        return Verdict("unknown", True)
    best = max(sorted(votes), key=lambda name: (votes[name], name == "en"))
    if best != "en" and votes[best] >= _ENOUGH:
        return Verdict(best, False)
    return Verdict("en", True) if votes["en"] else Verdict("unknown", True)
