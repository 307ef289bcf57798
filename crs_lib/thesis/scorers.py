"""The scorers of the thesis's conventions, each made from a way of scoring."""

from typing import TYPE_CHECKING

from crs_lib.catalog import sources
from crs_lib.core import paths, tables
from crs_lib.evaluate.choose import SCORERS, SPACES, PreparedScorer, ScoringConfig
from crs_lib.evaluate.scorer import ArmGains
from crs_lib.thesis import extractors, grounded, legacy, replay, topics
from crs_lib.thesis.catalog import ThesisCatalog
from crs_lib.thesis.similarity import SentenceSpace, read_vocabulary
from crs_lib.thesis.tables import METRICS

if TYPE_CHECKING:
    from crs_lib.llm import LLM


@SCORERS.register("grounded", metrics=lambda: METRICS)
def _grounded(config: ScoringConfig, gains: ArmGains, model: "str | LLM") -> PreparedScorer:
    """Concepts against the thesis's index; no other arm is looked at."""
    catalog = ThesisCatalog.load(config.catalog)
    name = config.chosen.extractor
    extractor = extractors.create(name, extractors.ExtractorInputs(catalog.space, None, model))
    space = _space(config, catalog)
    embedder = f"sentences: {space.name}"
    if extractor.embedder:
        embedder = f"{extractor.embedder}; {embedder}"
    scorer = grounded.GroundedScorer(catalog, extractor, space, config.chosen)
    return PreparedScorer(scorer, config.origin(name, embedder, _inputs(config)), METRICS)


@SCORERS.register("legacy", metrics=lambda: legacy.METRICS)
def _legacy(config: ScoringConfig, gains: ArmGains, model: "str | LLM") -> PreparedScorer:
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
    origin = config.origin(name, f"topics: {extractor.name}; sentences: {space.name}", inputs)
    return PreparedScorer(kind(space, extractor, config.chosen), origin, legacy.METRICS)


def _space(config: ScoringConfig, catalog: ThesisCatalog) -> SentenceSpace:
    """The sentence space of a scoring; TF-IDF is fitted on the catalogue."""
    file = _vocabulary(config)
    words = read_vocabulary(file) if file else None
    space: SentenceSpace = SPACES.get(config.chosen.similarity).make(catalog.documents, words)
    return space


def _vocabulary(config: ScoringConfig) -> str:
    """The file of the sentence space's features: the one named, else the thesis's for its own catalogue."""
    if config.vocabulary or config.chosen.similarity != "tfidf":
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
