"""Voices: a table and a file each, drawn in blocks; those for confirmation are not what the tracker's rules are tuned on."""

import hashlib
import itertools
import json
from collections import Counter
from pathlib import Path

import pytest

from crs_lib import simulate
from crs_lib.core import prompts
from crs_lib.simulate import voices
from crs_lib.systems import tracker
from crs_lib.validity import promises
from tests.helpers import refused
from tests.helpers.sample import GROUNDER, WORLD

CONFIRMATIONS = Path(__file__).with_name("confirmation.json")
PEOPLE = [name for name in voices.every() if name != voices.FIRST]


SECTIONS = {name: prompts.sections(prompts.USER_SETS[name]) for name in PEOPLE}


def least_templates(section):
    """How many templates a section must have."""
    if section.startswith("noun") or section.endswith("phrases"):
        return 1
    if "implicit" in section:
        return 3
    return 6


def test_every_voice_has_a_row_and_a_file():
    assert set(prompts.USER_SETS) == set(voices.every())
    uses = Counter(voices.every()[name].use for name in PEOPLE)
    assert uses == {"development": 8, "confirmation": 4}


@pytest.mark.parametrize("name", PEOPLE)
def test_a_voice_has_six_templates_an_act(name):
    assert SECTIONS[name].keys() == SECTIONS[PEOPLE[0]].keys()
    assert sum(section.startswith("shift_") for section in SECTIONS[name]) >= 12
    for section, templates in SECTIONS[name].items():
        assert len(templates) >= least_templates(section), section


def drawn(choice, sessions):
    """The voices of these sessions of seed 7."""
    return [voices.drawn(choice, 7, session) for session in sessions]


@pytest.mark.parametrize("choice", ["all", "development", "confirmation"])
def test_voices_are_shuffled_within_blocks(choice):
    names = voices.names(choice)
    size = len(names)
    orders = set()
    for start in range(0, 5 * size, size):
        block = drawn(choice, range(start, start + size))
        assert sorted(block) == sorted(names)
        orders.add(tuple(block))
    assert len(orders) > 1


def test_one_voice_can_be_chosen():
    assert drawn("critic", range(9)) == ["critic"] * 9


def test_voices_for_confirmation_are_not_used_in_development():
    assert set(voices.names("development")).isdisjoint(voices.names("confirmation"))


def voices_of_dialogues(choice):
    """The voices that the dialogues of a scenario name."""
    config = simulate.SimulateConfig(systems=["silent"], voices=choice, n_turns=8)
    names = set()
    users = simulate.arms_of(WORLD, "silent", 3, config)
    for dialogue in itertools.chain.from_iterable(users.values()):
        names.add(dialogue.extra.get("voice"))
    return names


def test_a_dialogue_says_whose_voice_it_is_but_for_the_first():
    assert voices_of_dialogues("all") == set(drawn("all", [3]))
    assert voices_of_dialogues("A") == {None}


@pytest.mark.parametrize("old", ["B", "C"])
def test_the_old_sets_are_refused_with_the_names_that_there_are(old):
    refused(rf"voices is '{old}'.*development", simulate.SimulateConfig, voices=old)
    refused("templates", simulate.SimulateConfig, templates="A")


@pytest.mark.parametrize("voice", PEOPLE)
def test_no_voice_states_what_the_log_does_not_hold(voice):
    """benchmarks/voiced.py asks the same of 20,000 turns."""
    config = simulate.SimulateConfig(systems=["tracker"], voices=voice)
    dialogues = []
    for number in range(4):
        users = simulate.arms_of(WORLD, "tracker", number, config)
        dialogues += itertools.chain.from_iterable(users.values())
    turns = promises.unlogged(dialogues, GROUNDER)
    assert len(turns) > 200
    assert turns[turns["unlogged"].map(bool)].to_dict("records") == []


def _digest(*paths):
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def test_the_trackers_rules_and_the_voices_for_confirmation_never_change_together():
    """Each entry differs from the one before in one of the two digests; the last one is of the files as they
    are. Whoever changes a voice for confirmation adds an entry before any rule of the tracker is touched, and
    the other way round, so that no rule is written with a new sentence at hand.
    """
    folder = Path(prompts.__file__).parents[1] / "prompts" / "movies" / "voices"
    names = sorted(voices.names("confirmation"))
    files = [folder / f"{name}.wording" for name in names]
    entries = json.loads(CONFIRMATIONS.read_text())
    assert entries[-1]["voices"] == _digest(*files), "add an entry to confirmation.json"
    assert entries[-1]["tracker"] == _digest(Path(tracker.__file__)), "add an entry to confirmation.json"
    for before, after in itertools.pairwise(entries):
        same_voices = before["voices"] == after["voices"]
        same_tracker = before["tracker"] == after["tracker"]
        assert same_voices != same_tracker, after
