"""The settings of the study's notebooks 11 to 14, checked before anything starts.

The text below a field is its line of help.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

from pydantic import AfterValidator, ConfigDict

from crs_lib.core import prompts as texts
from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.core.settings import Field, OneOf, RunName, Seed, Settings, fields_of
from crs_lib.cosrec import drafts
from crs_lib.cosrec.intents import MODELS, ROUTER, VECTORS
from crs_lib.cosrec.records import MAPPINGS
from crs_lib.cosrec.rewriting import REWRITERS
from crs_lib.llm import BACKENDS, LLMSettings
from crs_lib.llm.estimate import Work
from crs_lib.llm.preflight import Need
from crs_lib.metrics import ranking
from crs_lib.retrieval.fusion import FUSIONS

NAME = "cosrec"
TEMPLATE = "template"
KEYWORDS = "with keywords"
PROMPTS = ("product_query", "conversation", "user_summary", "user_keywords")
_SERVICE = ("host", "timeout", "slots", "send_key", "think")
_FREE = ("run", "workers", "scheduler", "llm", "retries", "index")

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Fusion = Annotated[str, OneOf(FUSIONS)]
Vectors = Annotated[str, OneOf(VECTORS)]
Retrievers = Annotated[tuple[str, ...], Field(min_length=1)]
Rewriters = Annotated[tuple[Annotated[str, OneOf(REWRITERS)], ...], Field(min_length=1)]


def _measure(spec: str) -> str:
    return ranking.measure(spec).spec


class CorpusSettings(Settings):
    """Which corpus is read; its raw partition only where it is there."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    run: RunName = "smoke"
    """name of the run, its folder under results/cosrec"""
    source: str = "sample"
    """sample, cosrec (the release), or a corpus's folder"""


class RetrievalSystem(NamedTuple):
    """One system: its name, retriever and rewriter, and whether the user's keywords join the query."""

    name: str
    retriever: str
    rewriter: str
    personal: bool


class RetrieveSettings(CorpusSettings):
    """The systems to run: one for each rewriter and retriever, all with the same router.

    With a ``mapping`` each retriever runs once more with the last rewriter and the keywords of the topic's
    user in the query.
    """

    index: str = ""
    """folder made by cosrec index; empty: the source's own files"""
    retrievers: Retrievers = ("bm25", "dense:hashing", "bm25+dense:hashing")
    """specs, e.g. bm25; + fuses several: bm25+dense:hashing"""
    rewriters: Rewriters = ("last turn", "first and last")
    """how a turn becomes a query"""
    fusion: Fusion = "stratum"
    """how several rankings become one"""
    k1: Annotated[float, Field(ge=0)] = 1.2
    """BM25: gain of repetition"""
    b: Share = 0.75
    """BM25: correction for length"""
    router: Annotated[str, OneOf(MODELS)] = ROUTER
    """model that routes turns to modules"""
    vectors: Vectors = "auto"
    """intent model's; auto: those installed"""
    mapping: Annotated[str, OneOf(("", *MAPPINGS))] = "zero_is_generic"
    """whose keywords a user index adds; empty adds none"""
    depth: Positive = 100
    """items of a ranking"""

    def requested(self) -> list[tuple[str, str, bool]]:
        """The ways in which a query is made: rewriter, its name with or without keywords, whether with."""
        ways = [(rewriter, rewriter, False) for rewriter in self.rewriters]
        if self.mapping:
            last = self.rewriters[-1]
            ways.append((last, f"{last}, {KEYWORDS}", True))
        return ways

    def systems(self) -> list[RetrievalSystem]:
        """Every system; those with the user's keywords last."""
        plain: list[RetrievalSystem] = []
        personal: list[RetrievalSystem] = []
        for retriever in self.retrievers:
            for rewriter, name, with_keywords in self.requested():
                system = RetrievalSystem(f"{retriever}, {name}", retriever, rewriter, with_keywords)
                systems = personal if with_keywords else plain
                systems.append(system)
        return plain + personal


class ScoreSettings(CorpusSettings):
    """Which runs are scored, by which measure, and how sure the means are."""

    runs: str = ""
    """folder of TREC run files; empty: of 13_cosrec_retrieve"""
    measure: Annotated[str, AfterValidator(_measure)] = "nDCG@10"
    """the main measure"""
    mapping: Annotated[str, OneOf(MAPPINGS)] = "zero_is_generic"
    """whose index it is"""
    resamples: Positive = 1000
    """resamples of an interval; 1000 is usual"""
    vectors: Vectors = "auto"
    """intent model's; auto: those installed"""
    seed: Seed = 0
    """seed of every random choice"""


# The published design; its dense retriever was TCT-ColBERT, and the temperature is Ollama's own.
DESIGN: Mapping[str, Any] = {
    "seed": 20250218,
    "writer": "ollama:llama3.1",
    "query_words": 7,
    "query_tokens": 100,
    "answer_tokens": 1000,
    "products": 10,
    "passages": 10,
    "reviews": 3,
    "fewest_turns": 6,
    "most_turns": 8,
    "product_retrievers": ("bm25", "dense:minilm"),
    "passage_retrievers": ("bm25",),
    "fusion": "stratum",
    "k1": 1.2,
    "b": 0.75,
    "temperature": 0.8,
}


class Request(NamedTuple):
    """What a prompt is sent for: the model's spec, its longest answer in tokens, calls a conversation."""

    prompt: str
    model: str
    tokens: int
    calls: int


class GenerateSettings(CorpusSettings):
    """The settings of a generation; :data:`DESIGN` holds those of the published design."""

    source: str = "sample"
    """sample, a folder with products and passages, or a file of products"""
    index: str = ""
    """folder made by cosrec index; empty: the source's own files"""
    writer: str = TEMPLATE
    """template, or a model: of conversations, profiles"""
    query_writer: str = ""
    """template or model of queries; empty: the writer"""
    conversations: Positive = 12
    """how many, each about another product"""
    users: Count = 2
    """buyers of the target who get a profile"""
    products: Positive = 10
    """products shown to the writer, the target too"""
    passages: Count = 10
    """documents shown to the writer"""
    reviews: Count = 3
    """reviews of each product"""
    query_words: Positive = 7
    """longest query, in words"""
    fewest_turns: Positive = 6
    """fewest turns of the user"""
    most_turns: Positive = 8
    """most turns of the user"""
    product_retrievers: tuple[str, ...] = ("bm25", "dense:hashing")
    """specs, fused"""
    passage_retrievers: tuple[str, ...] = ("bm25",)
    """specs, fused"""
    fusion: Fusion = "stratum"
    """how several rankings become one"""
    k1: Annotated[float, Field(ge=0)] = 1.2
    """BM25: gain of repetition"""
    b: Share = 0.75
    """BM25: correction for length"""
    attempts: Positive = 3
    """drafts with seeds of their own, then it failed"""
    retries: Count = 5
    """repetitions of a call that broke off"""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.8
    """of the models"""
    answer_tokens: Positive = 1000
    """longest conversation, in tokens"""
    query_tokens: Positive = 200
    """longest query or profile, in tokens"""
    contexts: tuple[int, ...] = drafts.CONTEXTS
    """context sizes, one to three"""
    tokenizer: str = ""
    """tokenizer.json that counts tokens; empty: by bytes"""
    prompts: str = ""
    """folder of own prompts; empty: the shipped ones"""
    seed: Seed = 0
    """of targets, orders and, by default, of the models"""
    writer_seed: int | None = None
    """of the models, where another one is wanted"""
    workers: Positive = 1
    """processes; models take threads"""
    scheduler: str = ""
    """Dask scheduler: local, or an address"""
    llm: Mapping[str, Any] = {}
    """host, timeout, slots, send_key, think"""

    def check(self) -> None:
        """Whether the fields fit one another; InputError if not."""
        if self.fewest_turns > self.most_turns:
            raise InputError(f"user turns from {self.fewest_turns} to {self.most_turns}: give a rising range")
        _check_writer("writer", self.writer)
        _check_writer("query_writer", self.asked_for_queries)
        for name in self.llm:
            if name not in _SERVICE:
                hint = did_you_mean(str(name), _SERVICE)
                takes = ", ".join(_SERVICE)
                raise InputError(f"llm: a writer takes no {str(name)!r}{hint} (it takes: {takes})")
        self.reached()
        if self.prompts:
            _check_prompts(Path(self.prompts))

    @classmethod
    def planned(cls, preset: str, **values: Any) -> Self:
        """The settings of a notebook: under the preset ``design`` the published design's values stand in
        place of those that are as their default is.
        """
        if preset not in ("", "design"):
            raise InputError(f"preset is {preset!r}; give design, or leave it empty")
        defaults = {setting.name: setting.default for setting in fields_of(cls)}
        for name, value in values.items():
            if isinstance(value, list):
                values[name] = tuple(value)
        if preset:
            for name, value in DESIGN.items():
                if values.get(name, defaults[name]) == defaults[name]:
                    values[name] = value
        return cls(**values)

    @property
    def asked_for_queries(self) -> str:
        """Who writes queries: a model's spec or ``template``."""
        return self.query_writer or self.writer

    @property
    def model_seed(self) -> int:
        """The seed from which the seeds of all calls follow."""
        if self.writer_seed is None:
            return self.seed
        return self.writer_seed

    def models(self) -> list[str]:
        """The specs of the models that take part, each once; empty where rules do everything."""
        specs = dict.fromkeys((self.writer, self.asked_for_queries))
        return [spec for spec in specs if spec != TEMPLATE]

    def reached(self) -> LLMSettings:
        """How the models are reached."""
        return LLMSettings(**self.llm)

    def parameters(self) -> dict[str, Any]:
        """The settings that conversations depend on, as plain data for the manifest."""
        values = self.values()
        for name in _FREE:
            del values[name]
        if self.prompts:
            values["prompts"] = {name: texts.digest(f"{NAME}/{name}", self.prompts) for name in PROMPTS}
        return values

    def request(self, prompt: str) -> Request:
        """The model that a prompt goes to."""
        model = self.writer
        tokens = self.query_tokens
        calls = 1
        if prompt == "product_query":
            model = self.asked_for_queries
        elif prompt == "conversation":
            tokens = self.answer_tokens
        else:
            calls = self.users
        return Request(prompt, model, tokens, calls)

    def _requests(self) -> list[Request]:
        requests = map(self.request, PROMPTS)
        return [request for request in requests if request.model != TEMPLATE and request.calls]

    def needs(self) -> list[Need]:
        """The models that the preflight checks: each in its roles, with its largest context."""
        needs = []
        for request in self._requests():
            options = {"num_ctx": max(self.contexts), "num_predict": request.tokens}
            settings = self.reached().settings_for(request.model)
            needs.append(Need(f"cosrec {request.prompt}", request.model, options, 0, settings))
        return needs

    def work(self) -> list[Work]:
        """The requests of a run to each model: calls by role, repetitions left aside."""
        work = []
        for request in self._requests():
            calls = request.calls * self.conversations
            work.append(Work(f"cosrec {request.prompt}", request.model, calls, self.reached().at_once))
        return work


def _check_writer(name: str, spec: str) -> None:
    if spec == TEMPLATE:
        return
    try:
        BACKENDS.get(spec)
    except InputError as error:
        raise InputError(f"{name}: {error}; or take 'template', which needs no model") from None


def _check_prompts(folder: Path) -> None:
    """Whether a folder holds own prompts, and they ask for no name that is not given."""
    own = [name for name in PROMPTS if (folder / f"{name}.txt").is_file()]
    if not own:
        files = ", ".join(f"{name}.txt" for name in PROMPTS)
        raise InputError(f"no prompt in {folder.name!r}; put in one or more of: {files}")
    for name in own:
        names = texts.wanted(f"{NAME}/{name}")
        unknown = [key for key in texts.wanted(f"{NAME}/{name}", str(folder)) if key not in names]
        if unknown:
            allowed = f"it may hold ${', $'.join(names)}"
            raise InputError(f"{name}.txt holds ${', $'.join(unknown)}; {allowed}")
