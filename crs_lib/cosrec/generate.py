"""Make conversations: one from its number, and a run's records, corpus files and log of all calls."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pandas as pd

from crs_lib import runs
from crs_lib.core import prompts, safety, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.rng import address_seed, stream
from crs_lib.core.text import shorten
from crs_lib.cosrec import corpus, drafts, index, template
from crs_lib.cosrec.collections import CatalogueProduct
from crs_lib.cosrec.settings import NAME, TEMPLATE, GenerateSettings
from crs_lib.llm import Message, Pool, Request, Retry
from crs_lib.llm.base import tokens_at_most
from crs_lib.runs import jobs
from crs_lib.runs.jobs import Start
from crs_lib.runs.ledger import Key

T = TypeVar("T")


class Writer:
    """Makes the record of one conversation from its number alone; see :func:`crs_lib.runs.job`."""

    def __init__(
        self,
        config: GenerateSettings,
        source: str,
        start: Start | None = None,
        pool: Pool | None = None,
    ) -> None:
        """Opens the stock. At the nth ``start`` of a run n times as many attempts are made as the config
        says: what failed before gets new seeds. ``pool`` replaces the models that the config names.
        """
        start = start or Start(run=config.run)
        self.config, self.attempts = config, start.starts * config.attempts
        self.stock = index.opened(Path(source), config.index, config.k1, config.b)
        if config.conversations > len(self.stock.products):
            raise InputError(
                f"{config.conversations} conversations need as many target products, the catalogue has "
                f"{len(self.stock.products)}; ask for fewer"
            )
        self._products = self.stock.product_search(config.product_retrievers, config.fusion)
        self._passages = self.stock.passage_search(config.passage_retrievers, config.fusion)
        asins = sorted(self.stock.products)
        order = stream(config.seed, NAME, "targets").permutation(len(asins))
        self.targets = [asins[i] for i in order[: config.conversations]]
        if pool is None and config.models():
            pool = start.pool(config.reached(), Retry(waits=config.retries))
        self.models = pool

    def __call__(self, key: Key) -> str:
        return json.dumps(self.record(key.session), ensure_ascii=False)

    def record(self, number: int) -> dict[str, Any]:
        """Conversation ``number`` with everything that went into it.

        Raises RunError when no attempt keeps the rules; the next start tries again.
        """
        config, products = self.config, self.stock.products
        target = products[self.targets[number]]
        hits = self._products.search(target.text(), config.products + 1)
        related = [hit.id for hit in hits if hit.id != target.asin][: config.products - 1]
        shown = [target.asin, *related]
        order = [shown[i] for i in stream(config.seed, NAME, number, "order").permutation(len(shown))]
        query, asked = self._query(target, number)
        found = [hit.id for hit in self._passages.search(query, config.passages)] if config.passages else []
        material = drafts.PromptMaterial(
            tuple(products[asin] for asin in order),
            tuple(self.stock.passages[name] for name in found),
            config.reviews,
            len(order),
        )
        written, draft, attempt = self._written(target, material, query, number)
        return {
            "id": f"Generated_{number + 1}",
            "conversation": draft.text(),
            "target": target.asin,
            "target_title": target.title,
            "query": query,
            "related": related,
            "products": order,
            "passages": found,
            "writer": config.writer,
            "query_writer": config.asked_for_queries,
            "attempt": attempt,
            "repairs": list(draft.repairs),
            "users": [self._profile(user, number) for user in self._buyers(target)],
            "prompts": {"product_query": asked, "conversation": written},
        }

    def _buyers(self, target: CatalogueProduct) -> list[str]:
        """Buyers of the target: those with the most helpful reviews of it first, each once."""
        reviews = target.best_reviews(len(target.reviews))
        return list(dict.fromkeys(str(review["user"]) for review in reviews))[: self.config.users]

    def _query(self, target: CatalogueProduct, number: int) -> tuple[str, dict[str, Any]]:
        """A general query for the target, and what was asked for it."""
        config = self.config
        if config.asked_for_queries == TEMPLATE:
            return template.query(target, min(5, config.query_words)), {}

        def render(kept: drafts.PromptMaterial) -> str:
            return self._prompt("product_query", product=target.block(kept.reviews))

        def read(text: str) -> str:
            query = " ".join(text.replace('"', " ").replace("?", " ").split()).lower().strip(" .")
            if not 0 < len(query.split()) <= config.query_words:
                raise InputError(f"{len(query.split())} words, expected 1 to {config.query_words}")
            return query

        material = drafts.PromptMaterial((target,), (), config.reviews, 1)
        versions = drafts.shrinking(material, target.asin, render)
        question = self._question("product_query", config.asked_for_queries, versions, target.asin)
        return self._until(question, number, target.asin, read)

    def _written(
        self, target: CatalogueProduct, material: drafts.PromptMaterial, query: str, number: int
    ) -> tuple[dict[str, Any], drafts.Draft, int]:
        """The first attempt that keeps the rules, with the prompt that led to it."""
        config = self.config
        judge = partial(drafts.judge, title=target.title, fewest=config.fewest_turns, most=config.most_turns)

        def render(kept: drafts.PromptMaterial) -> str:
            return self._prompt(
                "conversation",
                query=query,
                target=target.title,
                catalogue=kept.catalogue(target.asin),
                documents=kept.documents() or "(none)",
                fewest=config.fewest_turns,
                most=config.most_turns,
            )

        problems: list[str] = []
        question = None
        if config.writer != TEMPLATE:
            versions = drafts.shrinking(material, target.asin, render)
            question = self._question("conversation", config.writer, versions, target.asin)
        for attempt in range(self.attempts):
            facts: dict[str, Any] = {}
            if question is None:
                rng = stream(config.seed, NAME, number, "template", attempt)
                others = [p for p in material.products if p is not target]
                text = template.conversation(target, others, material.passages, query, rng)
            else:
                text, facts = self._ask(question, number, attempt)
            draft = judge(text)
            if not draft.problems:
                return facts, draft, attempt + 1
            problems.append("; ".join(draft.problems))
        raise RunError(f"no attempt of {self.attempts} about {target.asin} keeps the rules: {problems[-1]}")

    def _profile(self, user: str, number: int) -> dict[str, Any]:
        """Summary and keywords of a buyer, by the model or by rule, with what was asked."""
        config = self.config
        texts = drafts.review_texts(self.stock.reviews_of(user))
        if config.writer == TEMPLATE:
            return drafts.profile_by_rule(user, texts) | {"prompts": {}}

        def ask(name: str, read: Callable[[str], T]) -> tuple[T, dict[str, Any]]:
            versions = (
                (
                    self._prompt(name, reviews=drafts.numbered(texts[:kept])),
                    tuple(f"review {n}" for n in range(kept + 1, len(texts) + 1)),
                )
                for kept in range(len(texts), 0, -1)
            )
            return self._until(self._question(name, config.writer, versions, user), number, user, read)

        summary, first = ask("user_summary", drafts.read_summary)
        keywords, second = ask("user_keywords", drafts.read_keywords)
        return {
            "user": user, "summary": summary, "keywords": keywords, "reviews": len(texts),
            "writer": config.writer, "prompts": {"user_summary": first, "user_keywords": second},
        }  # fmt: skip

    def _question(self, name: str, spec: str, versions: Iterable[drafts.Version], about: str) -> "_Question":
        config = self.config
        answer = config.answer_tokens if name == "conversation" else config.query_tokens
        return _Question(name, spec, answer, drafts.fit(versions, about, _tokens, answer, config.contexts))

    def _until(
        self, question: "_Question", number: int, about: str, read: Callable[[str], T]
    ) -> tuple[T, dict[str, Any]]:
        """The first answer that can be read; RunError naming the last problem after all attempts."""
        problem = ""
        for attempt in range(self.attempts):
            text, facts = self._ask(question, number, attempt, about)
            try:
                return read(text), facts
            except InputError as error:
                problem = str(error)
        raise RunError(f"no usable {question.name} for {about} in {self.attempts} attempts ({problem})")

    def _prompt(self, name: str, **values: str | int) -> str:
        return prompts.render(f"{NAME}/{name}", self.config.prompts, **values)

    def _ask(
        self, question: "_Question", number: int, attempt: int, about: str = ""
    ) -> tuple[str, dict[str, Any]]:
        """A model's answer; the seed is the conversation's and the attempt's own."""
        if self.models is None:
            raise RunError("the writer was made without models; this is a defect, please report it")
        config, (name, spec, answer, fitted) = self.config, question
        address: tuple[str | int, ...] = (number, name, *([about] if about else []), attempt)
        seed = address_seed(config.model_seed, NAME, *address)
        options = {
            "num_ctx": fitted.context, "num_predict": answer, "temperature": config.temperature,
        }  # fmt: skip
        tags: Mapping[str, str | int] = {"conversation": number, "attempt": attempt, "prompt": name}
        request = Request.ask(f"cosrec {name}", fitted.prompt, seed=seed, options=options, tags=tags)
        reply = self.models.complete(spec, request)
        facts = {
            "template": prompts.digest(f"{NAME}/{name}", config.prompts), "prompt": fitted.prompt,
            "seed": seed, "num_ctx": fitted.context, "model": reply.digest,
            "left_out": list(fitted.left_out),
        }  # fmt: skip
        return reply.text, facts


class _Question(NamedTuple):
    """The name of a prompt, the model that is asked, the longest answer, and the prompt itself."""

    name: str
    spec: str
    answer: int
    fitted: drafts.Fitted


def _tokens(prompt: str) -> int:
    return tokens_at_most([Message("user", prompt)])


STAGE = "generate"


def generate(config: GenerateSettings, *, progress: bool = True) -> Path:
    """Generate the conversations of a run; returns the folder with its files.

    ``generated.jsonl`` holds a record a conversation; ``raw/`` the same conversations, profiles and
    keywords in the form of the corpus; ``llm_calls.jsonl`` a row for each call to a model. Before the
    first call every model is asked for, and a RunError lists all that is missing. A killed run continues
    and repeats no finished call; conversations that failed are tried again.
    """
    folder = corpus.locate(config.source) if not config.index else Path()
    before = runs.entry(NAME, config.run, STAGE)
    inputs = index.digests(folder, config.index) | jobs.weights(before, config.models(), config.needs)
    keys = [Key(config.writer, number) for number in range(config.conversations)]
    with runs.stage(NAME, config.run, STAGE, config.parameters(), inputs) as work, work.ledger() as ledger:
        runs.job(
            work, ledger, [runs.Part(keys, tuple(config.models()), label="conversations")],
            Writer, (config, str(folder)), llm=config.reached(), workers=config.workers,
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
    for name, part in (("profiles", "summary"), ("keywords", "keywords")):
        rows = (
            {record["id"]: {user["user"]: user[part] for user in sorted(record["users"], key=_name)}}
            for record in records
            if record["users"]
        )
        tables.write_jsonl(work.path(f"raw/{name}.jsonl"), rows)
    work.counts["conversations"] = len(records)
    work.counts["repaired"] = sum(bool(record["repairs"]) for record in records)
    work.counts["users"] = sum(len(record["users"]) for record in records)


def _name(user: Mapping[str, Any]) -> str:
    return str(user["user"])


def table(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row a generated conversation: query, target, user turns, attempt, repairs."""
    rows = [
        {
            "id": record["id"],
            "query": record["query"],
            "target": shorten(record["target_title"], 40),
            "user turns": record["conversation"].count("\nU: ") + 1,
            "attempt": record["attempt"],
            "repairs": len(record["repairs"]),
        }
        for record in records
    ]
    return pd.DataFrame(rows)


def profiles(records: Sequence[Mapping[str, Any]], width: int = 60) -> pd.DataFrame:
    """One row a buyer: conversation, reviews read, keywords and how many, the summary cut at a width."""
    rows = [
        (
            record["id"], user["reviews"], "; ".join(user["keywords"]), len(user["keywords"]),
            shorten(user["summary"], width),
        )
        for record in records
        for user in record["users"]
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["id", "reviews", "keywords", "count", "summary"])


def read_generated(run: str) -> list[dict[str, Any]]:
    """The records of a finished run; RunError with the command that makes it."""
    path = runs.output(NAME, run, STAGE, "12_cosrec_generate", "generated.jsonl")
    return list(tables.read_jsonl(path))
