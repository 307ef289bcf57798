"""One conversation from its number: target, related products, query, profiles, draft, and the evidence."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from crs_lib.core import prompts
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.rng import address_seed, stream
from crs_lib.cosrec import budget, drafts, index, template
from crs_lib.cosrec.collections import CatalogueProduct
from crs_lib.cosrec.settings import NAME, TEMPLATE, GenerateSettings
from crs_lib.llm import Message, Pool, Request
from crs_lib.llm.limits import tokens_at_most
from crs_lib.runs.jobs import Start
from crs_lib.runs.ledger import Key

T = TypeVar("T")
_NOTHING = budget.PromptMaterial((), (), 0, 0)


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
            pool = start.pool(config.service())
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
        material = budget.PromptMaterial(
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

        def render(kept: budget.PromptMaterial) -> str:
            return self._prompt("product_query", product=target.block(kept.reviews))

        material = budget.PromptMaterial((target,), (), config.reviews, 1)
        fitted = budget.fit(material, target.asin, render, _tokens, config.query_tokens, config.contexts)

        def read(text: str) -> str:
            query = " ".join(text.replace('"', " ").replace("?", " ").split()).lower().strip(" .")
            if not 0 < len(query.split()) <= config.query_words:
                raise InputError(f"{len(query.split())} words, expected 1 to {config.query_words}")
            return query

        query, facts = self._until(
            "product_query", config.asked_for_queries, fitted, config.query_tokens, number, target.asin, read
        )
        return query, {**facts, "left_out": list(fitted.left_out)}

    def _written(
        self, target: CatalogueProduct, material: budget.PromptMaterial, query: str, number: int
    ) -> tuple[dict[str, Any], drafts.Draft, int]:
        """The first attempt that keeps the rules, with the prompt that led to it."""
        config = self.config
        judge = partial(drafts.judge, title=target.title, fewest=config.fewest_turns, most=config.most_turns)
        problems: list[str] = []
        fitted = self._fitted(target, material, query) if config.writer != TEMPLATE else None
        for attempt in range(self.attempts):
            facts: dict[str, Any] = {}
            if fitted is None:
                rng = stream(config.seed, NAME, number, "template", attempt)
                others = [p for p in material.products if p is not target]
                text = template.conversation(target, others, material.passages, query, rng)
            else:
                text, facts = self._ask(
                    "conversation", config.writer, fitted, config.answer_tokens, number, attempt
                )
                facts["left_out"] = list(fitted.left_out)
            draft = judge(text)
            if not draft.problems:
                return facts, draft, attempt + 1
            problems.append("; ".join(draft.problems))
        raise RunError(f"no attempt of {self.attempts} about {target.asin} keeps the rules: {problems[-1]}")

    def _fitted(self, target: CatalogueProduct, material: budget.PromptMaterial, query: str) -> budget.Fitted:
        config = self.config

        def render(kept: budget.PromptMaterial) -> str:
            return self._prompt(
                "conversation",
                query=query,
                target=target.title,
                catalogue=kept.catalogue(target.asin),
                documents=kept.documents() or "(none)",
                fewest=config.fewest_turns,
                most=config.most_turns,
            )

        return budget.fit(material, target.asin, render, _tokens, config.answer_tokens, config.contexts)

    def _profile(self, user: str, number: int) -> dict[str, Any]:
        """Summary and keywords of a buyer, by the model or by rule, with what was asked."""
        config = self.config
        texts = drafts.review_texts(self.stock.reviews_of(user))
        if config.writer == TEMPLATE:
            return drafts.profile_by_rule(user, texts) | {"prompts": {}}

        def fitted(name: str) -> budget.Fitted:
            for kept in range(len(texts), 0, -1):
                prompt = self._prompt(name, reviews=drafts.numbered(texts[:kept]))
                needs = _tokens(prompt) + config.query_tokens
                size = next((size for size in config.contexts if needs <= size), None)
                if size is not None:
                    left = tuple(f"review {n}" for n in range(kept + 1, len(texts) + 1))
                    return budget.Fitted(prompt, size, _NOTHING, left)
            raise InputError(f"no review of user {user!r} fits the context sizes {list(config.contexts)}")

        def ask(name: str, read: Callable[[str], T]) -> tuple[T, dict[str, Any]]:
            made = fitted(name)
            value, facts = self._until(name, config.writer, made, config.query_tokens, number, user, read)
            return value, {**facts, "left_out": list(made.left_out)}

        summary, first = ask("user_summary", drafts.read_summary)
        keywords, second = ask("user_keywords", drafts.read_keywords)
        return {
            "user": user, "summary": summary, "keywords": keywords, "reviews": len(texts),
            "writer": config.writer, "prompts": {"user_summary": first, "user_keywords": second},
        }  # fmt: skip

    def _until(
        self,
        name: str,
        spec: str,
        fitted: budget.Fitted,
        answer: int,
        number: int,
        about: str,
        read: Callable[[str], T],
    ) -> tuple[T, dict[str, Any]]:
        """The first answer that can be read; RunError naming the last problem after all attempts."""
        problem = ""
        for attempt in range(self.attempts):
            text, facts = self._ask(name, spec, fitted, answer, number, attempt, about)
            try:
                return read(text), facts
            except InputError as error:
                problem = str(error)
        raise RunError(f"no usable {name} for {about} in {self.attempts} attempts ({problem})")

    def _prompt(self, name: str, **values: str | int) -> str:
        return prompts.render(f"{NAME}/{name}", self.config.prompts, **values)

    def _ask(
        self, name: str, spec: str, fitted: budget.Fitted, answer: int, number: int, attempt: int,
        about: str = "",
    ) -> tuple[str, dict[str, Any]]:  # fmt: skip
        """A model's answer; the seed is the conversation's and the attempt's own."""
        config = self.config
        if self.models is None:
            raise RunError("the writer was made without models; this is a defect, please report it")
        address: tuple[str | int, ...] = (number, name, *([about] if about else []), attempt)
        seed = address_seed(config.model_seed, NAME, *address)
        options = {
            "num_ctx": fitted.context, "num_predict": answer, "temperature": config.temperature,
        }  # fmt: skip
        tags: Mapping[str, str | int] = {"conversation": number, "attempt": attempt, "prompt": name}
        request = Request.ask(f"cosrec {name}", fitted.prompt, seed=seed, options=options, tags=tags)
        reply = self.models.complete(spec, request)
        facts = {
            "template": prompts.digest(f"{NAME}/{name}", config.prompts),
            "prompt": fitted.prompt,
            "seed": seed,
            "num_ctx": fitted.context,
            "model": reply.digest,
        }
        return reply.text, facts


def _tokens(prompt: str) -> int:
    return tokens_at_most([Message("user", prompt)])
