"""The settings of the study's notebooks 11 to 14, checked before anything starts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator

from crs_lib.core import prompts
from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.core.settings import Field, OneOf, RunName, Seed, Settings
from crs_lib.cosrec import drafts
from crs_lib.cosrec.intents import MODELS, ROUTER, VECTORS
from crs_lib.cosrec.records import MAPPINGS
from crs_lib.cosrec.rewriting import REWRITERS
from crs_lib.llm import BACKENDS, LLMSettings
from crs_lib.llm.estimate import Work
from crs_lib.llm.preflight import Need
from crs_lib.metrics import ranking
from crs_lib.retrieval.fusion import FUSIONS

NAME, TEMPLATE, KEYWORDS = "cosrec", "template", "with keywords"
PROMPTS = ("product_query", "conversation", "user_summary", "user_keywords")
_SERVICE = ("host", "timeout", "slots", "send_key", "think")
_FREE = ("run", "workers", "scheduler", "llm", "retries", "index")

_Fusion = Annotated[str, OneOf(FUSIONS), Field(description="how several rankings become one")]
_Index = Annotated[str, Field(description="folder made by cosrec index; empty: the source's own files")]
_K1 = Annotated[float, Field(ge=0, description="BM25: gain of repetition")]
_B = Annotated[float, Field(ge=0, le=1, description="BM25: correction for length")]
_Vectors = Annotated[str, OneOf(VECTORS), Field(description="intent model's; auto: those installed")]
_Rewriter = Annotated[str, OneOf(REWRITERS)]
_Rewriters = Annotated[tuple[_Rewriter, ...], Field(min_length=1, description="how a turn becomes a query")]
_Fused = "specs, e.g. bm25; + fuses several: bm25+dense:hashing"
_Retrievers = Annotated[tuple[str, ...], Field(min_length=1, description=_Fused)]
_Specs = Annotated[tuple[str, ...], Field(description="specs, fused")]


class CorpusSettings(Settings):
    """Which corpus is read; its raw partition only where it is there."""

    run: Annotated[RunName, Field(description="name of the run, its folder under results/cosrec")] = "smoke"
    source: Annotated[str, Field(description="sample, cosrec (the release), or a corpus's folder")] = "sample"


class _RetrievalSystem(NamedTuple):
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

    index: _Index = ""
    retrievers: _Retrievers = ("bm25", "dense:hashing", "bm25+dense:hashing")
    rewriters: _Rewriters = ("last turn", "first and last")
    fusion: _Fusion = "stratum"
    k1: _K1 = 1.2
    b: _B = 0.75
    router: Annotated[str, OneOf(MODELS), Field(description="model that routes turns to modules")] = ROUTER
    vectors: _Vectors = "auto"
    mapping: Annotated[
        str, OneOf(("", *MAPPINGS)), Field(description="whose keywords a user index adds; empty adds none")
    ] = "zero_is_generic"
    depth: Annotated[int, Field(ge=1, description="items of a ranking")] = 100

    def systems(self) -> list[_RetrievalSystem]:
        """Every system; those with the user's keywords last."""
        plain = [_RetrievalSystem(f"{r}, {w}", r, w, False) for r in self.retrievers for w in self.rewriters]
        twins = [one for one in plain if self.mapping and one.rewriter == self.rewriters[-1]]
        return plain + [one._replace(name=f"{one.name}, {KEYWORDS}", personal=True) for one in twins]


class ScoreSettings(CorpusSettings):
    """Which runs are scored, by which measure, and how sure the means are."""

    runs: Annotated[str, Field(description="folder of TREC run files; empty: of 13_cosrec_retrieve")] = ""
    measure: Annotated[
        str, AfterValidator(lambda spec: ranking.measure(spec).spec), Field(description="the main measure")
    ] = "nDCG@10"
    mapping: Annotated[str, OneOf(MAPPINGS), Field(description="whose index it is")] = "zero_is_generic"
    resamples: Annotated[int, Field(ge=1, description="resamples of an interval; 1000 is usual")] = 1000
    vectors: _Vectors = "auto"
    seed: Annotated[Seed, Field(description="seed of every random choice")] = 0


# The published design; its dense retriever was TCT-ColBERT, and the temperature is Ollama's own.
DESIGN: Mapping[str, Any] = {
    "seed": 20250218, "writer": "ollama:llama3.1:8b", "query_words": 7, "query_tokens": 100,
    "answer_tokens": 1000, "products": 10, "passages": 10, "reviews": 3, "fewest_turns": 6, "most_turns": 8,
    "product_retrievers": ("bm25", "dense:minilm"), "passage_retrievers": ("bm25",), "fusion": "stratum",
    "k1": 1.2, "b": 0.75, "temperature": 0.8,
}  # fmt: skip


class GenerateSettings(CorpusSettings):
    """The settings of a generation; :data:`DESIGN` holds those of the published design."""

    source: Annotated[str, Field(description="sample, or a folder with products and passages")] = "sample"
    index: _Index = ""
    writer: Annotated[str, Field(description="template, or a model: of conversations, profiles")] = TEMPLATE
    query_writer: Annotated[str, Field(description="template or model of queries; empty: the writer")] = ""
    conversations: Annotated[int, Field(ge=1, description="how many, each about another product")] = 12
    users: Annotated[int, Field(ge=0, description="buyers of the target who get a profile")] = 2
    products: Annotated[int, Field(ge=1, description="products shown to the writer, the target too")] = 10
    passages: Annotated[int, Field(ge=0, description="documents shown to the writer")] = 10
    reviews: Annotated[int, Field(ge=0, description="reviews of each product")] = 3
    query_words: Annotated[int, Field(ge=1, description="longest query, in words")] = 7
    fewest_turns: Annotated[int, Field(ge=1, description="fewest turns of the user")] = 6
    most_turns: Annotated[int, Field(ge=1, description="most turns of the user")] = 8
    product_retrievers: _Specs = ("bm25", "dense:hashing")
    passage_retrievers: _Specs = ("bm25",)
    fusion: _Fusion = "stratum"
    k1: _K1 = 1.2
    b: _B = 0.75
    attempts: Annotated[int, Field(ge=1, description="drafts with seeds of their own, then it failed")] = 3
    retries: Annotated[int, Field(ge=0, description="repetitions of a call that broke off")] = 5
    temperature: Annotated[float, Field(ge=0, le=2, description="of the models")] = 0.8
    answer_tokens: Annotated[int, Field(ge=1, description="longest conversation, in tokens")] = 1000
    query_tokens: Annotated[int, Field(ge=1, description="longest query or profile, in tokens")] = 200
    contexts: Annotated[tuple[int, ...], Field(description="context sizes, one to three")] = drafts.CONTEXTS
    tokenizer: Annotated[str, Field(description="tokenizer.json that counts tokens; empty: by bytes")] = ""
    prompts: Annotated[str, Field(description="folder of own prompts; empty: the shipped ones")] = ""
    seed: Annotated[Seed, Field(description="of targets, orders and, by default, of the models")] = 0
    writer_seed: Annotated[int | None, Field(description="of the models, where another one is wanted")] = None
    workers: Annotated[int, Field(ge=1, description="processes; models take threads")] = 1
    scheduler: Annotated[str, Field(description="Dask scheduler: local, or an address")] = ""
    llm: Annotated[Mapping[str, Any], Field(description="host, timeout, slots, send_key, think")] = {}

    def check(self) -> None:
        """Whether the fields fit one another; InputError if not."""
        if self.fewest_turns > self.most_turns:
            raise InputError(f"user turns from {self.fewest_turns} to {self.most_turns}: give a rising range")
        for name, spec in (("writer", self.writer), ("query_writer", self.asked_for_queries)):
            try:
                _ = spec == TEMPLATE or BACKENDS.get(spec)
            except InputError as error:
                raise InputError(f"{name}: {error}; or take 'template', which needs no model") from None
        if strange := [str(name) for name in self.llm if name not in _SERVICE]:
            hint = did_you_mean(strange[0], _SERVICE)
            raise InputError(f"llm: a writer takes no {strange[0]!r}{hint} (it takes: {', '.join(_SERVICE)})")
        self.reached()
        if not self.prompts:
            return
        folder = Path(self.prompts)
        if not (mine := [name for name in PROMPTS if (folder / f"{name}.txt").is_file()]):
            files = ", ".join(f"{name}.txt" for name in PROMPTS)
            raise InputError(f"no prompt in {folder.name!r}; put in one or more of: {files}")
        for name in mine:
            known, asked = (prompts.wanted(f"{NAME}/{name}", place) for place in ("", str(folder)))
            if unknown := [key for key in asked if key not in known]:
                raise InputError(f"{name}.txt holds ${', $'.join(unknown)}; it may hold ${', $'.join(known)}")

    @property
    def asked_for_queries(self) -> str:
        """Who writes queries: a model's spec or ``template``."""
        return self.query_writer or self.writer

    @property
    def model_seed(self) -> int:
        """The seed from which the seeds of all calls follow."""
        return self.seed if self.writer_seed is None else self.writer_seed

    def models(self) -> list[str]:
        """The specs of the models that take part, each once; empty where rules do everything."""
        return list(dict.fromkeys(s for s in (self.writer, self.asked_for_queries) if s != TEMPLATE))

    def reached(self) -> LLMSettings:
        """How the models are reached."""
        return LLMSettings(**self.llm)

    def parameters(self) -> dict[str, Any]:
        """The settings that conversations depend on, as plain data for the manifest."""
        kept = {name: value for name, value in self.values().items() if name not in _FREE}
        if self.prompts:
            kept["prompts"] = {name: prompts.digest(f"{NAME}/{name}", self.prompts) for name in PROMPTS}
        return kept

    def asked(self, name: str) -> tuple[str, int]:
        """The model that a prompt goes to, and its longest answer in tokens."""
        spec = self.asked_for_queries if name == "product_query" else self.writer
        return spec, self.answer_tokens if name == "conversation" else self.query_tokens

    def _calls(self) -> list[tuple[str, str, int, int]]:
        """Prompt, model, longest answer and calls of a run, of everything that a model is asked for."""
        rows = [(name, *self.asked(name), 1 if name in PROMPTS[:2] else self.users) for name in PROMPTS]
        return [row for row in rows if row[1] != TEMPLATE and row[3]]

    def needs(self) -> list[Need]:
        """The models that the preflight checks: each in its roles, with its largest context."""
        size, how = max(self.contexts), self.reached().settings_for
        options = [(row, {"num_ctx": size, "num_predict": row[2]}) for row in self._calls()]
        return [Need(f"cosrec {name}", spec, given, 0, how(spec)) for (name, spec, *_), given in options]

    def work(self) -> list[Work]:
        """The requests of a run to each model: calls by role, repetitions left aside."""
        count, at_once = self.conversations, self.reached().at_once
        return [Work(f"cosrec {name}", spec, n * count, at_once) for name, spec, _, n in self._calls()]
