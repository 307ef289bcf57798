"""The contract of every catalogue field, so that a row in ``FIELDS`` is all it takes to add one."""

from dataclasses import replace

import pytest

from crs_lib.catalog import fields, lexicon, phrases, sources
from crs_lib.catalog import rules as evidence
from crs_lib.catalog.fields import ALL_FIELDS, FIELDS
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.rng import stream
from crs_lib.core.text import fold
from crs_lib.simulate.shifts import UserState
from tests.helpers import refused

SAMPLE = sources.load("sample+plot")
GROUNDER = Grounder(SAMPLE, tuple(ALL_FIELDS))
EACH = pytest.mark.parametrize("field", ALL_FIELDS.values(), ids=list(ALL_FIELDS))
# A field of other catalogues alone is taken through a run by tests/contract/test_new_members.py.
FILLED = [field for field in ALL_FIELDS.values() if SAMPLE.values(field.name)]
IN_SAMPLE = pytest.mark.parametrize("field", FILLED, ids=[field.name for field in FILLED])


@EACH
def test_a_field_is_named_once_and_has_a_place_of_its_own(field):
    assert ALL_FIELDS[field.name] is fields.get(field.name) is field
    assert fields.RELAXATION_ORDER.count(field.name) == 1
    assert [other.keep for other in ALL_FIELDS.values()].count(field.keep) == 1
    assert field.weight >= 1


@EACH
def test_values_are_clean_and_spelt_as_their_forms(field):
    assert field.clean(" ") == (None, "empty")
    for value in SAMPLE.values(field.name):
        assert field.clean(value) == (value, "")
    for value in SAMPLE.values(field.name)[:200]:
        forms = field.forms(value)
        assert forms[0] == fold(value)
        assert len(set(forms)) == len(forms)


@EACH
def test_other_spellings_clean_to_the_value(field):
    spellings = lexicon.spellings(field.aliases) if field.aliases else {}
    for value, aliases in spellings.items():
        for alias in aliases:
            assert field.clean(alias).value == value


@EACH
@pytest.mark.parametrize("form", ["war", "polish", "sting", "plain name"])
def test_the_rule_of_a_field_judges_any_form(field, form):
    assert callable(evidence.value_rule(field.rule, form, frozenset({"war", "sting"})))


@IN_SAMPLE
def test_every_value_is_found_where_it_is_named(field):
    for number, value in enumerate(SAMPLE.values(field.name)[::7]):
        text = f"Tonight {phrases.noun_phrase({field.name: value}, stream(number, 'contract'))}."
        assert SAMPLE.code(field.name, value) in GROUNDER.concepts(text), text


@IN_SAMPLE
def test_every_value_can_be_answered(field):
    for value in SAMPLE.values(field.name)[::11]:
        code = SAMPLE.code(field.name, value)
        assert code is not None
        assert SAMPLE.code(field.name, f" {value.lower()} ") == code
        if fold(value.upper()) == fold(value):  # not so for the dotless i
            assert SAMPLE.code(field.name, value.upper()) == code
        assert SAMPLE.support(field.name, value) >= 1
        assert SAMPLE.query({field.name: value}).items.tolist() == SAMPLE.items_with(code).tolist()


@IN_SAMPLE
def test_a_state_of_one_value_is_met_by_the_films_that_have_it(field):
    if field.may_shift:
        value = SAMPLE.values(field.name)[0]
        state = UserState({field.name: value}, field.name, 0)
        assert len(state.answers(SAMPLE)) == SAMPLE.support(field.name, value)


@EACH
def test_questions_end_in_answers(field):
    seen = []
    name = field.name
    while name in fields.QUESTIONS and name not in seen:
        seen.append(name)
        question = fields.QUESTIONS[name]
        assert question.cues
        for answer in question.answers:
            assert "$values" in answer
        assert bool(question.act) == bool(question.asks)
        name = question.instead
    assert name == "" or (name == field.name and not field.question), f"{seen} never ends at the plot"


@EACH
def test_what_is_said_of_a_film_names_its_values(field):
    for clause in (field.in_reply, field.in_prompt):
        if clause is not None:
            assert ("$values" in clause.text) != ("$list" in clause.text)
            assert clause.most >= 1
    assert field.in_reply is None or "$values" in field.in_reply.text


@pytest.mark.parametrize(("changes", "message"), [
    ({"in_tas": False}, r"field 'language' may shift but is not grounded; set in_tas, or not may_shift"),
    ({"phrases": ()}, r"field 'language' has no phrases; give one such as 'from \$value'"),
    ({"phrases": ("from there",)}, r"field 'language': the template 'from there' does not name \$value"),
    ({"bridges": ("there",)}, r"field 'language': the template 'there' does not name \$value"),
])  # fmt: skip
def test_a_row_that_cannot_work_is_refused(changes, message):
    refused(message, replace, FIELDS["language"], **changes)


def test_an_unknown_rule_is_refused_with_a_suggestion():
    message = r"unknown matching rule 'persn'; did .*'person'\? \(known: plain, "
    refused(message, evidence.value_rule, "persn", "war", frozenset())


def test_one_field_opens_a_conversation():
    assert [name for name, field in FIELDS.items() if field.goal] == [fields.GOAL_FIELD]
    assert FIELDS[fields.GOAL_FIELD].may_shift
    assert fields.CREDIT_FIELDS
