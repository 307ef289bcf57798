"""Words: folded, whole, with their places; the fast batch form agrees with the plain one."""

import hashlib
import html
import json
import re
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from crs_lib.catalog import fields, phrases, sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import prompts
from crs_lib.core.dialogue import Dialogue, Mark, Turn
from crs_lib.core.errors import InputError
from crs_lib.core.rng import stream
from crs_lib.core.text import fold, listing, ngrams, shorten, spans, words
from crs_lib.simulate import scenarios
from crs_lib.simulate.voices import every
from tests.helpers import blind_reader, refused
from tests.helpers.films import grounder
from tests.helpers.wordings import every_text, expansions, readings, shifts, words_by_hand

ODD = st.text(
    st.sampled_from("aBé Ǆß ﬁ²½\u0301\u0345\u200d\u2028\x1e\x1c\n\t\r_-'’·。ΣςİıŉΐøÆŁÞㅎ각😀\ud800")
    | st.characters(codec="utf-8"),
    max_size=40,
)
RECORD = {
    "session_id": "7", "model_name": "ollama:llama3:instruct", "true_genre": "Drama",
    "conversation": [
        {"speaker": "USER", "text": "A drama, please.", "user_meta": {"shift_event": False, "wishes": {}}},
        {"speaker": "SYSTEM", "text": "Try Dunes.", "constraints": {"genre": "Drama"}, "rec_titles": []},
        {"speaker": "USER", "text": "Now comedy!", "user_meta": {"shift_event": True}, "note": [1, None]},
        {"speaker": "SYSTEM", "text": "", "constraints": {}, "rec_titles": ["Tea for Tuesday"]},
    ],
    "shift_events": [{"turn": 2, "type": "replace", "from_focus": "genre", "to_focus": "genre"}],
    "our_own_key": {"kept": True},
}  # fmt: skip
TURNS = RECORD["conversation"]
NASTY = "<script>alert(\"x\")</script> & 'quoted'"
_texts = st.text(max_size=30)
_span = st.tuples(st.integers(0, 30), st.integers(1, 10), st.sampled_from(["genre", "actor"]))
FILES = (*prompts.USER_SETS.values(), "system", "fields")


@pytest.mark.parametrize(("text", "expected"), [
    ("Amélie's", ["amelie", "s"]), ("ＡＢＣ", ["abc"]), ("Straße", ["strasse"]), ("ﬁlm noir", ["film", "noir"]),
    ("sci-fi/thriller", ["sci", "fi", "thriller"]),
    ("_Alien_ and snake_case 2001", ["alien", "and", "snake", "case", "2001"]),
    ("Łódź, Søren, Æsop, Þór", ["lodz", "soren", "aesop", "thor"]),
    ("e\u0301té", ["ete"]), ("½", ["1", "2"]), ("", []), (" \t\n", []), ("…!?", []),
])  # fmt: skip
def test_worked_examples(text, expected):
    assert words(text) == expected
    assert fold(text) == " ".join(expected)


@given(ODD)
def test_words_are_what_the_definition_says_folded_once_or_twice_with_spans(text):
    # NFKD of a character may hold a blank or another sign that breaks a word; the definition does the same
    assert words(text) == words_by_hand(text)
    assert words(fold(text)) == words(text)
    places = spans(text)
    assert all(0 <= start < end <= len(text) for start, end in places)
    assert places == sorted(places)
    for word, (start, end) in zip(words(text), places, strict=True):
        assert word in words(text[start:end])


def test_spans_cover_letters_with_accents_and_ngrams_are_distinct_runs():
    text = "Ah, Ame\u0301lie!"
    assert words(text) == ["ah", "amelie"]
    assert [text[start:end] for start, end in spans(text)] == ["Ah", "Ame\u0301lie"]
    tokens = ["a", "b", "a", "b", "c"]
    assert ngrams(tokens, 2) == {("a", "b"), ("b", "a"), ("b", "c")}
    assert ngrams(tokens, 5) == {tuple(tokens)}
    assert ngrams(tokens, 6) == ngrams([], 1) == set()


@given(st.text(max_size=20), st.integers(1, 25))
def test_shortening_keeps_the_limit_and_shows_the_cut(text, limit):
    short = shorten(text, limit)
    assert len(short) <= limit
    assert short == text or (short.endswith("…") and text.startswith(short[:-1]))


def test_listings_read_like_a_sentence():
    assert [listing(list("abc")[:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]


def changed(**changes):
    return {**RECORD, **changes}


def test_a_record_comes_back_as_it_was_and_its_turns_count_from_one():
    assert Dialogue.from_json(RECORD).to_json() == RECORD
    assert json.loads(Dialogue.from_json(RECORD).dumps()) == RECORD
    dialogue = Dialogue.from_json(RECORD)
    pairs = [(p.turn, p.user.text, p.system.text) for p in dialogue.pairs()]
    assert pairs == [(1, "A drama, please.", "Try Dunes."), (2, "Now comedy!", "")]
    assert dialogue.shift_turns() == [2]
    assert [t.user_meta for t in dialogue.turns[:2]] == [{"shift_event": False, "wishes": {}}, {}]
    both = Dialogue.from_json(changed(shift_events=[{"turn": 1}, {"type": "no turn"}]))
    assert both.shift_turns() == [1, 2]
    dialogue = Dialogue.from_json(changed(conversation=RECORD["conversation"][:3]))
    assert (len(dialogue.pairs()), len(dialogue.turns)) == (1, 3)
    dialogue = Dialogue.from_json({"conversation": [{"speaker": "user", "text": "hi"}], "shift_events": None})
    assert (dialogue.session_id, dialogue.model_name, dialogue.true_genre) == ("", "", None)
    assert dialogue.turns[0].speaker == "USER"
    assert dialogue.shift_turns() == []


@pytest.mark.parametrize(("conversation", "message"), [
    (None, "'conversation' must be a list"), ([], "and not empty"), ("USER: hi", "must be a list"),
    ([TURNS[1]], "turn 1 is spoken by 'SYSTEM', expected USER"),
    ([TURNS[0], TURNS[0]], "turn 2 is spoken by 'USER', expected SYSTEM"),
    ([{"speaker": "USER"}], "turn 1 must be an object with a text"),
    ([{"text": "hi"}], "turn 1 is spoken by None"), (["hi"], "turn 1 must be an object"),
    ([{"speaker": "USER", "text": None}], "turn 1 must be an object with a text"),
])  # fmt: skip
def test_a_wrong_record_names_file_session_and_turn(conversation, message):
    with pytest.raises(InputError, match=r"logs.jsonl, session '7': .*" + message):
        Dialogue.from_json(changed(conversation=conversation), source="logs.jsonl")


def test_nothing_of_a_dialogue_becomes_markup():
    record = changed(
        session_id=NASTY, model_name=NASTY,
        conversation=[{"speaker": "USER", "text": NASTY}, {"speaker": "SYSTEM", "text": NASTY}],
        shift_events=[{"turn": 1, "type": NASTY, "from_focus": NASTY, "to_focus": NASTY, "bridge_value": NASTY}],
    )  # fmt: skip
    shown = Dialogue.from_json(record).with_marks([[Mark(0, 8, NASTY, NASTY)], []])._repr_html_()
    assert "<script" not in shown
    assert shown.count(html.escape("<script>")) >= 9
    assert f'title="{escape(f"{NASTY}={NASTY}")}"' in shown


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
    parts = ("A drama", "shift at turn 2: replace genre → genre", "Now comedy")
    assert sorted(parts, key=shown.index) == [*parts]


@given(text=_texts, spans=st.lists(_span, max_size=6))
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
    assert (again, again.dumps()) == (dialogue, dialogue.dumps())


def test_a_line_is_compiled_and_missing_sections_and_slots_are_errors():
    line = prompts.compile_line("{Hi|Hello}, I want $wish.")
    assert expansions(line, "X") == ["Hi, I want X.", "Hello, I want X."]
    assert [type(part) for part in line] == [tuple, str, prompts.Slot, str]
    with pytest.raises(InputError, match=r"user.wording has no templates under \[greeting\]"):
        prompts.phrase("user", "greeting", stream(1, "x"))
    with pytest.raises(InputError, match=r"user.wording, \[initial\]: a template needs \$wish"):
        prompts.phrase("user", "initial", stream(1, "x"))
    where = "field 'actor', phrases"
    says = where + r": a template needs \$valeu"
    refused(says, prompts.fill, prompts.compiled(("with $valeu",)), stream(1, "x"), where, value="A")
    acts = {"initial", "refine", "hesitate", "aside", "contradiction", "follow_up", "insist", "nothing_named"}
    assert acts <= set(prompts.sections("user"))
    assert all(fields.QUESTION_ACTS[act].asks for act in scenarios.QUESTIONS)


@pytest.mark.parametrize("where", ["sample", "ten"])
@pytest.mark.parametrize("name", FILES)
@pytest.mark.slow
def test_the_words_around_the_slots_name_no_concept_and_no_title(name, where):
    grounder_ = grounder() if where == "ten" else Grounder(sources.load())
    every = every_text(name)
    genres = {section: every.pop(section) for section in [*every] if section.startswith("plain noun")}
    for section, nouns in genres.items():  # these are values, each of the genre in the section's name
        named = f"genre={section.split(maxsplit=2)[2].lower()}"
        for codes in grounder_.ground(nouns):
            assert set(grounder_.keys(codes)) <= {named}, section
    texts = list(chain.from_iterable(every.values()))
    assert len(texts) > 60
    named = [text for text, codes in zip(texts, grounder_.ground(texts), strict=True) if codes]
    assert named == [text for text in texts if grounder_.titles(text)] == []


@pytest.mark.parametrize("name", FILES)
def test_no_line_is_broken_or_written_twice(name):
    for section, texts in every_text(name, slot=None).items():
        assert texts, section
        if section.startswith("plain"):  # a choice within a line may stand twice, to be said more often
            lines = prompts.sections(name)[section]
            texts = [text for line in lines for text in dict.fromkeys(expansions(line, None))]
        if not section.endswith((" phrases", " bridges", " clauses")):  # some twice, to be said more often
            assert len(set(texts)) == len(texts), section
        assert not [text for text in texts if set("{}|$") & set(text)], section


def test_every_wish_in_words_is_found_again_in_any_field():
    ten = grounder()
    wishes = {
        "genre": "Drama", "actor": "Ada Quill", "director": "Zoe Tarn", "writer": "Mo Reed",
        "language": "French", "year": "1988",
    }  # fmt: skip
    shifted = {name for name, row in fields.FIELDS.items() if row.may_shift}
    assert set(wishes) == {name for name in shifted if ten.catalog.values(name)}
    concepts = {fields.concept(name, value) for name, value in wishes.items()}
    for i in range(40):
        phrase = phrases.noun_phrase(wishes, stream(i, "wish"))
        assert concepts <= ten.topic_set(phrase), phrase


def stands_alone(field, value, **catalogue):
    """Whether one of forty phrases says a value right before the noun, without a cue."""
    phrases_said = set()
    for number in range(40):
        draw = stream(number, "alone")
        phrases_said.add(phrases.noun_phrase({field: value}, draw, "texting", **catalogue))
    return f"{value} movies" in phrases_said


def test_a_value_stands_alone_before_the_noun_only_where_it_tells_its_field():
    code = grounder().catalog.code
    assert stands_alone("actor", "Ada Quill", code=code)
    assert stands_alone("year", "1988", code=code)
    assert not stands_alone("actor", "Stig", code=code)  # a single name needs a cue
    assert not stands_alone("director", "Zoe Tarn", code=code)  # and so does a person of two roles
    assert not stands_alone("actor", "Ada Quill")


def test_small_letters_leave_values_as_they_are():
    slots = {"wish": "W", "one": "X"}
    texts = set()
    for number in range(80):
        texts.add(prompts.say("voices/texting", "refine", stream(number, "small"), small=True, **slots))
    assert set(re.findall("[A-Z]", " ".join(texts))) <= {"W", "X"}
    assert any("i like W" in text for text in texts)


def test_a_value_is_put_in_once_and_never_read_as_a_template():
    message = "costs $most {braces} ${fence} and 100 %"
    text = prompts.render("movies/topics", most=3, fence="abc", message=message)
    assert "at most 3, the most" in text
    assert message in text
    for value in ("$wish", "{a|b}", "100% $", "a|b"):
        assert value in phrases.question("question_plot", value, stream(3, "x"))
    assert text.count("abc") == 2  # the two marks; the value's own ${fence} stayed as it was
    assert '{"topics": ["...", "..."]}' in text


def test_unknown_prompts_and_names_are_errors_and_the_digest_is_that_of_the_words():
    with pytest.raises(InputError, match=r"missing: most; not in the file: mosst") as caught:
        prompts.render("movies/topics", mosst=3, fence="f", message="m")
    assert "it takes most, fence, message" in str(caught.value)
    refused("did you mean 'movies/topics'", prompts.source, "movies/topic")
    refused("unknown prompt", prompts.source, "../errors")
    words = prompts.source("movies/judge_coherence")
    assert prompts.digest("movies/judge_coherence") == hashlib.sha256(words.encode()).hexdigest()
    assert len({prompts.digest(name) for name in prompts.names()}) == len(prompts.names())


@pytest.mark.parametrize("name", prompts.names())
def test_every_prompt_renders_with_the_names_it_asks_for(name):
    needs = prompts.wanted(name)
    text = prompts.render(name, **{key: f"<{key}>" for key in needs})
    assert all(f"<{key}>" in text for key in needs)
    assert text == text.rstrip()


@given(st.text(max_size=200))
def test_any_text_comes_out_as_it_went_in(message):
    head, tail = prompts.render("movies/topics", most=1, fence="F", message="\0").split("\0")
    assert prompts.render("movies/topics", most=1, fence="F", message=message) == head + message + tail


def test_two_readers_who_knew_nothing_but_the_sentences_read_what_is_meant():
    """A new template of voice A has to be read anew: tests/helpers/shift_readings.tsv."""
    kinds_read = readings()
    templates = set()
    templates_read = set()
    right = {0: [], 1: []}
    for kind, number, text in shifts("user"):
        templates.add((kind, number))
        if text in kinds_read:
            templates_read.add((kind, number))
            for reader, answers in right.items():
                answers.append(kinds_read[text][reader] == kind)
    assert templates == templates_read
    for answers in right.values():
        assert sum(answers) >= 0.98 * len(answers)


@pytest.mark.parametrize("voice", prompts.USER_SETS)
@pytest.mark.parametrize(("struck", "right"), [((), 0.8), (blind_reader.STRUCK, 0.98)])
def test_a_reader_written_blind_is_right_wherever_it_knows_a_cue(voice, struck, right):
    """A list of cues that nobody fitted to the templates: what it does not know, it must not misread."""
    texts = every_text(prompts.USER_SETS[voice])
    patterns = blind_reader.compiled(struck)
    n_texts = 0
    n_read = 0
    wrong = []
    for kind in blind_reader.BLIND:
        for text in texts[f"shift_{kind}"]:
            n_texts += 1
            reading = blind_reader.read(text, patterns)
            n_read += reading != "none"
            if reading not in ("none", kind):
                wrong.append((kind, text, reading))
    assert n_read > 0.65 * n_texts
    assert len(wrong) <= (1 - right) * n_read, wrong[:5]


@pytest.mark.parametrize("voice", [name for name, voice in every().items() if voice.small_letters < 1])
def test_sentences_begin_with_a_capital_and_end_once(voice):
    slots = {"wish": "drama films by Ring Lardner Jr.", "old": "films in Polish", "bridge": "the director Ed Jr.",
             "one": "drama movie by Ring Lardner Jr.", "old_one": "movie in Polish", "title": "Iron Valley", "aside": "war films",
             "situation": "The kids are home."}  # fmt: skip
    name = prompts.USER_SETS[voice]
    sections = (s for s in prompts.sections(name) if s != "noun" and not s.endswith(("phrases", "bridges")))
    for section in sections:
        for i in range(60):
            text = prompts.say(name, section, stream(i, section), **slots)
            plain = text.replace("Jr...", "Jr,").replace("Jr.", "Jr").replace("...", ",")
            assert not re.search(r"[.!?] [a-z]", plain), text
            assert ".." not in text.replace("...", ""), text
            assert text.lstrip('"')[0].isupper(), text
