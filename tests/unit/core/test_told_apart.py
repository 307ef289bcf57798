"""Relaxing, retracting and starting over are told apart by a reader who knows none of the tracker's rules."""

import re

import pytest

from crs_lib.core import prompts
from crs_lib.core.rng import stream
from crs_lib.simulate.voices import every
from tests.helpers import blind_reader
from tests.helpers.wordings import every_text, readings, shifts


def test_two_readers_who_knew_nothing_but_the_sentences_read_what_is_meant():
    """A new template of voice A has to be read anew: tests/helpers/shift_readings.tsv."""
    known, said = readings(), shifts("user")
    read = [(kind, number, known[text]) for kind, number, text in said if text in known]
    assert {(kind, number) for kind, number, _ in said} == {(kind, number) for kind, number, _ in read}
    for reader in (0, 1):
        right = [kind == found[reader] for kind, _, found in read]
        assert sum(right) >= 0.98 * len(right)


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


@pytest.mark.parametrize("voice", [name for name, one in every().items() if one.small_letters < 1])
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
