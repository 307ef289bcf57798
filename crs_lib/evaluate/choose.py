"""The scorer of a convention with a chosen catalogue, extractor, sentence space and topic model. Every table
that it writes carries its provenance as columns: two ways of counting cannot be confused.
"""

import json
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import AfterValidator

from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Field, OneOf, Settings
from crs_lib.core.text import listing
from crs_lib.evaluate.scorer import ArmGains, Scorer
from crs_lib.metrics import base, conventions
from crs_lib.metrics.conventions import Convention
from crs_lib.metrics.records import BatchScorer
from crs_lib.runs.folder import versions

if TYPE_CHECKING:
    from crs_lib.llm import LLM
    from crs_lib.llm.settings import LLMSettings

SIMILARITIES = ("tfidf", "minilm")
_PACKAGES = ("crs-lib", "numpy", "scipy", "scikit-learn")


class Provenance(NamedTuple):
    """The columns that every written table carries; ``embedder`` names concept vectors, space or topics."""

    convention: str
    extractor: str
    embedder: str
    weights: str
    versions: str
    input_hash: str


class PreparedScorer(NamedTuple):
    """A scorer, the provenance that its tables carry, and the session metrics that it gives, in order."""

    scorer: BatchScorer
    provenance: Provenance
    metrics: tuple[str, ...]


def _extractors() -> list[str]:
    from crs_lib.thesis.extractors import EXTRACTORS

    return EXTRACTORS.names()


def _topic_extractors() -> list[str]:
    from crs_lib.thesis.topics import TOPICS

    return TOPICS.names()


ConventionName = Annotated[
    str,
    AfterValidator(conventions.checked),
    Field(description=f"convention of scoring: {listing([*conventions.CONVENTIONS], 'or')}, "
    "or one with other settings, such as thesis_grounded(gamma=0.5)"),
]  # fmt: skip


class Choices(Settings):
    """A convention, and what is chosen instead of its own extractor, similarity and topics."""

    convention: ConventionName = "default"
    extractor: Annotated[str, OneOf(_extractors, optional=True), Field(description="finds concepts")] = ""
    similarity: Annotated[str, OneOf(SIMILARITIES, optional=True), Field(description="of sentences")] = ""
    topics: Annotated[str, OneOf(_topic_extractors, optional=True), Field(description="finds topics")] = ""
    vocabulary: Annotated[str, Field(description="file of the TF-IDF space's features, one a line")] = ""
    topic_model: Annotated[str, Field(description="folder of an LDA model")] = ""

    @property
    def knobs(self) -> dict[str, Any]:
        """The chosen settings of the convention."""
        chosen = {name: getattr(self, name) for name in ("extractor", "similarity", "topics")}
        return {name: value for name, value in chosen.items() if value}

    @cached_property
    def rule(self) -> Convention:
        """The convention with the chosen settings, named after them."""
        return conventions.derived(conventions.get(self.convention), self.knobs)


class ScoringConfig(Choices):
    """The way of scoring. Raises InputError for a setting that the convention has no use for."""

    catalog: Annotated[str, Field(description="a catalogue, or 'sample'")]
    llm: Annotated[str, Field(description="spec of the model of the extractors called llm")] = ""
    inputs: Annotated[Mapping[str, str], Field(description="names and hashes of what is scored")] = {}
    llm_settings: Annotated[
        Mapping[str, Any], Field(description='settings of that model, e.g. {"slots": 8}')
    ] = {}
    calls: Annotated[str, Field(description="folder of the model's call cache and call log")] = ""

    def check(self) -> None:
        rule = self.rule
        useless = {
            "vocabulary": self.vocabulary and rule.similarity != "tfidf",
            "topic_model": self.topic_model and not rule.topics.startswith("lda"),
            "llm": self.llm and not self.asks, "llm_settings": self.llm_settings and not self.asks,
        }  # fmt: skip
        for name, wrong in useless.items():
            if wrong:
                told = f"{name} is {getattr(self, name)!r}, but convention {rule.name!r}"
                raise InputError(f"{told} with these settings does not use it; leave it out")

    @property
    def asks(self) -> bool:
        """Whether a language model names the concepts or topics."""
        return "llm" in (self.rule.extractor, self.rule.topics)

    @property
    def in_order(self) -> bool:
        """Whether a dialogue's scores depend on the dialogues before it, so that one process scores all."""
        if not self.rule.topics:
            return False
        from crs_lib.thesis.topics import TOPICS

        return bool(TOPICS.get(self.rule.topics).facts.get("in_order"))

    def make(self, gains: ArmGains | None = None) -> PreparedScorer:
        """Load the catalogue and make the scorer; InputError for a missing part; ``gains`` of other arms."""
        model = self._model()
        if self.rule.scorer == "items":
            made = _items(self, model, gains or {})
        else:
            made = (_grounded if self.rule.scorer == "grounded" else _legacy)(self, model)
        if not self.asks:
            return made
        from crs_lib.thesis.asking import AskedScorer

        return made._replace(scorer=AskedScorer(made.scorer, self.rule.name, made.metrics, model))

    def _model(self) -> "str | LLM":
        """The model of the extractors called llm, with cache and log where a folder is named."""
        if not (self.llm and self.calls):
            return self.llm
        from crs_lib.thesis import asking

        return asking.model(self.llm, self.model_settings, Path(self.calls))

    @cached_property
    def model_settings(self) -> "LLMSettings":
        """The settings of the extractors' model, read from ``llm_settings``."""
        from crs_lib.systems.settings import role_settings

        return role_settings(self.llm_settings, "an extractor", fixed=("temperature",))

    def origin(self, extractor: str, embedder: str, inputs: Mapping[str, str]) -> Provenance:
        """The provenance of a scoring: ``inputs`` are names and content hashes of the files read. Its
        ``weights`` hold those of the composites, and the settings of a model that is asked, as JSON.
        """
        weights = {name: getattr(self.rule, name)._asdict() for name in ("tas", "items", "cas")}
        if self.asks:
            from crs_lib.thesis import asking

            weights["llm"] = asking.answer_settings(self.model_settings)
        here = versions()
        return Provenance(
            convention=self.rule.name, extractor=extractor, embedder=embedder or "none",
            weights=json.dumps(weights, sort_keys=True),
            versions=", ".join(f"{name} {here.get(name, 'unknown')}" for name in _PACKAGES),
            input_hash=", ".join(f"{name} {digest[:16]}" for name, digest in sorted(inputs.items())),
        )  # fmt: skip


def _items(config: ScoringConfig, llm: "str | LLM", gains: ArmGains) -> PreparedScorer:
    catalog = sources.load(config.catalog)
    rule, grounder = config.rule, Grounder(catalog)
    name, find, embedder = rule.extractor, None, ""
    if name != "words":
        from crs_lib.thesis import extractors

        space = extractors.ConceptSpace.of(catalog)
        extractor = extractors.create(name, extractors.ExtractorInputs(space, catalog, llm))
        find, embedder = partial(extractors.memoised, extractor), extractor.embedder
    origin = config.origin(name, embedder, _inputs(config, catalog))
    return PreparedScorer(Scorer(grounder, rule, gains, find), origin, tuple(base.scored_names()))


def _grounded(config: ScoringConfig, llm: "str | LLM") -> PreparedScorer:
    from crs_lib.thesis import extractors
    from crs_lib.thesis.catalog import ThesisCatalog
    from crs_lib.thesis.grounded import METRICS, GroundedScorer

    catalog, rule = ThesisCatalog.load(config.catalog), config.rule
    name = rule.extractor
    extractor = extractors.create(name, extractors.ExtractorInputs(catalog.space, None, llm))
    space = _space(config, catalog)
    embedder = "; ".join(part for part in (extractor.embedder, f"sentences: {space.name}") if part)
    origin = config.origin(name, embedder, _inputs(config))
    return PreparedScorer(GroundedScorer(catalog, extractor, space, rule), origin, METRICS)


def _legacy(config: ScoringConfig, llm: "str | LLM") -> PreparedScorer:
    from crs_lib.thesis import topics
    from crs_lib.thesis.catalog import ThesisCatalog
    from crs_lib.thesis.legacy import METRICS, LegacyScorer
    from crs_lib.thesis.replay import ReplayedLda, ReplayedScorer

    catalog, rule = ThesisCatalog.load(config.catalog), config.rule
    named = rule.topics
    namer = topics.create(named, model=config.topic_model or None, llm=llm)
    space = _space(config, catalog)
    embedder = f"topics: {namer.name}; sentences: {space.name}"
    inputs = _inputs(config)
    if isinstance(namer, topics.Lda):
        inputs["topic model"] = tables.sha256(namer.folder / "exp_elog_beta.npy")
    kind = ReplayedScorer if isinstance(namer, ReplayedLda) else LegacyScorer
    return PreparedScorer(kind(space, namer, rule), config.origin(named, embedder, inputs), METRICS)


def _space(config: ScoringConfig, catalog: Any) -> Any:
    """The sentence space of a scoring; TF-IDF is fitted on the catalogue."""
    from crs_lib.metrics import similarity

    if config.rule.similarity == "minilm":
        return similarity.EmbeddingSpace("minilm")
    named = _vocabulary(config)
    words = similarity.read_vocabulary(named) if named else None
    return similarity.TfidfSpace(catalog.documents, words)


def _vocabulary(config: ScoringConfig) -> str:
    """The file of the sentence space's features: the one named, else the thesis's for its own catalogue."""
    if config.vocabulary or config.rule.similarity != "tfidf":
        return config.vocabulary
    from crs_lib.thesis.topics import vocabulary_of

    return str(vocabulary_of(config.catalog) or "")


def _inputs(config: ScoringConfig, catalog: Catalog | None = None) -> dict[str, str]:
    """Names and content hashes of the inputs of a scoring."""
    found = dict(config.inputs)
    if catalog is not None:
        found["catalog"] = sources.content_hash(catalog)
    elif sources.parted(config.catalog)[0] == sources.SAMPLE:
        found["catalog"] = sources.content_hash(sources.load(sources.SAMPLE))
    else:
        found["catalog"] = tables.sha256(paths.given(sources.parted(config.catalog)[0]))
    if named := _vocabulary(config):
        found["vocabulary"] = tables.sha256(paths.given(named))
    return found
