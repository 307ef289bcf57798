"""Make conversations: pick a target, find what belongs to it, write, check, and keep the evidence."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from crs_lib import prompts, runs
from crs_lib.core import hashes, paths, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.rng import address_seed, check_seed, stream
from crs_lib.cosrec import budget, corpus, drafts, template
from crs_lib.cosrec.collections import (
    CatalogueProduct,
    passage_search,
    product_search,
    read_passages,
    read_products,
)
from crs_lib.retrieval.fusion import FUSIONS
from crs_lib.runs import batch
from crs_lib.runs.ledger import Key

STUDY, STAGE = "cosrec", "generate"
_QUERY_WORDS = 7
_QUERY_TOKENS = 100


@dataclass(frozen=True)
class GenerateConfig:
    """What to generate. ``writer`` is ``template`` or the spec of a language model (``ollama:llama3.1``)."""

    run: str = "smoke"
    source: str = "sample"
    writer: str = "template"
    conversations: int = 12
    products: int = 6
    passages: int = 5
    reviews: int = 2
    fewest_turns: int = 6
    most_turns: int = 8
    product_retrievers: tuple[str, ...] = ("bm25", "dense:hashing")
    passage_retrievers: tuple[str, ...] = ("bm25",)
    fusion: str = "stratum"
    attempts: int = 3
    temperature: float = 0.8
    answer_tokens: int = 1000
    contexts: tuple[int, ...] = budget.CONTEXTS
    seed: int = 0
    workers: int = 1
    llm: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise InputError for a value outside its range."""
        least = {"conversations": 1, "products": 1, "passages": 0, "reviews": 0, "attempts": 1, "workers": 1}
        low = {name: getattr(self, name) for name, n in least.items() if getattr(self, name) < n}
        if low:
            raise InputError(f"too small: {low}; expected at least { ({n: least[n] for n in low}) }")
        if not 1 <= self.fewest_turns <= self.most_turns:
            raise InputError(f"user turns from {self.fewest_turns} to {self.most_turns}: give a rising range")
        check_seed(self.seed)
        FUSIONS.get(self.fusion)
        paths.run_folder(STUDY, self.run)

    def parameters(self) -> dict[str, Any]:
        """The settings as the manifest keeps them."""
        return asdict(self)


class Writer:
    """Makes the record of one conversation from its number alone; see ``crs_lib.runs.batch``."""

    def __init__(self, config: GenerateConfig, folder: str, llm: Any = None) -> None:
        """Reads the collections and builds the indexes; ``llm`` replaces the model that the config names."""
        self.config = config
        self.products, self.passages = read_products(Path(folder)), read_passages(Path(folder))
        if config.conversations > len(self.products):
            raise InputError(
                f"{config.conversations} conversations need as many target products, the catalogue has "
                f"{len(self.products)}; ask for fewer"
            )
        self._product_search = product_search(self.products, list(config.product_retrievers), config.fusion)
        self._passage_search = passage_search(self.passages, list(config.passage_retrievers), config.fusion)
        asins = sorted(self.products)
        order = stream(config.seed, STUDY, "targets").permutation(len(asins))
        self.targets = [asins[i] for i in order[: config.conversations]]
        self.llm = llm
        if llm is None and config.writer != "template":
            from crs_lib.llm import LLM

            self.llm = LLM(config.writer, **config.llm)

    def __call__(self, key: Key) -> str:
        return json.dumps(self.record(key.session), ensure_ascii=False)

    def record(self, number: int) -> dict[str, Any]:
        """Conversation ``number`` with everything that went into it.

        Raises RunError when no attempt keeps the rules; the next start tries again.
        """
        config, target = self.config, self.products[self.targets[number]]
        hits = self._product_search.search(target.text(), config.products + 1)
        related = [hit.id for hit in hits if hit.id != target.asin][: config.products - 1]
        shown = [target.asin, *related]
        order = [shown[i] for i in stream(config.seed, STUDY, number, "order").permutation(len(shown))]
        query, asked = self._query(target, number)
        found = (
            [hit.id for hit in self._passage_search.search(query, config.passages)] if config.passages else []
        )
        material = budget.PromptMaterial(
            tuple(self.products[asin] for asin in order),
            tuple(self.passages[name] for name in found),
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
            "attempt": attempt,
            "repairs": list(draft.repairs),
            "prompts": {"product_query": asked, **written},
        }

    def _query(self, target: CatalogueProduct, number: int) -> tuple[str, dict[str, Any]]:
        """A general query for the target, and what was asked for it."""
        if self.llm is None:
            return template.query(target), {}
        prompt = prompts.render("cosrec/product_query", product=target.block(self.config.reviews))
        problems = ""
        for attempt in range(self.config.attempts):
            text, facts = self._ask(
                "product_query", prompt, _QUERY_TOKENS, self.config.contexts[0], number, attempt
            )
            query = " ".join(text.replace('"', " ").replace("?", " ").split()).lower().strip(" .")
            if 0 < len(query.split()) <= _QUERY_WORDS:
                return query, facts
            problems = f"{len(query.split())} words, expected 1 to {_QUERY_WORDS}"
        raise RunError(f"no usable query for {target.asin} in {self.config.attempts} attempts ({problems})")

    def _written(
        self, target: CatalogueProduct, material: budget.PromptMaterial, query: str, number: int
    ) -> tuple[dict[str, Any], drafts.Draft, int]:
        """The first attempt that keeps the rules, with the prompt that led to it."""
        config = self.config
        judge = partial(drafts.judge, title=target.title, fewest=config.fewest_turns, most=config.most_turns)
        problems: list[str] = []
        fitted = self._fitted(target, material, query) if self.llm else None
        for attempt in range(config.attempts):
            facts: dict[str, Any] = {}
            if fitted is None:
                rng = stream(config.seed, STUDY, number, "template", attempt)
                others = [p for p in material.products if p is not target]
                text = template.conversation(target, others, material.passages, query, rng)
            else:
                text, facts = self._ask(
                    "conversation", fitted.prompt, config.answer_tokens, fitted.context, number, attempt
                )
                facts["left_out"] = list(fitted.left_out)
            draft = judge(text)
            if not draft.problems:
                return {"conversation": facts}, draft, attempt + 1
            problems.append("; ".join(draft.problems))
        raise RunError(f"no attempt of {config.attempts} about {target.asin} keeps the rules: {problems[-1]}")

    def _fitted(self, target: CatalogueProduct, material: budget.PromptMaterial, query: str) -> budget.Fitted:
        from crs_lib.llm.base import Message
        from crs_lib.llm.limits import tokens_at_most

        def render(kept: budget.PromptMaterial) -> str:
            return prompts.render(
                "cosrec/conversation",
                query=query,
                target=target.title,
                catalogue=kept.catalogue(target.asin),
                documents=kept.documents() or "(none)",
                fewest=self.config.fewest_turns,
                most=self.config.most_turns,
            )

        def count(prompt: str) -> int:
            return tokens_at_most([Message("user", prompt)])

        return budget.fit(
            material, target.asin, render, count, self.config.answer_tokens, self.config.contexts
        )

    def _ask(
        self, name: str, prompt: str, answer: int, context: int, number: int, attempt: int
    ) -> tuple[str, dict[str, Any]]:
        """A model's answer; the seed is the conversation's and the attempt's own."""
        from crs_lib.llm import Request

        seed = address_seed(self.config.seed, STUDY, number, name, attempt)
        options = {"num_ctx": context, "num_predict": answer, "temperature": self.config.temperature}
        request = Request.ask(
            f"cosrec {name}",
            prompt,
            seed=seed,
            options=options,
            tags={"conversation": number, "attempt": attempt},
        )
        reply = self.llm.complete(request)
        facts = {
            "template": prompts.digest(f"cosrec/{name}"),
            "prompt": prompt,
            "seed": seed,
            "num_ctx": context,
        }
        return reply.text, facts | {"model": reply.digest}


def generate(
    config: GenerateConfig, *, make: Callable[..., Writer] = Writer, arguments: Sequence[Any] = ()
) -> Path:
    """Generate the conversations of a run; returns the folder with its files.

    ``generated.jsonl`` holds a record a conversation; ``raw/conversations.jsonl`` the same conversations in
    the form of the corpus. A killed run continues; conversations that failed are tried again.
    """
    folder = corpus.locate(config.source)
    inputs = {
        path.name: hashes.sha256(path)
        for name in ("products", "passages")
        for path in sorted(folder.glob(f"{name}.jsonl*"))
    }
    keys = [Key(config.writer, number) for number in range(config.conversations)]
    with runs.stage(STUDY, config.run, STAGE, config.parameters(), inputs) as work, work.ledger() as ledger:
        given = (config, str(folder), *arguments)
        batch.run(ledger, keys, make, given, workers=config.workers, chunk=1, label="conversations")
        records = [json.loads(body) for body in ledger.bodies(keys)]
        tables.write_jsonl(work.path("generated.jsonl"), records)
        talks = ({record["id"]: record["conversation"]} for record in records)
        tables.write_jsonl(work.path("raw/conversations.jsonl"), talks)
        work.counts["conversations"] = len(records)
        work.counts["repaired"] = sum(bool(record["repairs"]) for record in records)
    return work.folder


def read_generated(run: str) -> list[dict[str, Any]]:
    """The records of a finished run; RunError with the command that makes it."""
    runs.finished(STUDY, run, STAGE, "12_cosrec_generate")
    return list(tables.read_jsonl(paths.run_folder(STUDY, run) / "generated.jsonl"))
