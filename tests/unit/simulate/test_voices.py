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

KEPT = Path(__file__).with_name("confirmation.json")
PEOPLE = [name for name in voices.every() if name != voices.FIRST]


def test_every_voice_has_a_row_and_a_file_with_six_templates_an_act():
    assert set(prompts.USER_SETS) == set(voices.every())
    assert Counter(voices.every()[name].use for name in PEOPLE) == {"development": 8, "confirmation": 4}
    parts = {name: prompts.sections(prompts.USER_SETS[name]) for name in PEOPLE}
    acts = {part for found in parts.values() for part in found}
    assert len([act for act in acts if act.startswith("shift_")]) >= 12
    for name, found in parts.items():
        assert set(found) == acts, name
        for act, lines in found.items():
            named = act.startswith("noun") or act.endswith("phrases")
            least = 1 if named else 3 if "implicit" in act else 6
            assert len(lines) >= least, (name, act)


def test_voices_are_shuffled_within_blocks_and_a_dialogue_says_whose_it_is_but_for_the_first():
    for choice in ("all", "development", "confirmation"):
        known = voices.names(choice)
        drawn = [voices.drawn(choice, 7, session) for session in range(5 * len(known))]
        blocks = [tuple(drawn[n : n + len(known)]) for n in range(0, len(drawn), len(known))]
        assert all(sorted(block) == sorted(known) for block in blocks)
        assert len(set(blocks)) > 1
    assert {voices.drawn("critic", 7, session) for session in range(9)} == {"critic"}
    assert not set(voices.names("development")) & set(voices.names("confirmation"))
    for choice in ("all", "A"):
        batch = simulate.SimulateConfig(systems=["silent"], voices=choice, n_turns=8)
        made = simulate.arms_of(WORLD, "silent", 3, batch)
        said = {talk.extra.get("voice") for talks in made.values() for talk in talks}
        assert said == ({voices.drawn("all", batch.seed, 3)} if choice == "all" else {None})


@pytest.mark.parametrize("old", ["B", "C"])
def test_the_old_sets_are_refused_with_the_names_that_there_are(old):
    refused(rf"voices is '{old}'.*development", simulate.SimulateConfig, voices=old)
    refused("templates", simulate.SimulateConfig, templates="A")


@pytest.mark.parametrize("voice", PEOPLE)
def test_no_voice_states_what_the_log_does_not_hold(voice):
    """benchmarks/voiced.py asks the same of 20,000 turns."""
    batch, talks = simulate.SimulateConfig(systems=["tracker"], voices=voice), []
    for number in range(4):
        made = simulate.arms_of(WORLD, "tracker", number, batch)
        talks += [talk for several in made.values() for talk in several]
    found = promises.unlogged(talks, GROUNDER)
    assert len(found) > 200
    assert not found["unlogged"].map(bool).any(), found[found["unlogged"].map(bool)]


def _digest(*paths):
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def test_the_trackers_rules_and_the_voices_for_confirmation_never_change_together():
    """Each entry differs from the one before in one of the two digests; the last one is of the files as they
    are. Whoever changes a voice for confirmation adds an entry before any rule of the tracker is touched, and
    the other way round, so that no rule is written with a new sentence at hand.
    """
    folder = Path(prompts.__file__).parents[1] / "prompts" / "movies" / "voices"
    files = sorted(folder / f"{name}.wording" for name in voices.names("confirmation"))
    entries = json.loads(KEPT.read_text())
    assert entries[-1]["voices"] == _digest(*files), "add an entry to confirmation.json"
    assert entries[-1]["tracker"] == _digest(Path(tracker.__file__)), "add an entry to confirmation.json"
    for before, after in itertools.pairwise(entries):
        assert (before["voices"] == after["voices"]) != (before["tracker"] == after["tracker"]), after
