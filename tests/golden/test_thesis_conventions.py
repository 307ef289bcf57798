"""The thesis's older tables from its own 20-turn logs. CC and CR to 1e-9 with the supplied vocabulary. What
rests on LDA topics depends on the original's generator state and order of calls; the tolerances on means are
those that another seed of the original needs (recovery 3e-3, delay 0.08, interference 2e-3, CAS 1e-3).
"""

import json

import pytest

from crs_lib.metrics import base
from tests.helpers.thesis_data import external, folder, gap, merged, sessions

pytestmark = [*external, pytest.mark.slow]
LOG, REFERENCE = "logs_20turns", "logs_20turns_lda_sessions.csv"


def vocabulary():
    return "vocabulary", str(folder() / "reference" / "tfidf_vocabulary_4096.txt")


def scored():
    return sessions(LOG, "thesis_legacy", (("topic_model", str(folder() / "lda")), vocabulary()))


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
    apart = (both["num_topic_shifts"] - both["detail_n_shifts"]).abs()
    assert apart.mean() < 0.1
    assert (apart == 0).mean() > 0.99
    column = "context_adaptation_score"
    ranks = both.groupby("model")[[f"{column}_original", column]].mean().rank()
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


THESIS_GROUNDED_LOG, CONVENTION = "logs_50turns", "thesis_grounded"
SAME = (
    "topic_recovery_rate", "avg_recovery_delay", "recovery_rate_cosine", "avg_recovery_delay_cosine",
    "cross_coherence", "context_retention", "topic_interference", "context_adaptation_score",
    "semantic_similarity_mean", "dst_precision_mean", "dst_recall_mean", "dst_f1_mean", "dst_joint_accuracy_mean",
)  # fmt: skip
COUNTS = {
    "missing_concepts_total": "detail_missing_concepts",
    "hallucinated_concepts_total": "detail_hallucinated_concepts", "n_shift_points": "detail_n_shifts",
    "n_both_empty_turns": "detail_n_both_empty_turns",
}  # fmt: skip


def grounded(extractor):
    return sessions(THESIS_GROUNDED_LOG, CONVENTION, (("extractor", extractor), vocabulary()))


@pytest.mark.parametrize(("extractor", "reference"), [("embed", "embed"), ("substring", "catalog")])
def test_every_session_equals_the_original(extractor, reference):
    both = merged(grounded(extractor), f"logs_50turns_{reference}_sessions.csv")
    for column in SAME:
        assert gap(both, column) < 1e-9, column
    for column, ours in COUNTS.items():
        assert gap(both, column, ours) == 0, column


def test_satisfaction_and_the_published_means_equal_the_original():
    both = merged(grounded("substring"), "logs_50turns_catalog_sessions.csv")
    assert gap(both, "recommendation_satisfaction_mean") < 1e-9
    published = json.loads((folder() / "published.json").read_text())[THESIS_GROUNDED_LOG]["models"]
    means = grounded("embed").groupby("model").mean(numeric_only=True)
    assert set(published) == set(means.index)
    for model, row in published.items():
        for column in ("topic_recovery_rate", "avg_recovery_delay", "topic_interference", "cross_coherence",
                       "context_retention", "context_adaptation_score"):  # fmt: skip
            assert means.loc[model, column] == pytest.approx(row[column], abs=1e-9), (model, column)


def test_without_the_vocabulary_only_the_similarity_moves_and_little():
    free = sessions(THESIS_GROUNDED_LOG, CONVENTION, (("extractor", "substring"),))
    both = merged(free, "logs_50turns_catalog_sessions.csv")
    assert gap(both, "cross_coherence") < 1e-9
    assert 0 < gap(both, "semantic_similarity_mean") < 2e-2
    means = both.groupby("model")[["semantic_similarity_mean_original", "semantic_similarity_mean"]].mean()
    assert (means.iloc[:, 0] - means.iloc[:, 1]).abs().max() < 5e-4


def test_the_extractors_disagree_about_the_ranking():
    order = {
        name: grounded(name).groupby("model")["topic_adaptation_score"].mean().sort_values().index.tolist()
        for name in ("embed", "substring")
    }
    assert order["embed"] == ["qwen:7b", "mistral:7b", "gemma:2b"]
    assert order["substring"] == ["gemma:2b", "mistral:7b", "qwen:7b"]


def test_the_default_finds_nothing_inside_words():
    """What the thesis's substrings found thousands of times and no text says."""
    for name, value in [("genre", "reference"), ("genre", "ex"), ("language", "ger"), ("actor", "eve")]:
        wrong = f"{name}={value}"
        assert any(wrong in dict(row) for row in grounded("substring")["detail_top_hallucinated"]), wrong
    ours = sessions(THESIS_GROUNDED_LOG, "default", ())
    assert ours["cross_coherence"].notna().all()
    assert (ours["detail_n_both_empty_turns"] > 0).any()
    never = ours["topic_recovery_rate"] == 0
    assert never.any() and ours.loc[never, "avg_recovery_delay"].isna().all()


def test_logs_without_straight_users_say_nothing_of_the_cost_of_a_shift():
    ours = sessions(THESIS_GROUNDED_LOG, "default", ())
    own = ("stale", "wrong", base.PRIMARY)  # over the replies of the logs alone
    costs = [one.name for one in base.scored() if one.primary and one.name not in own]
    assert ours[costs].isna().all(axis=None)
    assert ours["topic_recovery_rate"].notna().any()
