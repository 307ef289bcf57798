"""The systems of a run: a shopping agent each, its run files, routes and links, written for the evaluation.

An agent sends a turn to search, recommendation or product details. It is offline and small, and scored
like any other system: its hits become run files, its routes the routing of the joint measure,
its links the answers to product-details questions.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError
from crs_lib.core.text import words
from crs_lib.cosrec import corpus, index
from crs_lib.cosrec.evaluate import linked_intents
from crs_lib.cosrec.index import Stock
from crs_lib.cosrec.intents import IntentModel, learned, turns
from crs_lib.cosrec.records import INTENTS, Partition, topic, user_of
from crs_lib.cosrec.rewriting import rewrite
from crs_lib.cosrec.settings import NAME, RetrieveSettings
from crs_lib.retrieval.runs import Hit, Run, ranked, read_run, write_run
from crs_lib.runs import Stage

Routes = dict[tuple[str, int], list[str]]
_Search = Callable[[str, int], list[Hit]]


class _RoutingAgent(NamedTuple):
    """Routes a turn, rewrites it, and asks the modules."""

    router: IntentModel
    stock: Stock
    modules: Mapping[str, _Search]
    rewriter: str

    def routes(self, partition: Partition) -> Routes:
        """The modules of every user turn of a partition; a turn may go to several or none."""
        frame = turns(partition)
        rows = zip(frame["conversation"], frame["turn"], self.router.predict(frame).tolist(), strict=True)
        return {
            (name, int(turn)): [kind for kind, on in zip(INTENTS, flags, strict=True) if on]
            for name, turn, flags in rows
        }

    def _link(self, said: Sequence[str], context: str, k: int = 10) -> list[Hit]:
        """Products a question may be about: those whose title the turn, or the line before, spells best."""
        whole, hits = set(words(said[-1])), {}
        for name, score in self.stock.search("titles").search(f"{context} {said[-1]}", k):
            title = set(words(self.stock.products[name].title))
            hits[name] = score + len(title & whole) / len(title)
        return ranked(hits)

    def run(self, partition: Partition, k: int = 100, mapping: str = "") -> Run:
        """Hits for every topic, as if each were routed rightly: what the joint measure starts from. With a
        user ``mapping`` (see :func:`crs_lib.cosrec.records.user_of`) the keywords of the topic's user join
        the query; topics without a resolved user get the query alone.
        """
        asked = self.queries(partition, mapping)
        return {name: self.modules[topic(name).kind](query, k) for name, query in asked.items()}

    def queries(self, partition: Partition, mapping: str = "") -> dict[str, str]:
        """The stand-alone query of every topic, with the user's keywords under a ``mapping``."""
        found = dict[str, str]()
        for name in partition.topics():
            judged = topic(name)
            user = user_of(partition, judged, mapping) if mapping else None
            query = rewrite(self.rewriter, partition.conversations[judged.conversation].said(judged.turn))
            found[name] = " ".join([query, *filter(None, (user.keywords or ()) if user else ())])
        return found

    def links(self, partition: Partition, k: int = 10) -> Run:
        """Products for every product-details intent."""
        asked = ((one, partition.conversations[one.conversation]) for one in linked_intents(partition))
        return {one.id: self._link(talk.said(one.turn), talk.before(one.turn), k) for one, talk in asked}


def agents(settings: RetrieveSettings) -> dict[str, _RoutingAgent]:
    """The systems by name, over the collections of the source; the router learns from the crowd."""
    folder = corpus.locate(settings.source)
    stock = index.opened(folder, settings.index, settings.k1, settings.b)
    router = learned(corpus.load(folder, "crowd"), settings.router, settings.vectors)
    modules: dict[str, dict[str, _Search]] = {}
    for spec in settings.retrievers:  # the systems ask the same queries: answers are kept
        for kind, collection in (("recommendation", "products"), ("search", "passages")):
            found = stock.search(collection, spec.split("+"), settings.fusion)
            modules.setdefault(spec, {})[kind] = lru_cache(maxsize=4096)(found.search)
    return {
        name: _RoutingAgent(router, stock, modules[spec], rewriter)
        for name, spec, rewriter, _ in settings.systems()
    }


def inputs(settings: RetrieveSettings) -> dict[str, str]:
    """SHA-256 of the files that the runs are made from."""
    files = corpus.digests(settings.source)
    found = {name: digest for name, digest in files.items() if name.startswith("curated/")}
    return found | index.digests(corpus.locate(settings.source), settings.index)


def write_runs(settings: RetrieveSettings, stage: Stage) -> None:
    """Write ``runs/<system>.run``, ``links/<system>.run``, ``routes.jsonl``; all queries: ``topics.tsv``."""
    curated = corpus.load(corpus.locate(settings.source), "curated")
    routes, asked = list[dict[str, Any]](), dict[str, None]()
    made = agents(settings)
    sent = next(iter(made.values())).routes(curated)  # the router is the same for all
    for system in settings.systems():
        agent, slug = made[system.name], paths.slug(system.name)
        mapping = settings.mapping if system.personal else ""
        hits = agent.run(curated, settings.depth, mapping)
        stage.counts[system.name] = write_run(stage.path(f"runs/{slug}.run"), hits, slug)
        write_run(stage.path(f"links/{slug}.run"), agent.links(curated), slug)
        asked |= dict.fromkeys(agent.queries(curated, mapping).values())
        for (talk, turn), modules in sent.items():
            routes.append({"system": slug, "conversation": talk, "turn": turn, "modules": modules})
    stage.counts["collections"] = {
        "search": len(agent.stock.passages),
        "recommendation": len(agent.stock.products),
    }
    tables.write_jsonl(stage.path("routes.jsonl"), routes)
    lines = [f"{number}\t{' '.join(query.split())}\n" for number, query in enumerate(asked, 1)]
    tables.write_whole(stage.path("topics.tsv"), "".join(lines))


def runs_of(run: str) -> dict[str, Run]:
    """The run files of a run of notebook 13."""
    return read_runs(paths.run_folder(NAME, run) / "runs")


def read_runs(folder: Path) -> dict[str, Run]:
    """The run files of a folder by system, sorted by name; InputError where there is none."""
    if not (found := {path.stem: read_run(path) for path in sorted(folder.glob("*.run"))}):
        raise InputError(f"no *.run file in {folder.name!r}; each system is one TREC run file there")
    return found


def read_routes(path: Path) -> dict[str, Routes]:
    """The router's decisions by system: ``{system: {(conversation, turn): modules}}``."""
    out: dict[str, Routes] = {}
    for row in tables.read_jsonl(path):
        out.setdefault(row["system"], {})[row["conversation"], row["turn"]] = list(row["modules"])
    return out
