"""Derived conventions: their printed names say what differs, and parse back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core.errors import InputError
from crs_lib.figures import layout
from crs_lib.metrics import conventions

WEIGHTS = st.floats(0, 10, allow_nan=False)


def test_a_changed_knob_stands_in_the_name_and_knobs_add_up():
    rule = conventions.derived(conventions.get("thesis_grounded"), {"gamma": 0.5, "alpha": 1, "window": 3})
    assert rule.name == "thesis_grounded(gamma=0.5)"
    assert (rule.tas.gamma, rule.tas.alpha, rule.window) == (0.5, 1, 3)
    assert conventions.derived(conventions.get("default"), {}) == conventions.get("default")
    rule = conventions.derived(conventions.get("thesis_grounded(gamma=0.5)"), {"window": 5})
    assert rule.name == "thesis_grounded(gamma=0.5, window=5)"
    again = conventions.derived(rule, {"gamma": 1.0})
    assert again.name == "thesis_grounded(window=5)"
    with pytest.raises(InputError, match="recovery_cc is 3"):
        conventions.get("thesis_grounded(recovery_cc=3)")
    with pytest.raises(InputError, match="expected a finite number"):
        conventions.get("thesis_grounded(gamma=nan)")


@given(name=st.sampled_from(list(conventions.CONVENTIONS)), data=st.data())
@pytest.mark.slow
def test_every_derived_name_parses_back(name, data):
    base = conventions.get(name)
    values = {
        knob: {
            "window": st.integers(1, 50), "extractor": st.sampled_from(["words", "fuzzy"]),
            "similarity": st.sampled_from(["tfidf", "minilm"]), "topics": st.sampled_from(["lda", "heuristic"]),
            **dict.fromkeys(("recovery_cc", "recovery_cr", *conventions._LIMITS), st.floats(0, 1)),
        }.get(knob, WEIGHTS)
        for knob in conventions.KNOBS[base.scorer]
    }  # fmt: skip
    chosen = data.draw(st.sets(st.sampled_from(sorted(values))))
    rule = conventions.derived(base, {knob: data.draw(values[knob]) for knob in sorted(chosen)})
    assert conventions.get(rule.name) == rule
    assert conventions.base_of(rule.name) == name


def test_each_convention_is_led_by_its_own_score():
    assert layout.outcomes("thesis_grounded(gamma=0.5)")[0] == "topic_adaptation_score"
    assert layout.outcomes("thesis_legacy")[0] == "context_adaptation_score"
    assert layout.outcomes("default")[0] not in ("topic_adaptation_score", "context_adaptation_score")
    assert layout.shown("thesis_legacy", "metric_bars", ["cross_coherence"]) == ["cross_coherence"]
