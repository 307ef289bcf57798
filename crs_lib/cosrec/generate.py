"""Make conversations: one from its number, and a run's records, corpus files and log of all calls."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import pandas as pd

from crs_lib import runs
from crs_lib.core import paths, prompts, safety, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.rng import address_seed, stream
from crs_lib.core.text import shorten
from crs_lib.cosrec import drafts, index
from crs_lib.cosrec.records import CatalogueProduct, balance
from crs_lib.cosrec.settings import NAME, TEMPLATE, GenerateSettings
from crs_lib.llm import Message, Pool, Request, Retry
from crs_lib.llm.base import tokens_at_most
from crs_lib.runs import jobs
from crs_lib.runs.jobs import Start
from crs_lib.runs.ledger import Key

T = TypeVar("T")
Facts = dict[str, Any]  # what was asked for a text, as it is recorded
Record = Mapping[str, Any]  # a line of generated.jsonl
_STAGE = "generate"
_FRAME = 16  # tokens of a chat's frame around a prompt


class _Written(NamedTuple, Generic[T]):
    """A text as it was read, what was asked for it, and its attempt from 1."""

    content: T
    facts: Facts
    attempt: int


class _Question(NamedTuple, Generic[T]):
    """A prompt to be sent: its name, whom it is about, its versions from whole to short, what its seeds
    follow from, and how a reply is read.
    """

    prompt: str
    about: str
    versions: Iterable[drafts.Version]
    address: tuple[str | int, ...]
    read: Callable[[str], T]


class Writer:
    """Makes the record of one conversation from its number alone; see :func:`crs_lib.runs.job`."""

    def __init__(
        self, config: GenerateSettings, source: str, start: Start | None = None, pool: Pool | None = None
    ) -> None:
        """Opens the stock. At the nth ``start`` of a run n times as many attempts are made as the config
        says: what failed before gets new seeds. ``pool`` replaces the models that the config names.
        """
        start = start or Start(run=config.run)
        self.config = config
        self.attempts = start.starts * config.attempts
        self.stock = index.opened(Path(source), config.index, config.k1, config.b)
        ids = sorted(self.stock.products)
        if config.conversations > len(ids):
            here = f"the catalogue has {len(ids)}; ask for fewer"
            raise InputError(f"{config.conversations} conversations need as many target products, {here}")
        self._tokens = _counter(config.tokenizer)
        self._products = self.stock.search("products", config.product_retrievers, config.fusion)
        self._passages = self.stock.search("passages", config.passage_retrievers, config.fusion)
        order = stream(config.seed, NAME, "targets").permutation(len(ids))
        self.targets = [ids[number] for number in order[: config.conversations]]
        if pool is None and config.models():
            pool = start.pool(config.reached(), Retry(waits=config.retries))
        self.models = pool

    def __call__(self, key: Key) -> str:
        return json.dumps(self.record(key.session), ensure_ascii=False)

    def record(self, number: int) -> dict[str, Any]:
        """Conversation ``number`` with everything that went into it. Raises RunError when no attempt keeps
        the rules; the next start tries again.
        """
        config = self.config
        target = self.stock.products[self.targets[number]]
        related = self._related(target)
        shown = [target.id, *related]
        permutation = stream(config.seed, NAME, number, "order").permutation(len(shown))
        products = [shown[number] for number in permutation]
        query = self._query(target, number)
        passages = []
        if config.passages:
            passages = [hit.id for hit in self._passages.search(query.content, config.passages)]
        material = self._material(target, products, passages)
        draft = self._draft(target, material, query.content, number)
        return {
            "id": f"Generated_{number + 1}",
            "conversation": draft.content.text(),
            "target": target.id,
            "target_title": target.title,
            "query": query.content,
            "related": related,
            "products": products,
            "passages": passages,
            "writer": config.writer,
            "query_writer": config.asked_for_queries,
            "attempt": draft.attempt,
            "repairs": list(draft.content.repairs),
            "users": [self._profile(user, number) for user in self._buyers(target)],
            "prompts": {"product_query": query.facts, "conversation": draft.facts},
        }

    def _related(self, target: CatalogueProduct) -> list[str]:
        hits = self._products.search(target.search_text(), self.config.products + 1)
        others = [hit.id for hit in hits if hit.id != target.id]
        return others[: self.config.products - 1]

    def _buyers(self, target: CatalogueProduct) -> list[str]:
        """Who wrote the target's best reviews, each once."""
        reviews = target.best_reviews(len(target.reviews))
        buyers = dict.fromkeys(str(review.user) for review in reviews)
        return list(buyers)[: self.config.users]

    def _material(
        self, target: CatalogueProduct, products: Sequence[str], passages: Sequence[str]
    ) -> drafts.Material:
        described = tuple(self.stock.products[name] for name in products)
        documents = tuple(self.stock.passages[name] for name in passages)
        return drafts.Material(target.id, described, documents, self.config.reviews, len(described))

    def _query(self, target: CatalogueProduct, number: int) -> _Written[str]:
        """A general query for the target, and what was asked for it."""
        most = self.config.query_words
        if self.config.asked_for_queries == TEMPLATE:
            return _Written(drafts.query_by_rule(target, min(5, most)), {}, 1)

        def render(material: drafts.Material) -> str:
            product = target.block(material.reviews)
            return self._prompt("product_query", product=product, max_words=most)

        def read(reply: str) -> str:
            return drafts.read_query(reply, most)

        versions = drafts.shrinking(self._material(target, [target.id], []), render)
        address = (number, "product_query", target.id)
        return self._asked(_Question("product_query", target.id, versions, address, read))

    def _draft(
        self, target: CatalogueProduct, material: drafts.Material, query: str, number: int
    ) -> _Written[drafts.Draft]:
        """The first draft that keeps the rules, with the prompt that led to it and its attempt."""
        config = self.config

        def read(text: str) -> drafts.Draft:
            draft = drafts.judge(text, target.title, config.fewest_turns, config.most_turns)
            if draft.problems:
                raise InputError("; ".join(draft.problems))
            return draft

        def by_rule(attempt: int) -> tuple[str, Facts]:
            rng = stream(config.seed, NAME, number, "template", attempt)
            others = [product for product in material.products if product is not target]
            return drafts.conversation_by_rule(target, others, material.passages, query, rng), {}

        def render(material: drafts.Material) -> str:
            return self._prompt(
                "conversation",
                query=query,
                target=target.title,
                catalogue=material.catalogue(),
                documents=material.documents() or "(none)",
                fewest=config.fewest_turns,
                most=config.most_turns,
            )

        if config.writer == TEMPLATE:
            return self._first(by_rule, read, f"conversation for {target.id}")
        versions = drafts.shrinking(material, render)
        return self._asked(_Question("conversation", target.id, versions, (number, "conversation"), read))

    def _profile(self, user: str, number: int) -> dict[str, Any]:
        """Summary and keywords of a buyer, by the model or by rule, with what was asked."""
        reviews = self.stock.reviews_of(user)[: drafts.MOST_REVIEWS]
        texts = [f"{review.title}. {review.text}" for review in reviews]
        sent: dict[str, Facts] = {}
        if self.config.writer == TEMPLATE:
            profile = drafts.profile_by_rule(user, texts)
        else:
            summary = self._of_buyer("user_summary", user, texts, number, drafts.read_summary)
            keywords = self._of_buyer("user_keywords", user, texts, number, drafts.read_keywords)
            profile = drafts.Profile(summary.content, keywords.content)
            sent = {"user_summary": summary.facts, "user_keywords": keywords.facts}
        return {
            "user": user,
            "summary": profile.summary,
            "keywords": profile.keywords,
            "reviews": len(texts),
            "writer": self.config.writer,
            "prompts": sent,
        }

    def _of_buyer(
        self, name: str, user: str, texts: Sequence[str], number: int, read: Callable[[str], T]
    ) -> _Written[T]:
        versions = self._review_versions(name, texts)
        return self._asked(_Question(name, user, versions, (number, name, user), read))

    def _review_versions(self, name: str, texts: Sequence[str]) -> Iterator[drafts.Version]:
        """The prompt of all reviews, then without the last ones."""
        for size in range(len(texts), 0, -1):
            left_out = tuple(f"review {number}" for number in range(size + 1, len(texts) + 1))
            prompt = self._prompt(name, reviews=drafts.numbered(texts[:size]))
            yield drafts.Version(prompt, left_out)

    def _prompt(self, name: str, **values: str | int) -> str:
        return prompts.render(f"{NAME}/{name}", self.config.prompts, **values)

    def _asked(self, question: _Question[T]) -> _Written[T]:
        """A model's first answer to a prompt that can be read; each attempt has a seed of its own."""
        config = self.config
        models = self.models
        if models is None:
            raise RunError("the writer was made without models; this is a defect, please report it")
        name = question.prompt
        target = config.request(name)
        version, context = drafts.fit(
            question.versions, question.about, self._tokens, target.tokens, config.contexts
        )
        options = {"num_ctx": context, "num_predict": target.tokens, "temperature": config.temperature}
        tokens = self._tokens(version.prompt) if config.tokenizer else 0

        def ask(attempt: int) -> tuple[str, Facts]:
            seed = address_seed(config.model_seed, NAME, *question.address, attempt)
            tags = {"conversation": question.address[0], "attempt": attempt, "prompt": name}
            role = f"cosrec {name}"
            request = Request.ask(role, version.prompt, seed=seed, options=options, tags=tags, tokens=tokens)
            reply = models.complete(target.model, request)
            facts = {
                "template": prompts.digest(f"{NAME}/{name}", config.prompts),
                "prompt": version.prompt,
                "seed": seed,
                "num_ctx": context,
                "model": reply.digest,
                "left_out": list(version.left_out),
            }
            return reply.text, facts

        return self._first(ask, question.read, f"{name} for {question.about}")

    def _first(
        self, write: Callable[[int], tuple[str, Facts]], read: Callable[[str], T], wanted: str
    ) -> _Written[T]:
        """The first attempt's text that can be read; RunError for none."""
        problem = ""
        for attempt in range(self.attempts):
            text, facts = write(attempt)
            try:
                return _Written(read(text), facts, attempt + 1)
            except InputError as error:
                problem = str(error)
        raise RunError(f"no usable {wanted} in {self.attempts} attempts: {problem}")


def _counter(tokenizer: str) -> Callable[[str], int]:
    """Counts a prompt's tokens by a ``tokenizer.json``, 16 more for its frame; without one by bytes."""
    if not tokenizer:
        return lambda prompt: tokens_at_most([Message("user", prompt)])
    path = paths.given(tokenizer)
    if not path.is_file():
        raise InputError(f"no tokenizer file {tokenizer!r}; give the model's tokenizer.json, or none")
    from tokenizers import Tokenizer

    model: Any = Tokenizer.from_file(str(path))
    return lambda prompt: len(model.encode(prompt).ids) + _FRAME


def generate(config: GenerateSettings, *, progress: bool = True) -> Path:
    """Generate the conversations of a run; returns the folder with its files. ``generated.jsonl`` holds a
    record a conversation; ``raw/`` the same conversations, profiles and keywords in the form of the corpus;
    ``llm_calls.jsonl`` a row for each call to a model. Before the first call every model is asked for, and a
    RunError lists all that is missing. A killed run continues and repeats no finished call; conversations
    that failed are tried again.
    """
    folder = Path()
    if not config.index:
        folder = index.shop(config.source)
    models = config.models()
    before = runs.Run(NAME, config.run).entry(_STAGE)
    inputs = index.digests(folder, config.index)
    inputs |= jobs.weights(before, models, config.needs)
    keys = [Key(config.writer, number) for number in range(config.conversations)]
    with runs.stage(NAME, config.run, _STAGE, config.parameters(), inputs) as work, work.ledger() as ledger:
        runs.job(
            work,
            ledger,
            [runs.Part(keys, tuple(models), label="conversations")],
            Writer,
            (config, str(folder)),
            llm=config.reached(),
            workers=config.workers,
            scheduler=config.scheduler,
            logged=bool(models),
            progress=progress,
        )
        records = [safety.loads(body, "a body of the ledger") for body in ledger.bodies(keys)]
        _export(work, records)
    return work.folder


def _export(work: runs.Stage, records: Sequence[Record]) -> None:
    """The records, and the same in the form of the corpus."""
    tables.write_jsonl(work.path("generated.jsonl"), records)
    talks = [{record["id"]: record["conversation"]} for record in records]
    tables.write_jsonl(work.path("raw/conversations.jsonl"), talks)
    profiles = []
    keywords = []
    work.counts.update(conversations=len(records), repaired=0, users=0)
    for record in records:
        users = sorted(record["users"], key=lambda user: str(user["user"]))
        work.counts["repaired"] += bool(record["repairs"])
        work.counts["users"] += len(users)
        if users:
            profiles.append({record["id"]: {user["user"]: user["summary"] for user in users}})
            keywords.append({record["id"]: {user["user"]: user["keywords"] for user in users}})
    tables.write_jsonl(work.path("raw/profiles.jsonl"), profiles)
    tables.write_jsonl(work.path("raw/keywords.jsonl"), keywords)


def account(run: str) -> str:
    """The last line of a generation: what writers were shown, what did not fit their prompts, the records."""
    read = 0
    left_out = 0
    for record in read_generated(run):
        read += len(record["products"]) + len(record["passages"])
        sent = list(record["prompts"].values())
        for user in record["users"]:
            sent += user["prompts"].values()
        for facts in sent:
            left_out += len(facts.get("left_out", ()))
    where = paths.shown(paths.run_folder(NAME, run) / "generated.jsonl")
    reasons = {"parts that did not fit a prompt": left_out}
    return balance("products and passages", read, reasons, f"{where} (left_out)")


def read_generated(run: str) -> list[dict[str, Any]]:
    """The records of a finished run; RunError with the command that makes it."""
    path = runs.Run(NAME, run).output(_STAGE, "12_cosrec_generate", "generated.jsonl")
    return list(tables.read_jsonl(path))


def table(records: Sequence[Record]) -> pd.DataFrame:
    """One row a generated conversation: query, target, user turns, attempt, repairs."""
    rows = []
    for record in records:
        target = shorten(record["target_title"], 40)
        turns = record["conversation"].count("\nU: ") + 1
        repairs = len(record["repairs"])
        rows.append((record["id"], record["query"], target, turns, record["attempt"], repairs))
    return pd.DataFrame(rows, columns=["id", "query", "target", "user turns", "attempt", "repairs"])


def profiles(records: Sequence[Record], width: int = 60) -> pd.DataFrame:
    """One row a buyer: conversation, reviews read, keywords and how many, the summary cut at a width."""
    rows = []
    for record in records:
        for user in record["users"]:
            keywords = user["keywords"]
            summary = shorten(user["summary"], width)
            rows.append((record["id"], user["reviews"], "; ".join(keywords), len(keywords), summary))
    return pd.DataFrame(rows, columns=["id", "reviews", "keywords", "count", "summary"])
