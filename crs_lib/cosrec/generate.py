"""Make conversations: one from its number, and a run's records, corpus files and log of all calls."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from crs_lib import runs
from crs_lib.core import paths, prompts, safety, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.rng import address_seed, stream
from crs_lib.core.text import shorten
from crs_lib.cosrec import corpus, drafts, index
from crs_lib.cosrec.index import CatalogueProduct
from crs_lib.cosrec.settings import NAME, TEMPLATE, GenerateSettings
from crs_lib.llm import Message, Pool, Request, Retry
from crs_lib.llm.base import tokens_at_most
from crs_lib.runs import jobs
from crs_lib.runs.jobs import Start
from crs_lib.runs.ledger import Key

T = TypeVar("T")
_Facts = dict[str, Any]  # what was asked for a text
_Address = tuple[str | int, ...]  # of a seed
_Read = Callable[[str], T]
_Write = Callable[[int], tuple[str, _Facts]]  # an attempt's text
_STAGE = "generate"


class _Writer:
    """Makes the record of one conversation from its number alone; see :func:`crs_lib.runs.job`."""

    def __init__(
        self, config: GenerateSettings, source: str, start: Start | None = None, pool: Pool | None = None
    ) -> None:
        """Opens the stock. At the nth ``start`` of a run n times as many attempts are made as the config
        says: what failed before gets new seeds. ``pool`` replaces the models that the config names.
        """
        start = start or Start(run=config.run)
        self.config, self.attempts = config, start.starts * config.attempts
        self.stock = index.opened(Path(source), config.index, config.k1, config.b)
        if config.conversations > len(self.stock.products):
            here = f"the catalogue has {len(self.stock.products)}; ask for fewer"
            raise InputError(f"{config.conversations} conversations need as many target products, {here}")
        self._tokens = _counter(config.tokenizer)
        self._products = self.stock.search("products", config.product_retrievers, config.fusion)
        self._passages = self.stock.search("passages", config.passage_retrievers, config.fusion)
        ids = sorted(self.stock.products)
        order = stream(config.seed, NAME, "targets").permutation(len(ids))
        self.targets = [ids[i] for i in order[: config.conversations]]
        if pool is None and config.models():
            pool = start.pool(config.reached(), Retry(waits=config.retries))
        self.models = pool

    def __call__(self, key: Key) -> str:
        return json.dumps(self.record(key.session), ensure_ascii=False)

    def record(self, number: int) -> dict[str, Any]:
        """Conversation ``number`` with everything that went into it. Raises RunError when no attempt keeps
        the rules; the next start tries again.
        """
        config, products = self.config, self.stock.products
        target = products[self.targets[number]]
        hits = self._products.search(target.search_text(), config.products + 1)
        related = [hit.id for hit in hits if hit.id != target.id][: config.products - 1]
        shown = [target.id, *related]
        order = [shown[i] for i in stream(config.seed, NAME, number, "order").permutation(len(shown))]
        query, asked = self._query(target, number)
        found = [hit.id for hit in self._passages.search(query, config.passages)] if config.passages else []
        described = tuple(products[name] for name in order)
        passages = tuple(self.stock.passages[name] for name in found)
        material = drafts.Material(described, passages, config.reviews, len(order))
        draft, written, attempt = self._draft(target, material, query, number)
        reviews = target.best_reviews(len(target.reviews))  # their buyers, each once, are those shown
        buyers = list(dict.fromkeys(str(review["user"]) for review in reviews))[: config.users]
        return {
            "id": f"Generated_{number + 1}", "conversation": draft.text(), "target": target.id,
            "target_title": target.title, "query": query, "related": related, "products": order,
            "passages": found, "writer": config.writer, "query_writer": config.asked_for_queries,
            "attempt": attempt, "repairs": list(draft.repairs),
            "users": [self._profile(user, number) for user in buyers],
            "prompts": {"product_query": asked, "conversation": written},
        }  # fmt: skip

    def _query(self, target: CatalogueProduct, number: int) -> tuple[str, _Facts]:
        """A general query for the target, and what was asked for it."""
        most = self.config.query_words
        if self.config.asked_for_queries == TEMPLATE:
            return drafts.query_by_rule(target, min(5, most)), {}

        def render(kept: drafts.Material) -> str:
            return self._prompt("product_query", product=target.block(kept.reviews), max_words=most)

        def read(text: str) -> str:
            query = " ".join(text.replace('"', " ").replace("?", " ").split()).lower().strip(" .")
            if not 0 < len(query.split()) <= most:
                raise InputError(f"{len(query.split())} words, expected 1 to {most}")
            return query

        material = drafts.Material((target,), (), self.config.reviews, 1)
        versions = drafts.shrinking(material, target.id, render)
        address = (number, "product_query", target.id)
        return self._asked("product_query", target.id, versions, address, read)[:2]

    def _draft(
        self, target: CatalogueProduct, material: drafts.Material, query: str, number: int
    ) -> tuple[drafts.Draft, _Facts, int]:
        """The first draft that keeps the rules, with the prompt that led to it and its attempt."""
        config = self.config
        turns = {"fewest": config.fewest_turns, "most": config.most_turns}

        def read(text: str) -> drafts.Draft:
            draft = drafts.judge(text, target.title, **turns)
            if draft.problems:
                raise InputError("; ".join(draft.problems))
            return draft

        def by_rule(attempt: int) -> tuple[str, _Facts]:
            rng = stream(config.seed, NAME, number, "template", attempt)
            others = [one for one in material.products if one is not target]
            return drafts.conversation_by_rule(target, others, material.passages, query, rng), {}

        def render(kept: drafts.Material) -> str:
            shown = {"catalogue": kept.catalogue(target.id), "documents": kept.documents() or "(none)"}
            return self._prompt("conversation", query=query, target=target.title, **shown, **turns)

        if config.writer == TEMPLATE:
            return self._first(by_rule, read, f"conversation for {target.id}")
        versions = drafts.shrinking(material, target.id, render)
        return self._asked("conversation", target.id, versions, (number, "conversation"), read)

    def _profile(self, user: str, number: int) -> dict[str, Any]:
        """Summary and keywords of a buyer, by the model or by rule, with what was asked."""
        reviews = self.stock.reviews_of(user)[: drafts.MOST_REVIEWS]
        texts = [f"{review['title']}. {review['text']}" for review in reviews]
        if self.config.writer == TEMPLATE:
            return drafts.profile_by_rule(user, texts) | {"prompts": {}}

        def ask(name: str, read: Callable[[str], T]) -> tuple[T, _Facts]:
            left = [f"review {n}" for n in range(1, len(texts) + 1)]
            versions = (
                (self._prompt(name, reviews=drafts.numbered(texts[:n])), tuple(left[n:]))
                for n in range(len(texts), 0, -1)
            )
            return self._asked(name, user, versions, (number, name, user), read)[:2]

        summary, first = ask("user_summary", drafts.read_summary)
        keywords, second = ask("user_keywords", drafts.read_keywords)
        return {
            "user": user, "summary": summary, "keywords": keywords, "reviews": len(texts),
            "writer": self.config.writer, "prompts": {"user_summary": first, "user_keywords": second},
        }  # fmt: skip

    def _prompt(self, name: str, **values: str | int) -> str:
        return prompts.render(f"{NAME}/{name}", self.config.prompts, **values)

    def _asked(
        self, name: str, about: str, versions: Iterable[drafts.Version], address: _Address, read: _Read[T]
    ) -> tuple[T, _Facts, int]:
        """A model's first answer to a prompt that can be read; each attempt has a seed of its own."""
        config, models = self.config, self.models
        if models is None:
            raise RunError("the writer was made without models; this is a defect, please report it")
        spec, answer = config.asked(name)
        fitted = drafts.fit(versions, about, self._tokens, answer, config.contexts)
        options = {"num_ctx": fitted.context, "num_predict": answer, "temperature": config.temperature}

        def ask(attempt: int) -> tuple[str, _Facts]:
            seed = address_seed(config.model_seed, NAME, *address, attempt)
            tags = {"conversation": address[0], "attempt": attempt, "prompt": name}
            tokens = self._tokens(fitted.prompt) if config.tokenizer else 0
            given: dict[str, Any] = {"seed": seed, "options": options, "tags": tags, "tokens": tokens}
            request = Request.ask(f"cosrec {name}", fitted.prompt, **given)
            reply = models.complete(spec, request)
            facts = {
                "template": prompts.digest(f"{NAME}/{name}", config.prompts), "prompt": fitted.prompt,
                "seed": seed, "num_ctx": fitted.context, "model": reply.digest,
                "left_out": list(fitted.left_out),
            }  # fmt: skip
            return reply.text, facts

        return self._first(ask, read, f"{name} for {about}")

    def _first(self, write: _Write, read: _Read[T], wanted: str) -> tuple[T, _Facts, int]:
        """The first text that can be read, what was asked for it, and its attempt from 1; else RunError."""
        problem = ""
        for attempt in range(self.attempts):
            text, facts = write(attempt)
            try:
                return read(text), facts, attempt + 1
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

    counted: Any = Tokenizer.from_file(str(path))
    return lambda prompt: len(counted.encode(prompt).ids) + 16


def generate(config: GenerateSettings, *, progress: bool = True) -> Path:
    """Generate the conversations of a run; returns the folder with its files. ``generated.jsonl`` holds a
    record a conversation; ``raw/`` the same conversations, profiles and keywords in the form of the corpus;
    ``llm_calls.jsonl`` a row for each call to a model. Before the first call every model is asked for, and a
    RunError lists all that is missing. A killed run continues and repeats no finished call; conversations
    that failed are tried again.
    """
    folder = corpus.locate(config.source) if not config.index else Path()
    before = runs.entry(NAME, config.run, _STAGE)
    inputs = index.digests(folder, config.index) | jobs.weights(before, config.models(), config.needs)
    keys = [Key(config.writer, number) for number in range(config.conversations)]
    with runs.stage(NAME, config.run, _STAGE, config.parameters(), inputs) as work, work.ledger() as ledger:
        runs.job(
            work, ledger, [runs.Part(keys, tuple(config.models()), label="conversations")],
            _Writer, (config, str(folder)), llm=config.reached(), workers=config.workers,
            scheduler=config.scheduler, logged=bool(config.models()), progress=progress,
        )  # fmt: skip
        records = [safety.loads(body, "a body of the ledger") for body in ledger.bodies(keys)]
        _export(work, records)
    return work.folder


def _export(work: runs.Stage, records: Sequence[Mapping[str, Any]]) -> None:
    """The records, and the same in the form of the corpus."""
    tables.write_jsonl(work.path("generated.jsonl"), records)
    talks = ({record["id"]: record["conversation"]} for record in records)
    tables.write_jsonl(work.path("raw/conversations.jsonl"), talks)
    by_name = partial(sorted, key=lambda user: str(user["user"]))
    bought = [(record["id"], by_name(record["users"])) for record in records if record["users"]]
    for name, part in (("profiles", "summary"), ("keywords", "keywords")):
        rows = ({talk: {user["user"]: user[part] for user in users}} for talk, users in bought)
        tables.write_jsonl(work.path(f"raw/{name}.jsonl"), rows)
    work.counts["conversations"] = len(records)
    work.counts["repaired"] = sum(bool(record["repairs"]) for record in records)
    work.counts["users"] = sum(len(record["users"]) for record in records)


def read_generated(run: str) -> list[dict[str, Any]]:
    """The records of a finished run; RunError with the command that makes it."""
    path = runs.output(NAME, run, _STAGE, "12_cosrec_generate", "generated.jsonl")
    return list(tables.read_jsonl(path))


def table(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row a generated conversation: query, target, user turns, attempt, repairs."""
    rows = [
        (r["id"], r["query"], shorten(r["target_title"], 40), r["conversation"].count("\nU: ") + 1,
         r["attempt"], len(r["repairs"]))
        for r in records
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["id", "query", "target", "user turns", "attempt", "repairs"])


def profiles(records: Sequence[Mapping[str, Any]], width: int = 60) -> pd.DataFrame:
    """One row a buyer: conversation, reviews read, keywords and how many, the summary cut at a width."""
    rows = [
        (r["id"], user["reviews"], "; ".join(user["keywords"]), len(user["keywords"]),
         shorten(user["summary"], width))
        for r in records
        for user in r["users"]
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["id", "reviews", "keywords", "count", "summary"])
