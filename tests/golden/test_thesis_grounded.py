"""The thesis's grounded tables from its own 50-turn logs: every session, every column, to 1e-9.

The tolerance is that of the order of floating-point sums; nothing here is sampled or fitted.
"""

import json

import pytest

from crs_lib.metrics import base
from tests.helpers.thesis_data import external, folder, gap, merged, sessions

pytestmark = [*external, pytest.mark.slow]
LOG, CONVENTION = "logs_50turns", "thesis_grounded"
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


def scored(extractor):
    vocabulary = str(folder() / "reference" / "tfidf_vocabulary_4096.txt")
    return sessions(LOG, CONVENTION, (("extractor", extractor), ("vocabulary", vocabulary)))


@pytest.mark.parametrize(("extractor", "reference"), [("embed", "embed"), ("substring", "catalog")])
def test_every_session_equals_the_original(extractor, reference):
    both = merged(scored(extractor), f"logs_50turns_{reference}_sessions.csv")
    for column in SAME:
        assert gap(both, column) < 1e-9, column
    for column, ours in COUNTS.items():
        assert gap(both, column, ours) == 0, column


def test_satisfaction_and_the_published_means_equal_the_original():
    both = merged(scored("substring"), "logs_50turns_catalog_sessions.csv")
    assert gap(both, "recommendation_satisfaction_mean") < 1e-9
    published = json.loads((folder() / "published.json").read_text())[LOG]["models"]
    means = scored("embed").groupby("model").mean(numeric_only=True)
    assert set(published) == set(means.index)
    for model, row in published.items():
        for column in ("topic_recovery_rate", "avg_recovery_delay", "topic_interference", "cross_coherence",
                       "context_retention", "context_adaptation_score"):  # fmt: skip
            assert means.loc[model, column] == pytest.approx(row[column], abs=1e-9), (model, column)


def test_without_the_vocabulary_only_the_similarity_moves_and_little():
    free = sessions(LOG, CONVENTION, (("extractor", "substring"),))
    both = merged(free, "logs_50turns_catalog_sessions.csv")
    assert gap(both, "cross_coherence") < 1e-9
    assert 0 < gap(both, "semantic_similarity_mean") < 2e-2
    means = both.groupby("model")[["semantic_similarity_mean_original", "semantic_similarity_mean"]].mean()
    assert (means.iloc[:, 0] - means.iloc[:, 1]).abs().max() < 5e-4


def test_the_extractors_disagree_about_the_ranking():
    order = {
        name: scored(name).groupby("model")["topic_adaptation_score"].mean().sort_values().index.tolist()
        for name in ("embed", "substring")
    }
    assert order["embed"] == ["qwen:7b", "mistral:7b", "gemma:2b"]
    assert order["substring"] == ["gemma:2b", "mistral:7b", "qwen:7b"]


def test_the_default_finds_nothing_inside_words():
    """What the thesis's substrings found thousands of times and no text says."""
    for name, value in [("genre", "reference"), ("genre", "ex"), ("language", "ger"), ("actor", "eve")]:
        wrong = f"{name}={value}"
        assert any(wrong in dict(row) for row in scored("substring")["detail_top_hallucinated"]), wrong
    ours = sessions(LOG, "default", ())
    assert ours["cross_coherence"].notna().all()
    assert (ours["detail_n_both_empty_turns"] > 0).any()
    never = ours["topic_recovery_rate"] == 0
    assert never.any() and ours.loc[never, "avg_recovery_delay"].isna().all()


def test_logs_without_straight_users_say_nothing_of_the_cost_of_a_shift():
    ours = sessions(LOG, "default", ())
    costs = [one.name for one in base.scored() if one.primary and one.name not in ("stale", "wrong")]
    assert ours[costs].isna().all(axis=None)
    assert ours["topic_recovery_rate"].notna().any()
