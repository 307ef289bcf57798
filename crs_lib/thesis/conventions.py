"""The thesis's two ways of scoring, its newer, grounded version and its older one: conventions, the constants
that they are made of under the thesis's names, and their scorers.
"""

from typing import TYPE_CHECKING

from crs_lib.catalog import sources
from crs_lib.core import paths, tables
from crs_lib.evaluate.choose import SCORERS, SPACES, OtherArms, PreparedScorer, ScoringConfig
from crs_lib.metrics.constructs import CONSTRUCTS
from crs_lib.metrics.conventions import CONVENTIONS, CasWeights, Convention, TasWeights
from crs_lib.thesis import extractors, grounded, legacy, replay, topics
from crs_lib.thesis.catalog import ThesisCatalog
from crs_lib.thesis.similarity import SentenceSpace, read_vocabulary

if TYPE_CHECKING:
    from crs_lib.llm import LLM

ALIGNMENT_THRESHOLD = 0.65
CAS_WEIGHTS = CasWeights(recovery=0.01, delay=0.02, interference=0.02, coherence=0.30, retention=0.15)
PEPPER = tuple(CONSTRUCTS)  # what its judge scores, after PEPPER (Kim et al., 2024)
RECOVERY_WINDOW = 3
SIM_TOPIC_SHIFT = 0.55
TAS_WEIGHTS = TasWeights(alpha=1.0, beta=1.0, gamma=1.0)
TOPIC_EXTRACTOR_MODE = "lda"
TOPIC_JACCARD_SHIFT = 0.35

_CLEANING = "thesis"  # of the catalogue
_TIMES = ("window", "recovery_cc", "recovery_cr")
_LIMITS = ("alignment", "shift_similarity", "shift_jaccard")
_OUTCOMES = ("cross_coherence", "context_retention", "topic_interference")
_RECOVERY = ("topic_recovery_rate", "avg_recovery_delay")


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
        window=RECOVERY_WINDOW,
        within_segment=False,
        tas=TAS_WEIGHTS,
        scorer="grounded",
        catalog=_CLEANING,
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
        catalog=_CLEANING,
        shift_source="similarity",
        undefined="zero",
        similarity="tfidf",
        topics=TOPIC_EXTRACTOR_MODE,
        cas=CAS_WEIGHTS,
        alignment=ALIGNMENT_THRESHOLD,
        shift_similarity=SIM_TOPIC_SHIFT,
        shift_jaccard=TOPIC_JACCARD_SHIFT,
    )


@SCORERS.register("grounded", metrics=lambda: grounded.METRICS)
def _grounded_scorer(config: ScoringConfig, others: OtherArms, model: "str | LLM") -> PreparedScorer:
    """Concepts against the thesis's index; no other arm is looked at."""
    catalog = ThesisCatalog.load(config.catalog)
    name = config.chosen.extractor
    inputs = extractors.ExtractorInputs(catalog.space, None, model)
    extractor = extractors.create(name, inputs)
    space = _space(config, catalog)
    embedder = f"sentences: {space.name}"
    if extractor.embedder:
        embedder = f"{extractor.embedder}; {embedder}"
    origin = config.origin(name, embedder, _inputs(config))
    scorer = grounded.GroundedScorer(catalog, extractor, space, config.chosen)
    return PreparedScorer(scorer, origin, grounded.METRICS)


@SCORERS.register("legacy", metrics=lambda: legacy.METRICS)
def _legacy_scorer(config: ScoringConfig, others: OtherArms, model: "str | LLM") -> PreparedScorer:
    """Topics and similarities of texts; no other arm is looked at."""
    catalog = ThesisCatalog.load(config.catalog)
    name = config.chosen.topics
    extractor = topics.create(name, model=config.topic_model or None, llm=model)
    space = _space(config, catalog)
    inputs = _inputs(config)
    if isinstance(extractor, topics.Lda):
        inputs["topic model"] = tables.sha256(extractor.folder / "exp_elog_beta.npy")
    kind = legacy.LegacyScorer
    if isinstance(extractor, replay.ReplayedLda):
        kind = replay.ReplayedScorer
    embedder = f"topics: {extractor.name}; sentences: {space.name}"
    origin = config.origin(name, embedder, inputs)
    return PreparedScorer(kind(space, extractor, config.chosen), origin, legacy.METRICS)


def _space(config: ScoringConfig, catalog: ThesisCatalog) -> SentenceSpace:
    """The sentence space of a scoring; TF-IDF is fitted on the catalogue."""
    file = _vocabulary(config)
    words = read_vocabulary(file) if file else None
    entry = SPACES.get(config.chosen.similarity)
    space: SentenceSpace = entry.make(catalog.documents, words)
    return space


def _vocabulary(config: ScoringConfig) -> str:
    """The file of the sentence space's features: the one named, else the thesis's for its own catalogue."""
    facts = SPACES.get(config.chosen.similarity).facts
    if config.vocabulary or not facts.get("vocabulary"):
        return config.vocabulary
    return str(topics.vocabulary_of(config.catalog) or "")


def _inputs(config: ScoringConfig) -> dict[str, str]:
    """Names and content hashes of the inputs of a scoring."""
    inputs = dict(config.inputs)
    source = sources.parted(config.catalog)[0]
    if source == sources.SAMPLE:
        inputs["catalog"] = sources.content_hash(sources.load(sources.SAMPLE))
    else:
        inputs["catalog"] = tables.sha256(paths.given(source))
    file = _vocabulary(config)
    if file:
        inputs["vocabulary"] = tables.sha256(paths.given(file))
    return inputs
