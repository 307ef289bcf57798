"""Dialogues: the thesis's JSON in and out without loss, checked, and safe to look at."""

import html
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core.dialogue import Dialogue, Mark, Turn
from crs_lib.core.errors import InputError

RECORD = {
    "session_id": "7",
    "model_name": "ollama:llama3:instruct",
    "true_genre": "Drama",
    "conversation": [
        {"speaker": "USER", "text": "A drama, please.", "user_meta": {"shift_event": False, "wishes": {}}},
        {
            "speaker": "SYSTEM",
            "text": "Try Dunes of Glass.",
            "constraints": {"genre": "Drama"},
            "rec_titles": [],
        },
        {"speaker": "USER", "text": "Now comedy!", "user_meta": {"shift_event": True}, "note": [1, None]},
        {"speaker": "SYSTEM", "text": "", "constraints": {}, "rec_titles": ["Tea for Tuesday"]},
    ],
    "shift_events": [{"turn": 2, "type": "replace", "from_focus": "genre", "to_focus": "genre"}],
    "our_own_key": {"kept": True},
}


def changed(**changes):
    return {**RECORD, **changes}


def test_a_record_comes_back_as_it_was_and_its_turns_count_from_one():
    assert Dialogue.from_json(RECORD).to_json() == RECORD
    assert json.loads(Dialogue.from_json(RECORD).dumps()) == RECORD
    dialogue = Dialogue.from_json(RECORD)
    assert [(p.turn, p.user.text, p.system.text) for p in dialogue.pairs()] == [
        (1, "A drama, please.", "Try Dunes of Glass."),
        (2, "Now comedy!", ""),
    ]
    assert dialogue.shift_turns() == [2]
    assert dialogue.turns[0].user_meta == {"shift_event": False, "wishes": {}}
    assert dialogue.turns[1].user_meta == {}
    both = Dialogue.from_json(changed(shift_events=[{"turn": 1}, {"type": "no turn"}]))
    assert both.shift_turns() == [1, 2]
    dialogue = Dialogue.from_json(changed(conversation=RECORD["conversation"][:3]))
    assert (len(dialogue.pairs()), len(dialogue.turns)) == (1, 3)
    dialogue = Dialogue.from_json({"conversation": [{"speaker": "user", "text": "hi"}], "shift_events": None})
    assert (dialogue.session_id, dialogue.model_name, dialogue.true_genre) == ("", "", None)
    assert dialogue.turns[0].speaker == "USER"
    assert dialogue.shift_turns() == []


TURNS = RECORD["conversation"]


@pytest.mark.parametrize(("conversation", "message"), [
    (None, "'conversation' must be a list"),
    ([], "and not empty"),
    ("USER: hi", "must be a list"),
    ([TURNS[1]], "turn 1 is spoken by 'SYSTEM', expected USER"),
    ([TURNS[0], TURNS[0]], "turn 2 is spoken by 'USER', expected SYSTEM"),
    ([{"speaker": "USER"}], "turn 1 must be an object with a text"),
    ([{"text": "hi"}], "turn 1 is spoken by None"),
    (["hi"], "turn 1 must be an object"),
    ([{"speaker": "USER", "text": None}], "turn 1 must be an object with a text"),
])  # fmt: skip
def test_a_wrong_record_names_file_session_and_turn(conversation, message):
    with pytest.raises(InputError, match=r"logs.jsonl, session '7': .*" + message):
        Dialogue.from_json(changed(conversation=conversation), source="logs.jsonl")


NASTY = "<script>alert(\"x\")</script> & 'quoted'"


def test_nothing_of_a_dialogue_becomes_markup():
    record = changed(
        session_id=NASTY, model_name=NASTY,
        conversation=[{"speaker": "USER", "text": NASTY}, {"speaker": "SYSTEM", "text": NASTY}],
        shift_events=[{"turn": 1, "type": NASTY, "from_focus": NASTY, "to_focus": NASTY, "bridge_value": NASTY}],
    )  # fmt: skip
    marks = [[Mark(0, 8, NASTY, NASTY)], []]
    shown = Dialogue.from_json(record).with_marks(marks)._repr_html_()
    assert "<script" not in shown
    assert shown.count(html.escape("<script>")) >= 9
    assert 'title="' + html.escape(f"{NASTY}={NASTY}") + '"' in shown


def test_marks_are_shown_longest_first_and_shifts_before_their_turn():
    text = "a New York comedy"
    turn = Turn(
        "USER", text, {},
        (Mark(2, 5, "word", "new"), Mark(2, 10, "city", "New York"), Mark(11, 17, "genre", "Comedy")),
    )  # fmt: skip
    shown = Dialogue("1", "m", (turn,))._repr_html_()
    assert shown.count("border-radius") == 2
    assert 'title="word=new, city=New York">New York</span>' in shown
    assert 'title="genre=Comedy">comedy</span>' in shown
    shown = Dialogue.from_json(RECORD)._repr_html_()
    assert (
        shown.index("A drama")
        < shown.index("shift at turn 2: replace genre → genre")
        < shown.index("Now comedy")
    )


_texts = st.text(max_size=30)
_spans = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 10), st.sampled_from(["genre", "actor"])), max_size=6
)


@given(text=_texts, spans=_spans)
def test_whatever_is_marked_the_text_is_shown_whole(text, spans):
    marks = tuple(Mark(start, start + size, field, "v") for start, size, field in spans)
    shown = Dialogue("", "", (Turn("USER", text, {}, marks),))._repr_html_()
    cell = shown.split('pre-wrap">', 1)[1].split("</td>", 1)[0]
    assert html.unescape("".join(part.split(">", 1)[-1] for part in cell.split("<"))) == text


@given(st.lists(_texts, min_size=1, max_size=6), st.dictionaries(_texts, st.integers() | _texts, max_size=3))
def test_any_conversation_survives_json(texts, extra):
    extra = {key: value for key, value in extra.items() if key not in RECORD}
    turns = tuple(Turn(("USER", "SYSTEM")[i % 2], text, {"own": i}) for i, text in enumerate(texts))
    dialogue = Dialogue("s", "m", turns, None, ({"turn": 1},), extra)
    again = Dialogue.from_json(json.loads(dialogue.dumps()))
    assert again == dialogue
    assert again.dumps() == dialogue.dumps()
