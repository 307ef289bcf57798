"""Relaxing, retracting and starting over are told apart by a reader who knows none of the tracker's rules."""

import re

import pytest

from crs_lib.core import prompts
from crs_lib.core.rng import stream
from crs_lib.simulate import voices
from crs_lib.systems import tracker
from tests.helpers import blind_reader
from tests.helpers.wordings import every_text, readings, shifts

# The reader's own cues, by meaning: all that was asked for goes; a thing is unwanted; a thing is optional.
ALL_GOES = re.compile(
    r"\b(all|every|everything|earlier|previous|old|so far|other)\b[^.!?]*?"
    r"\b(off|void|gone|count|counts|apply|done|condition|conditions|wishes|requests?|filters|said before|so far|no longer counts?)\b"
    r"|\b(slate|entirely|asked for so far|wanted so far|said before)\b"
)
DROPS = re.compile(r"\b(no longer counts?|set aside|off|leave|done|void|none of|nothing|clear|wipe|scrap|throw|ditch"
                   r"|cancel|gone|bin|entirely|slate|forget)\b")  # fmt: skip
UNWANTED = re.compile(
    r"\b(avoid|off the list|leave (all of )?(those|these) out|leave those|none of|spare|mistake|take it back|misspoke"
    r"|take that back|opposite|reverse|account|any qzvx|but qzvx|stand them|bear them|hate|ban|block|exclude|never|circumstances"
    r"|filter every|cross out|strike|wrong|correct myself|really, no|please, no)\b"
)
OPTIONAL = re.compile(
    r"\b(needn't|doesn't have to|insist|a must|required|as well|too|welcome|optional|essential|either way|both"
    r"|whether|limit|stick|include|allow|loosen|lift)\b"
)


def reading(text):
    """What a reader takes the words for: "switch", "contradict" or "relax"."""
    low = text.lower().replace("’", "'")
    if ALL_GOES.search(low) and DROPS.search(low) and not (UNWANTED.search(low) or OPTIONAL.search(low)):
        return "switch"
    unwanted, optional = len(UNWANTED.findall(low)), len(OPTIONAL.findall(low))
    return "contradict" if unwanted > optional else "relax" if optional > unwanted else "unclear"


def test_relaxing_retracting_and_starting_over_cannot_be_confused():
    """In voice A, whose words this reader's cues were written for; the others are read blind, below."""
    texts = every_text("user")
    told = [
        (kind, text, reading(text))
        for kind in ("relax", "contradict", "switch")
        for text in texts[f"shift_{kind}"]
    ]
    confused = [(kind, text, found) for kind, text, found in told if kind != found]
    assert len(told) > 60
    assert len(confused) <= 0.02 * len(told), confused[:5]
    assert {kind for kind, _, _ in told} == {found for kind, _, found in told if kind == found}


def test_two_readers_who_knew_nothing_but_the_sentences_read_what_is_meant():
    """A new template of voice A has to be read anew: tests/helpers/shift_readings.tsv."""
    known, said = readings(), shifts("user")
    read = [(kind, number, known[text]) for kind, number, text in said if text in known]
    assert {(kind, number) for kind, number, _ in said} == {(kind, number) for kind, number, _ in read}
    for reader in (0, 1):
        right = [kind == found[reader] for kind, _, found in read]
        assert sum(right) >= 0.98 * len(right)


def test_the_reader_is_not_the_tracker():
    cues = {*tracker.CUES}
    mine = " ".join(pattern.pattern for pattern in (ALL_GOES, UNWANTED, OPTIONAL, DROPS))
    own = {word for word in re.findall(r"[a-z']{4,}", mine) if not any(word in cue for cue in cues)}
    assert len(own) > 30  # most of what the reader looks for, the tracker's rules do not know


@pytest.mark.parametrize("voice", prompts.USER_SETS)
@pytest.mark.parametrize(("struck", "right"), [((), 0.8), (blind_reader.STRUCK, 0.98)])
def test_a_reader_written_blind_is_right_wherever_it_knows_a_cue(voice, struck, right):
    """A list of cues that nobody fitted to the templates: what it does not know, it must not misread."""
    texts, patterns = every_text(prompts.USER_SETS[voice]), blind_reader.compiled(struck)
    told = [
        (kind, text, blind_reader.read(text, patterns))
        for kind in ("relax", "contradict", "switch")
        for text in texts[f"shift_{kind}"]
    ]
    known = [one for one in told if one[2] != "none"]
    assert len(known) > 0.65 * len(told)
    wrong = [one for one in known if one[0] != one[2]]
    assert len(wrong) <= (1 - right) * len(known), wrong[:5]


@pytest.mark.parametrize("voice", [name for name, one in voices.known().items() if one.small_letters < 1])
def test_sentences_begin_with_a_capital_and_end_once(voice):
    slots = {"wish": "drama films by Ring Lardner Jr.", "old": "films in Polish", "bridge": "the director Ed Jr.",
             "one": "drama movie by Ring Lardner Jr.", "old_one": "movie in Polish", "title": "Iron Valley", "aside": "war films",
             "situation": "The kids are home."}  # fmt: skip
    name = prompts.USER_SETS[voice]
    for section in [
        s for s in prompts.sections(name) if s != "noun" and not s.endswith(("phrases", "bridges"))
    ]:
        for i in range(60):
            said = prompts.say(name, section, stream(i, section), **slots)
            plain = said.replace("Jr...", "Jr,").replace("Jr.", "Jr").replace("...", ",")
            assert not re.search(r"[.!?] [a-z]", plain), said
            assert ".." not in said.replace("...", ""), said
            assert said.lstrip('"')[0].isupper(), said
