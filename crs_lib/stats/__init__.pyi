from .agreement import icc, krippendorff_alpha
from .analysis import Ladder, anova_table, ladder, tukey_table
from .design import Design
from .effects import auc
from .estimates import (
    CostInterval,
    bootstrap_estimates,
    cluster_bootstrap,
    cluster_bootstrap_correlation,
    cluster_bootstrap_differences,
    cost_interval,
    ratio_interval,
)
from .findings import (
    Estimate,
    Finding,
    Sentences,
    finding_count,
    finding_gap,
    finding_limit,
    finding_mean,
    finding_none,
    finding_rank,
    finding_share,
    learnt,
    mean_of,
    not_shown,
)
from .groups import adjust, holm
from .paired import friedman, mean_differences, sign_flip_pairs, wilcoxon_pairs
from .power import facet_variances, scenarios_needed
from .survival import kaplan_meier
from .words import conclusions, conclusions_by_subject, listed

__all__ = [
    "CostInterval",
    "Design",
    "Estimate",
    "Finding",
    "Ladder",
    "Sentences",
    "adjust",
    "anova_table",
    "auc",
    "bootstrap_estimates",
    "cluster_bootstrap",
    "cluster_bootstrap_correlation",
    "cluster_bootstrap_differences",
    "conclusions",
    "conclusions_by_subject",
    "cost_interval",
    "facet_variances",
    "finding_count",
    "finding_gap",
    "finding_limit",
    "finding_mean",
    "finding_none",
    "finding_rank",
    "finding_share",
    "friedman",
    "holm",
    "icc",
    "kaplan_meier",
    "krippendorff_alpha",
    "ladder",
    "learnt",
    "listed",
    "mean_differences",
    "mean_of",
    "not_shown",
    "ratio_interval",
    "scenarios_needed",
    "sign_flip_pairs",
    "tukey_table",
    "wilcoxon_pairs",
]
