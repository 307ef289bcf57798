from .agreement import icc, krippendorff_alpha, masi_distance
from .analysis import Ladder, ladder
from .bootstrap import cluster_bootstrap, cluster_bootstrap_correlation, cluster_bootstrap_differences
from .checks import assumptions, levene, mauchly, normality
from .effects import (
    auc,
    cliffs_delta,
    cohens_dz,
    omega_squared,
    paired_effects,
    partial_eta_squared,
    rank_biserial,
)
from .groups import games_howell, one_way_anova, tukey_hsd, welch_anova
from .mixed import MixedModel, clustered_ols, mixed_model
from .multiple import adjust, benjamini_hochberg, holm
from .outcomes import anova_table, tukey_table
from .paired import friedman, mean_differences, rm_anova, sign_flip_pairs, tost_pairs, wilcoxon_pairs
from .plan import Plan, read_plan
from .power import design_effect, minimum_detectable_effect, power_curve, sessions_needed, variance_components
from .ranking import jonckheere_trend, kendall_w, leaderboard, mean_ranks, page_trend
from .resample import Estimates, bootstrap_estimates, bootstrap_weights
from .survival import hazard_ratios, kaplan_meier, logrank, restricted_mean
from .words import conclusions, interval_in_words, p_in_words

__all__ = [
    "Estimates",
    "Ladder",
    "MixedModel",
    "Plan",
    "adjust",
    "anova_table",
    "assumptions",
    "auc",
    "benjamini_hochberg",
    "bootstrap_estimates",
    "bootstrap_weights",
    "cliffs_delta",
    "cluster_bootstrap",
    "cluster_bootstrap_correlation",
    "cluster_bootstrap_differences",
    "clustered_ols",
    "cohens_dz",
    "conclusions",
    "design_effect",
    "friedman",
    "games_howell",
    "hazard_ratios",
    "holm",
    "icc",
    "interval_in_words",
    "jonckheere_trend",
    "kaplan_meier",
    "kendall_w",
    "krippendorff_alpha",
    "ladder",
    "leaderboard",
    "levene",
    "logrank",
    "masi_distance",
    "mauchly",
    "mean_differences",
    "mean_ranks",
    "minimum_detectable_effect",
    "mixed_model",
    "normality",
    "omega_squared",
    "one_way_anova",
    "p_in_words",
    "page_trend",
    "paired_effects",
    "partial_eta_squared",
    "power_curve",
    "rank_biserial",
    "read_plan",
    "restricted_mean",
    "rm_anova",
    "sessions_needed",
    "sign_flip_pairs",
    "tost_pairs",
    "tukey_hsd",
    "tukey_table",
    "variance_components",
    "welch_anova",
    "wilcoxon_pairs",
]
