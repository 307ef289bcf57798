from .agreement import icc, krippendorff_alpha
from .analysis import Battery, battery, ladder
from .bootstrap import (
    bootstrap_estimates,
    cluster_bootstrap,
    cluster_bootstrap_correlation,
    cluster_bootstrap_differences,
)
from .design import Design
from .effects import auc
from .estimate import Estimate, cost_interval, p_in_words, ratio_interval, verdict
from .groups import adjust, holm
from .means import difference_of, mean_of, means_of, order_of, resolution_of, share_of
from .paired import friedman, mean_differences, sign_flip_pairs, wilcoxon_pairs
from .survival import kaplan_meier
from .tables import anova_table, tukey_table

__all__ = [
    "Battery",
    "Design",
    "Estimate",
    "adjust",
    "anova_table",
    "auc",
    "battery",
    "bootstrap_estimates",
    "cluster_bootstrap",
    "cluster_bootstrap_correlation",
    "cluster_bootstrap_differences",
    "cost_interval",
    "difference_of",
    "friedman",
    "holm",
    "icc",
    "kaplan_meier",
    "krippendorff_alpha",
    "ladder",
    "mean_differences",
    "mean_of",
    "means_of",
    "order_of",
    "p_in_words",
    "ratio_interval",
    "resolution_of",
    "share_of",
    "sign_flip_pairs",
    "tukey_table",
    "verdict",
    "wilcoxon_pairs",
]
