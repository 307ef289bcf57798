"""The thesis's two ways of scoring as conventions: its newer, grounded version and its older one."""

from crs_lib.metrics.conventions import CONVENTIONS, CasWeights, Convention, TasWeights

CLEANING = "thesis"  # of the catalogue
_TIMES = ("window", "recovery_cc", "recovery_cr")
_LIMITS = ("alignment", "shift_similarity", "shift_jaccard")
_OUTCOMES = ("cross_coherence", "context_retention", "topic_interference")
_RECOVERY = ("topic_recovery_rate", "avg_recovery_delay")
_OLDER_CAS = CasWeights(recovery=0.01, delay=0.02, interference=0.02, coherence=0.30, retention=0.15)


@CONVENTIONS.register(
    "thesis_grounded",
    knobs=(*TasWeights._fields, *_TIMES, "extractor", "similarity"),
    outcomes=("topic_adaptation_score", *_OUTCOMES, *_RECOVERY),
)
def _grounded() -> Convention:
    """The grounded version (its "TAS" tables): overlap of the concepts of utterance and reply."""
    return Convention(
        name="thesis_grounded",
        extractor="embed",
        empty="one",
        clip=True,
        within_segment=False,
        scorer="grounded",
        catalog=CLEANING,
        undefined="rate_zero",
        similarity="tfidf",
    )


@CONVENTIONS.register(
    "thesis_legacy",
    knobs=(*CasWeights._fields, "similarity", "topics", *_LIMITS),
    outcomes=("context_adaptation_score", *_OUTCOMES, *_RECOVERY),
)
def _legacy() -> Convention:
    """The older version (its "CAS" tables): similarity of texts and agreement of topics."""
    return Convention(
        name="thesis_legacy",
        extractor="",
        empty="zero",
        within_segment=False,
        scorer="legacy",
        catalog=CLEANING,
        shift_source="similarity",
        undefined="zero",
        similarity="tfidf",
        topics="lda",
        cas=_OLDER_CAS,
    )
