"""The thesis's older tables from its own 20-turn logs.

CC and CR to 1e-9 with the supplied vocabulary. What rests on LDA topics depends on the original's generator
state and order of calls; the tolerances on means are those that another seed of the original needs
(recovery 3e-3, delay 0.08, interference 2e-3, CAS 1e-3).
"""

import pytest

from tests.helpers.thesis_data import external, folder, gap, merged, sessions

pytestmark = [*external, pytest.mark.slow]
LOG, REFERENCE = "logs_20turns", "logs_20turns_lda_sessions.csv"


def scored():
    vocabulary = str(folder() / "reference" / "tfidf_vocabulary_4096.txt")
    return sessions(
        LOG, "thesis_legacy", (("topic_model", str(folder() / "lda")), ("vocabulary", vocabulary))
    )


def differences(both, column):
    means = both.groupby("model")[[f"{column}_original", column]].mean()
    return (means.iloc[:, 0] - means.iloc[:, 1]).abs().max()


@pytest.mark.full
def test_text_similarities_equal_the_original():
    both = merged(scored(), REFERENCE)
    assert len(both) == 3000
    assert gap(both, "cross_coherence") < 1e-9
    assert gap(both, "context_retention") < 1e-9


def test_topic_columns_shifts_and_ranking_agree_within_a_change_of_seed():
    both = merged(scored(), REFERENCE)
    for column, tolerance in [("topic_recovery_rate", 3e-3), ("avg_recovery_delay", 0.08),
                              ("topic_interference", 2e-3), ("context_adaptation_score", 1e-3)]:  # fmt: skip
        assert differences(both, column) < tolerance, column
    assert ((both["topic_recovery_rate_original"] - both["topic_recovery_rate"]).abs() < 1e-9).mean() > 0.85
    both = merged(scored(), REFERENCE)
    apart = (both["num_topic_shifts"] - both["detail_n_shifts"]).abs()
    assert apart.mean() < 0.1
    assert (apart == 0).mean() > 0.99
    both = merged(scored(), REFERENCE).groupby("model")
    column = "context_adaptation_score"
    ranks = both[[f"{column}_original", column]].mean().rank()
    assert (ranks.iloc[:, 0] == ranks.iloc[:, 1]).all()


def test_any_deterministic_vocabulary_comes_close():
    """Topics do not enter these columns, so the quick ones will do."""
    both = merged(sessions(LOG, "thesis_legacy", (("topics", "heuristic"),)), REFERENCE)
    for column in ("cross_coherence", "context_retention"):
        assert 0 < differences(both, column) < 1.5e-3


def test_late_recoveries_and_unrecoverable_segments_are_counted():
    """Most recoveries come after the next shift was detected, and half of the segments have no topic at all."""
    frame = scored()
    late = frame["detail_n_recovered_late"].sum() / frame["detail_n_recovered"].sum()
    assert 0.7 < late < 0.85
    without = frame["detail_n_segments_without_topics"].sum() / (frame["detail_n_shifts"] + 1).sum()
    assert without == pytest.approx(0.51, abs=0.02)
