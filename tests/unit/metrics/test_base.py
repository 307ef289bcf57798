"""The list of metrics: declared once, found by name."""

import pytest

from crs_lib.core.errors import InputError
from crs_lib.metrics import base


def test_a_name_is_declared_once_and_an_unknown_one_refused_with_a_suggestion():
    with pytest.raises(InputError, match="'cross_coherence' is registered twice"):
        base.declare(base.get("cross_coherence"))
    with pytest.raises(InputError, match="unknown metric 'cross_coherense'; did you mean 'cross_coherence'"):
        base.get("cross_coherense")


def test_describe_shows_every_metric_once_and_by_level():
    table = base.describe()
    assert sorted(table["metric"]) == sorted(base.METRICS.names())
    sessions = base.describe("session")
    assert set(sessions["level"]) == {"session"} and len(sessions) < len(table)
    row = table.set_index("metric").loc["topic_adaptation_score", ["range", "short", "direction", "mark"]]
    assert row.tolist() == ["[-1, 2]", "TAS", base.HIGHER, base.NOT_VALID]


def test_what_fails_the_gate_or_has_none_is_marked():
    assert (base.get("normalised_gain").mark, base.get("normalised_gain").label) == ("", "gain")
    assert base.get("item_tas").label == f"item TAS {base.DAGGER}"
    assert base.get("topic_adaptation_score").label == f"TAS {base.DAGGER}"
    assert (base.get("novelty").mark, base.get("novelty").label) == (base.DESCRIPTIVE, "non-repetition")
    assert base.get("missing_concepts").mark == base.UNGATED
    assert base.get("coherence").mark == base.UNGATED  # a construct of judges
