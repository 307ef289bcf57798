"""The list of metrics, and the record of a turn: parts are computed once, and concepts are compared by key."""

import math

import pytest

from crs_lib.core.dialogue import Pair, Turn
from crs_lib.core.errors import InputError
from crs_lib.metrics import base, conventions, overlap
from crs_lib.metrics.records import Background, SessionRecord, Text, TurnRecord, mean_defined
from tests.helpers.films import grounder

TEN = grounder()


def turn(user=(), system=(), **changes):
    """A turn whose sides name these concepts."""
    rule = conventions.Convention(**changes)
    return TurnRecord(
        number=1, pair=Pair(1, Turn("USER", ""), Turn("SYSTEM", "")), user=Text((), frozenset(user)),
        system=Text((), frozenset(system)), constraints=frozenset(), exclusions=frozenset(),
        dropped=frozenset(), asked=True, items=(), facts=(), seen=frozenset(), since_shift=None, before=None,
        background=Background(TEN.catalog, TEN, rule),
    )  # fmt: skip


def test_parts_are_computed_once_and_sessions_average_what_is_defined():
    calls = []
    first, second = turn(), turn()
    assert [one.once(calls.append) for one in (first, first, second, first)] == [None] * 4
    assert calls == [first, second]
    turns = [turn({1}, {1}), turn(), turn({1}, {2})]
    session = SessionRecord(turns, [], turns[0].background)
    assert session.mean(overlap.cross_coherence) == 1 / 2
    assert session.values(overlap.cross_coherence)[0::2] == [1, 0]
    assert math.isnan(session.values(overlap.cross_coherence)[1])
    assert (mean_defined([1, math.nan, 3]), mean_defined([0])) == (2, 0)
    assert math.isnan(mean_defined([])) and math.isnan(mean_defined([math.nan]))


def test_what_is_missing_and_what_is_new_are_sorted_keys():
    names = (("genre", "Drama"), ("actor", "Ada Quill"), ("year", "1951"))
    drama, ada, year = codes = [TEN.catalog.code(*pair) for pair in names]
    one = turn({drama, ada}, {ada, year})
    assert overlap.missing_concepts(one) == ["genre=drama"]
    assert overlap.hallucinated_concepts(one) == ["year=1951"]
    assert overlap.missing_concepts(turn(codes, {year})) == ["actor=ada quill", "genre=drama"]
    assert (overlap.missing_concepts(turn()), overlap.hallucinated_concepts(turn())) == ([], [])


def test_a_name_is_declared_once_and_an_unknown_one_refused_with_a_suggestion():
    with pytest.raises(InputError, match="'cross_coherence' is registered twice"):
        base.declare(base.get("cross_coherence"))
    with pytest.raises(InputError, match="unknown metric 'cross_coherense'; did you mean 'cross_coherence'"):
        base.get("cross_coherense")


def test_metrics_are_described_and_marked_by_the_gate():
    table = base.describe()
    assert sorted(table["metric"]) == sorted(base.METRICS.names())
    sessions = base.describe("session")
    assert set(sessions["level"]) == {"session"} and len(sessions) < len(table)
    row = table.set_index("metric").loc["topic_adaptation_score", ["range", "short", "direction", "mark"]]
    assert row.tolist() == ["[-1, 2]", "TAS", base.HIGHER, base.NOT_VALID]
    assert (base.get("normalised_gain").mark, base.get("normalised_gain").label) == ("", "gain")
    assert base.get("item_tas").label == f"item TAS {base.DAGGER}"
    assert base.get("topic_adaptation_score").label == f"TAS {base.DAGGER}"
    assert (base.get("novelty").mark, base.get("novelty").label) == (base.DESCRIPTIVE, "non-repetition")
    assert base.get("missing_concepts").mark == base.UNGATED
    assert base.get("coherence").mark == base.UNGATED  # a construct of judges
