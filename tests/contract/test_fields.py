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
EACH = pytest.mark.parametrize("row", ALL_FIELDS.values(), ids=list(ALL_FIELDS))
# A field of other catalogues alone is taken through a run by tests/contract/test_new_members.py.
_FILLED = [name for name in ALL_FIELDS if SAMPLE.values(name)]
IN_SAMPLE = pytest.mark.parametrize("row", [ALL_FIELDS[name] for name in _FILLED], ids=_FILLED)


@EACH
def test_a_field_is_named_like_its_row_and_its_values_are_clean_and_spelt_as_its_forms(row):
    assert ALL_FIELDS[row.name] is fields.get(row.name) is row
    assert fields.RELAXATION_ORDER.count(row.name) == 1
    assert [other.keep for other in ALL_FIELDS.values()].count(row.keep) == 1 and row.weight >= 1
    assert row.clean(" ") == (None, "empty")
    for value in SAMPLE.values(row.name):
        assert row.clean(value) == (value, "")
    for value in SAMPLE.values(row.name)[:200]:
        forms = row.forms(value)
        assert forms[0] == fold(value) and len(set(forms)) == len(forms)
    for value, aliases in (lexicon.spellings(row.aliases) if row.aliases else {}).items():
        for alias in aliases:
            assert row.clean(alias).value == value
    for form in ("war", "polish", "sting", "plain name"):
        assert callable(evidence.value_rule(row.rule, form, frozenset({"war", "sting"})))


@IN_SAMPLE
def test_every_value_is_found_where_it_is_named_and_can_be_answered(row):
    values = SAMPLE.values(row.name)
    for i, value in enumerate(values[::7]):
        said = f"Tonight {phrases.noun_phrase({row.name: value}, stream(i, 'contract'))}."
        assert SAMPLE.code(row.name, value) in GROUNDER.concepts(said), said
    for value in values[::11]:
        code = SAMPLE.code(row.name, value)
        assert code is not None and SAMPLE.code(row.name, f" {value.lower()} ") == code
        if fold(value.upper()) == fold(value):  # not so for the dotless i
            assert SAMPLE.code(row.name, value.upper()) == code
        assert SAMPLE.support(row.name, value) >= 1
        assert SAMPLE.query({row.name: value}).items.tolist() == SAMPLE.items_with(code).tolist()
    if row.may_shift:
        state = UserState({row.name: values[0]}, row.name, 0)
        assert len(state.answers(SAMPLE)) == SAMPLE.support(row.name, values[0])


@EACH
def test_questions_end_in_answers_and_what_is_said_of_a_film_names_its_values(row):
    seen, name = [], row.name
    while name in fields.QUESTIONS and name not in seen:
        seen.append(name)
        asked = fields.QUESTIONS[name]
        assert asked.cues and all("$values" in text for text in asked.answers)
        assert bool(asked.act) == bool(asked.asks)
        name = asked.instead
    assert name == "" or (name == row.name and not row.question), f"{seen} never ends at the plot"
    for clause in (row.in_reply, row.in_prompt):
        assert clause is None or ("$values" in clause.text) + ("$list" in clause.text) == 1
        assert clause is None or clause.most >= 1
    assert row.in_reply is None or "$values" in row.in_reply.text


@pytest.mark.parametrize(("changes", "message"), [
    ({"in_tas": False}, r"field 'language' may shift but is not grounded; set in_tas, or not may_shift"),
    ({"phrases": ()}, r"field 'language' has no phrases; give one such as 'from \$value'"),
    ({"phrases": ("from there",)}, r"field 'language': the template 'from there' does not name \$value"),
    ({"bridges": ("there",)}, r"field 'language': the template 'there' does not name \$value"),
])  # fmt: skip
def test_a_row_that_cannot_work_is_refused(changes, message):
    refused(message, replace, FIELDS["language"], **changes)


def test_one_field_opens_a_conversation_and_an_unknown_rule_is_refused_with_a_suggestion():
    told = r"unknown matching rule 'persn'; did .*'person'\? \(known: plain, "
    refused(told, evidence.value_rule, "persn", "war", frozenset())
    assert [name for name, row in FIELDS.items() if row.goal] == [fields.GOAL_FIELD]
    assert FIELDS[fields.GOAL_FIELD].may_shift and fields.CREDIT_FIELDS
