"""The scorer of a convention with a chosen catalogue, extractor, sentence space and topics. Every table that
it writes carries its provenance as columns: two ways of counting cannot be confused.
"""

import importlib
import json
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, cast

from pydantic import AfterValidator

from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Field, OneOf, Registry, Settings
from crs_lib.evaluate.arms import gains_of
from crs_lib.evaluate.scorer import ArmGains, Scorer
from crs_lib.metrics import base, conventions, extractors
from crs_lib.metrics.conventions import Convention
from crs_lib.metrics.extractors import EXTRACTORS, ExtractorInputs
from crs_lib.metrics.records import BatchScorer
from crs_lib.runs.folder import versions

if TYPE_CHECKING:
    from crs_lib.llm import LLM
    from crs_lib.llm.preflight import Need
    from crs_lib.llm.settings import LLMSettings

_PACKAGES = ("crs-lib", "numpy", "scipy", "scikit-learn")
_GIVEN = ("extractor", "similarity", "topics")

# The dialogues of a run's other arms, or the gains that were computed of them before.
OtherArms = Iterable[Dialogue] | ArmGains
# What computes the tables of a convention: ``make(config, others, model)`` gives a :class:`PreparedScorer`;
# the fact ``metrics`` is a function that names the session metrics that it gives, in order.
SCORERS: Registry["PreparedScorer"] = Registry("scorer")
# Spaces in which sentences are compared (fact ``vocabulary``: it takes a file of features), and extractors of
# topics (facts ``model``: it takes a folder; ``in_order``: topics depend on the texts before).
SPACES: Registry[Any] = Registry("sentence space")
TOPICS: Registry[Any] = Registry("topic extractor")


class Asking(Protocol):
    """How a model is asked for concepts or topics: a module, which extractors name in their fact ``asks``."""

    def need(self, spec: str, llm: "LLMSettings") -> "Need":
        """The model as the preflight checks it."""

    def model(self, spec: str, llm: "LLMSettings", folder: Path) -> "LLM":
        """The model, with its call cache and call log in a folder."""

    def answer_settings(self, llm: "LLMSettings") -> dict[str, Any]:
        """The settings that change an answer, for the tables."""

    def guarded(
        self, scorer: BatchScorer, convention: str, metrics: tuple[str, ...], model: Any
    ) -> BatchScorer:
        """A scorer that keeps the row of a session without an answer."""


class Provenance(NamedTuple):
    """The columns that every written table carries; ``embedder`` names concept vectors, space or topics."""

    convention: str
    extractor: str
    embedder: str
    weights: str
    versions: str
    input_hash: str


class PreparedScorer(NamedTuple):
    """A scorer, the provenance that its tables carry, the session metrics that it gives, in order, and the
    gains of other arms that it was made with.
    """

    scorer: BatchScorer
    provenance: Provenance
    metrics: tuple[str, ...]
    gains: ArmGains | None = None


_CONVENTION = "convention of scoring, or one with other settings, such as default(gamma=0.5)"
ConventionName = Annotated[str, AfterValidator(conventions.checked), Field(description=_CONVENTION)]
_Extractor = Annotated[str, OneOf(EXTRACTORS.names, optional=True), Field(description="finds concepts")]
_Space = Annotated[str, OneOf(SPACES.names, optional=True), Field(description="of sentences")]
_Topics = Annotated[str, OneOf(TOPICS.names, optional=True), Field(description="finds topics")]


class Choices(Settings):
    """A convention, and what is chosen instead of its own extractor, similarity and topics."""

    convention: ConventionName = "default"
    extractor: _Extractor = ""
    similarity: _Space = ""
    topics: _Topics = ""
    vocabulary: Annotated[str, Field(description="file of the TF-IDF space's features, one a line")] = ""
    topic_model: Annotated[str, Field(description="folder of an LDA model")] = ""

    @property
    def knobs(self) -> dict[str, Any]:
        """The chosen settings of the convention."""
        return {name: getattr(self, name) for name in _GIVEN if getattr(self, name)}

    @cached_property
    def chosen(self) -> Convention:
        """The convention with the chosen settings, named after them."""
        return conventions.derived(conventions.get(self.convention), self.knobs)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The session metrics that the convention gives, in the order of its tables."""
        return tuple(SCORERS.get(self.chosen.scorer).facts["metrics"]())


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
        convention = self.chosen
        used = {"llm": self.asks, "llm_settings": self.asks}
        used["vocabulary"] = _fact(SPACES, convention.similarity, "vocabulary")
        used["topic_model"] = _fact(TOPICS, convention.topics, "model")
        for name, use in used.items():
            if getattr(self, name) and not use:
                problem = f"{name} is {getattr(self, name)!r}, but convention {convention.name!r}"
                raise InputError(f"{problem} with these settings does not use it; leave it out")

    @property
    def asks(self) -> str:
        """The module that asks a language model for the concepts or topics; empty where none is asked."""
        convention = self.chosen
        of_concepts = _fact(EXTRACTORS, convention.extractor, "asks")
        of_topics = _fact(TOPICS, convention.topics, "asks")
        return of_concepts or of_topics or ""

    @property
    def asking(self) -> Asking | None:
        """How the model is asked that names the concepts or topics; None where no model does."""
        if not self.asks:
            return None
        module: Any = importlib.import_module(self.asks)
        return cast(Asking, module)

    @property
    def in_order(self) -> bool:
        """Whether a dialogue's scores depend on the dialogues before it, so that one process scores all."""
        return bool(_fact(TOPICS, self.chosen.topics, "in_order"))

    def make(self, others: OtherArms = ()) -> PreparedScorer:
        """Load the catalogue and make the scorer; InputError for a missing part. Without ``others`` costs are
        NaN.
        """
        model = self._model()
        ready = SCORERS.get(self.chosen.scorer).make(self, others, model)
        if self.asking is None:
            return ready
        name = self.chosen.name
        guarded = self.asking.guarded(ready.scorer, name, ready.metrics, model)
        return ready._replace(scorer=guarded)

    def _model(self) -> "str | LLM":
        """The model of the extractors called llm, with cache and log where a folder is named."""
        if self.asking is None or not (self.llm and self.calls):
            return self.llm
        folder = Path(self.calls)
        return self.asking.model(self.llm, self.model_settings, folder)

    @cached_property
    def model_settings(self) -> "LLMSettings":
        """The settings of the extractors' model, read from ``llm_settings``."""
        from crs_lib.systems.settings import role_settings

        return role_settings(self.llm_settings, "an extractor", fixed=("temperature",))

    def origin(self, extractor: str, embedder: str, inputs: Mapping[str, str]) -> Provenance:
        """The provenance of a scoring: ``inputs`` are names and content hashes of the files read. Its
        ``weights`` hold those of the composites, and the settings of a model that is asked, as JSON.
        """
        convention = self.chosen
        weights = {"tas": convention.tas._asdict(), "items": convention.items._asdict()}
        weights["cas"] = convention.cas._asdict()
        if self.asking is not None:
            weights["llm"] = self.asking.answer_settings(self.model_settings)
        installed = versions()
        packages = [f"{name} {installed.get(name, 'unknown')}" for name in _PACKAGES]
        hashes = [f"{name} {digest[:16]}" for name, digest in sorted(inputs.items())]
        return Provenance(
            convention.name,
            extractor,
            embedder or "none",
            json.dumps(weights, sort_keys=True),
            ", ".join(packages),
            ", ".join(hashes),
        )


def _fact(registry: Registry[Any], name: str, fact: str) -> Any:
    """A declared fact of a member; None where there is no name, or the member declares none."""
    return registry.get(name).facts.get(fact) if name else None


@SCORERS.register("items", metrics=base.scored_names)
def _items(config: ScoringConfig, others: OtherArms, model: "str | LLM") -> PreparedScorer:
    """All metrics of :mod:`crs_lib.metrics`, credit through recommended items."""
    catalog = sources.load(config.catalog)
    name = config.chosen.extractor
    scorer = Scorer(Grounder(catalog), config.chosen)
    embedder = ""
    if name != extractors.WORDS:  # else the grounder finds them, with the titles
        extractor = EXTRACTORS.create(name, inputs=ExtractorInputs(catalog=catalog, llm=model))
        scorer.find = partial(extractors.memoised, extractor)
        embedder = extractor.embedder
    scorer.gains = others if isinstance(others, Mapping) else gains_of(others, scorer)
    inputs = {**config.inputs, "catalog": sources.content_hash(catalog)}
    provenance = config.origin(name, embedder, inputs)
    return PreparedScorer(scorer, provenance, tuple(base.scored_names()), scorer.gains)
