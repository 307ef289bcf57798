"""The systems of a run: a shopping agent each, its run files, routes and links, written for the evaluation.

An agent sends a turn to search, recommendation or product details. It is offline and small, and scored
like any other system: its hits become run files, its routes the routing of the joint measure,
its links the answers to product-details questions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

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
from crs_lib.retrieval.runs import Hit, Run, RunFolder, ranked, read_folder, write_run
from crs_lib.runs import Stage

Routes = dict[tuple[str, int], list[str]]
Search = Callable[[str, int], list[Hit]]
_COLLECTIONS = {"recommendation": "products", "search": "passages"}


@dataclass(frozen=True)
class RoutingAgent:
    """Routes a turn, rewrites it, and asks the modules."""

    router: IntentModel
    stock: Stock
    modules: Mapping[str, Search]
    rewriter: str

    def routes(self, partition: Partition) -> Routes:
        """The modules of every user turn of a partition; a turn may go to several or none."""
        frame = turns(partition)
        places = zip(frame["conversation"], frame["turn"].tolist(), strict=True)
        routes = {}
        for turn, flags in zip(places, self.router.predict(frame), strict=True):
            routes[turn] = [kind for kind, on in zip(INTENTS, flags, strict=True) if on]
        return routes

    def run(self, partition: Partition, k: int = 100, mapping: str = "") -> Run:
        """Hits for every topic, as if each were routed rightly: what the joint measure starts from. With a
        user ``mapping`` (see :func:`crs_lib.cosrec.records.user_of`) the keywords of the topic's user join
        the query; topics without a resolved user get the query alone.
        """
        run = {}
        for name, query in self.queries(partition, mapping).items():
            run[name] = self.modules[topic(name).kind](query, k)
        return run

    def queries(self, partition: Partition, mapping: str = "") -> dict[str, str]:
        """The stand-alone query of every topic, with the user's keywords under a ``mapping``."""
        queries = {}
        for name in partition.topics():
            judged = topic(name)
            talk = partition.conversations[judged.conversation]
            query = [rewrite(self.rewriter, talk.said(judged.turn))]
            user = user_of(partition, judged, mapping) if mapping else None
            if user:
                query += filter(None, user.keywords or ())
            queries[name] = " ".join(query)
        return queries

    def links(self, partition: Partition, k: int = 10) -> Run:
        """Products for every product-details intent."""
        run = {}
        for intent in linked_intents(partition):
            talk = partition.conversations[intent.conversation]
            run[intent.id] = self._link(talk.texts("U")[intent.turn], talk.before(intent.turn), k)
        return run

    def _link(self, text: str, before: str, k: int) -> list[Hit]:
        """Products a question may be about: those whose title the turn, or the line before, spells best."""
        spelt = set(words(text))
        scores = {}
        for name, score in self.stock.search("titles").search(f"{before} {text}", k):
            title = set(words(self.stock.products[name].title))
            scores[name] = score + len(title & spelt) / len(title)
        return ranked(scores)


def agents(settings: RetrieveSettings) -> dict[str, RoutingAgent]:
    """The systems by name, over the collections of the source; the router learns from the crowd."""
    folder = corpus.locate(settings.source)
    stock = index.opened(folder, settings.index, settings.k1, settings.b)
    router = learned(corpus.load(folder, "crowd"), settings.router, settings.vectors)
    modules = {spec: _modules(stock, spec, settings.fusion) for spec in settings.retrievers}
    systems = {}
    for system in settings.systems():
        systems[system.name] = RoutingAgent(router, stock, modules[system.retriever], system.rewriter)
    return systems


def _modules(stock: Stock, spec: str, fusion: str) -> dict[str, Search]:
    """The searches of a retriever by module; systems ask the same queries, so answers are remembered."""
    modules: dict[str, Search] = {}
    for kind, collection in _COLLECTIONS.items():
        retriever = stock.search(collection, spec.split("+"), fusion)
        modules[kind] = lru_cache(maxsize=4096)(retriever.search)
    return modules


def inputs(settings: RetrieveSettings) -> dict[str, str]:
    """SHA-256 of the files that the runs are made from."""
    digests = index.digests(corpus.locate(settings.source), settings.index)
    for name, digest in corpus.digests(settings.source).items():
        if name.startswith("curated/"):
            digests[name] = digest
    return digests


def write_runs(settings: RetrieveSettings, stage: Stage) -> None:
    """Write ``runs/<system>.run``, ``links/<system>.run``, ``routes.jsonl``; all queries: ``topics.tsv``."""
    curated = corpus.load(corpus.locate(settings.source), "curated")
    systems = agents(settings)
    first = next(iter(systems.values()))
    sent = first.routes(curated)  # the router is the same for all
    routes: list[dict[str, object]] = []
    queries: dict[str, None] = {}
    for system in settings.systems():
        agent = systems[system.name]
        slug = paths.slug(system.name)
        mapping = settings.mapping if system.personal else ""
        hits = agent.run(curated, settings.depth, mapping)
        stage.counts[system.name] = write_run(stage.path(f"runs/{slug}.run"), hits, slug)
        write_run(stage.path(f"links/{slug}.run"), agent.links(curated), slug)
        queries |= dict.fromkeys(agent.queries(curated, mapping).values())
        for (talk, turn), modules in sent.items():
            routes.append({"system": slug, "conversation": talk, "turn": turn, "modules": modules})
    sizes = {"search": len(first.stock.passages), "recommendation": len(first.stock.products)}
    stage.counts["collections"] = sizes
    tables.write_jsonl(stage.path("routes.jsonl"), routes)
    lines = [f"{number}\t{' '.join(query.split())}\n" for number, query in enumerate(queries, 1)]
    tables.write_whole(stage.path("topics.tsv"), "".join(lines))


def runs_of(run: str) -> dict[str, Run]:
    """The run files of a run of notebook 13."""
    return read_runs(paths.run_folder(NAME, run) / "runs").runs


def read_runs(folder: Path) -> RunFolder:
    """The runs of a folder by system, and the files that are none; InputError where there is no run."""
    if not folder.is_dir():
        raise InputError(f"no folder {paths.shown(folder)}; each system is one TREC run file (*.run) there")
    files = read_folder(folder)
    if not files.runs:
        raise InputError(f"no run file in {folder.name!r}; each system is one TREC run file (*.run) there")
    return files


def read_routes(path: Path) -> dict[str, Routes]:
    """The router's decisions by system: ``{system: {(conversation, turn): modules}}``."""
    systems: dict[str, Routes] = {}
    for row in tables.read_jsonl(path):
        routes = systems.setdefault(row["system"], {})
        routes[row["conversation"], row["turn"]] = list(row["modules"])
    return systems
