from .adaptation import adaptation_of
from .agreement import icc, krippendorff_alpha
from .analysis import Battery, battery, ladder
from .bootstrap import (
    bootstrap_estimates,
    cluster_bootstrap,
    cluster_bootstrap_correlation,
    cluster_bootstrap_differences,
)
from .bounded import mean_interval, ratio_interval
from .design import Design, Range
from .effects import auc
from .estimate import Estimate, p_in_words, verdict
from .groups import adjust, holm
from .means import difference_of, mean_of, means_of, order_of, resolution_of, share_of
from .paired import friedman, mean_tests, sign_flip_pairs, wilcoxon_pairs
from .survival import kaplan_meier
from .tables import anova_table, tukey_table

__all__ = [
    "Battery",
    "Design",
    "Estimate",
    "Range",
    "adaptation_of",
    "adjust",
    "anova_table",
    "auc",
    "battery",
    "bootstrap_estimates",
    "cluster_bootstrap",
    "cluster_bootstrap_correlation",
    "cluster_bootstrap_differences",
    "difference_of",
    "friedman",
    "holm",
    "icc",
    "kaplan_meier",
    "krippendorff_alpha",
    "ladder",
    "mean_interval",
    "mean_of",
    "mean_tests",
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
