"""The systems of a run: a shopping agent each, its run files, routes and links, written for the evaluation.

An agent sends a turn to search, recommendation or product details. It is offline and small, and scored
like any other system: its hits become run files, its routes the routing of the joint measure,
its links the answers to product-details questions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError
from crs_lib.core.text import words
from crs_lib.cosrec import corpus, index
from crs_lib.cosrec.evaluate import linked_intents
from crs_lib.cosrec.index import Stock
from crs_lib.cosrec.intents import IntentModel, learned, turns
from crs_lib.cosrec.records import INTENTS, Buyer, Partition, Topic, balance, topic, user_of
from crs_lib.cosrec.rewriting import VARIANTS, stand_alone
from crs_lib.cosrec.settings import NAME, RetrievalSystem, RetrieveSettings
from crs_lib.retrieval.fusion import RETRIEVERS, fuse
from crs_lib.retrieval.runs import Hit, Run, RunFolder, ranked, read_folder, write_run
from crs_lib.runs import Run as StoredRun
from crs_lib.runs import Stage

Routes = dict[tuple[str, int], list[str]]
Search = Callable[[str, int], list[Hit]]
_COLLECTIONS = {"recommendation": "products", "search": "passages"}
_LEFT_OUT = "left_out.csv"
_TOPIC_COLUMNS = ("id", "user_index", "user_id", "query", "rewriter")


class Request(NamedTuple):
    """A topic, the user that its index stands for, and its stand-alone queries (several by ``variants``)."""

    topic: Topic
    user: Buyer | None
    queries: list[str]


def requests(
    partition: Partition, rewriter: str, mapping: str = "", *, personal: bool = False
) -> list[Request]:
    """The request of every topic. A user ``mapping`` (:func:`crs_lib.cosrec.records.user_of`) says whose an
    index is; a ``personal`` request ends in that user's keywords. With rewriter ``canonical`` this is the
    request by which the release's products were pooled.
    """
    intents = {intent.id: intent for intent in partition.all_intents()}
    asked_for = []
    for name in partition.topics():
        judged = topic(name)
        user_turns = partition.conversations[judged.conversation].said(judged.turn)
        queries = stand_alone(rewriter, user_turns, intents.get(judged.intent))
        user = user_of(partition, judged, mapping) if mapping else None
        if user and personal:
            keywords = filter(None, user.keywords or ())
            ending = " ".join(["", *keywords])
            queries = [query + ending for query in queries]
        asked_for.append(Request(judged, user, queries))
    return asked_for


@dataclass(frozen=True)
class RoutingAgent:
    """Routes a turn, rewrites it, and asks the modules that there are."""

    router: IntentModel
    stock: Stock
    modules: Mapping[str, Search]
    rewriter: str
    fusion: str = "stratum"

    def routes(self, partition: Partition) -> Routes:
        """The modules of every user turn of a partition; a turn may go to several or none."""
        frame = turns(partition)
        places = zip(frame["conversation"], frame["turn"].tolist(), strict=True)
        routes = {}
        for turn, flags in zip(places, self.router.predict(frame), strict=True):
            routes[turn] = [kind for kind, on in zip(INTENTS, flags, strict=True) if on]
        return routes

    def rankings(self, partition: Partition, k: int = 100, mapping: str = "") -> dict[str, list[list[Hit]]]:
        """The hits of each query of every topic that a module serves, as if each were routed rightly: what
        the joint measure starts from. With a user ``mapping`` the keywords of the topic's user join the
        query; topics without a resolved user get the query alone.
        """
        rankings = {}
        for request in requests(partition, self.rewriter, mapping, personal=bool(mapping)):
            search = self.modules.get(request.topic.kind)
            if search:
                rankings[request.topic.id] = [search(query, k) for query in request.queries]
        return rankings

    def run(self, partition: Partition, k: int = 100, mapping: str = "") -> Run:
        """One ranking a topic: several queries of a topic are fused."""
        run = {}
        for name, rankings in self.rankings(partition, k, mapping).items():
            run[name] = fuse(self.fusion, rankings, k) if len(rankings) > 1 else rankings[0]
        return run

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
    """The systems by name, over what the source has of products and passages; the router learns from the
    crowd.
    """
    folder = corpus.locate(settings.source)
    stock = index.opened(folder, settings.index, settings.k1, settings.b, needs=())
    router = learned(corpus.load(folder, "crowd"), settings.router, settings.vectors)
    modules = {spec: _modules(stock, spec, settings.fusion) for spec in settings.retrievers}
    systems = {}
    for system in settings.systems():
        searches = modules[system.retriever]
        systems[system.name] = RoutingAgent(router, stock, searches, system.rewriter, settings.fusion)
    return systems


def _modules(stock: Stock, spec: str, fusion: str) -> dict[str, Search]:
    """The searches of a retriever by module; systems ask the same queries, so answers are remembered. A
    module is left out where there are no texts to search and another program did not search before.
    """
    parts = spec.split("+")
    elsewhere = all(RETRIEVERS.get(part).facts.get("made") for part in parts)
    modules: dict[str, Search] = {}
    for kind, collection in _COLLECTIONS.items():
        if elsewhere or stock.has(collection):
            retriever = stock.search(collection, parts, fusion)
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
    """Write ``runs/<system>.run``, ``links/<system>.run``, ``routes.jsonl``, and the requests of all topics:
    ``topics.tsv`` (id, user_index, user_id, query, rewriter) and each query once with a number, for other
    programs, ``queries.tsv``. The rewriter ``variants`` also leaves the run of each formulation in
    ``variants/``. ``left_out.csv`` names the topics without a ranking: nothing was found, or, as in the
    release, there are no texts to search.
    """
    _remove_former(stage.folder)
    curated = corpus.load(corpus.locate(settings.source), "curated")
    systems = agents(settings)
    first = next(iter(systems.values()))
    sent = first.routes(curated)  # the router is the same for all
    routes: list[dict[str, object]] = []
    left_out: list[tuple[str, str, str]] = []
    for system in settings.systems():
        agent = systems[system.name]
        slug = paths.slug(system.name)
        run = _write_rankings(system, agent, curated, settings, stage)
        for name in curated.topics():
            if topic(name).kind not in agent.modules:
                left_out.append((slug, name, f"no {_COLLECTIONS[topic(name).kind]} to search"))
            elif not run[name]:
                left_out.append((slug, name, "nothing found"))
        for (talk, turn), modules in sent.items():
            routes.append({"system": slug, "conversation": talk, "turn": turn, "modules": modules})
    tables.write_jsonl(stage.path("routes.jsonl"), routes)
    tables.write_csv(stage.path(_LEFT_OUT), pd.DataFrame(left_out, columns=["system", "topic", "reason"]))
    sizes = {}
    for kind, collection in _COLLECTIONS.items():
        if first.stock.has(collection):
            sizes[kind] = len(first.stock.records(collection))
    stage.counts.update(collections=sizes, requests=len(systems) * len(curated.topics()))
    requested = topic_table(settings, curated)
    numbered = enumerate(requested["query"].unique(), start=1)
    lines = [f"{number}\t{tables.as_text(query)}\n" for number, query in numbered]
    tables.write_whole(stage.path("topics.tsv"), tables.csv_of(requested, "\t"))
    tables.write_whole(stage.path("queries.tsv"), "".join(lines))


def _remove_former(folder: Path) -> None:
    """Remove the run files that an earlier start of the run wrote: they bear their system's name as tag."""
    for path in [*folder.glob("runs/*.run"), *folder.glob("links/*.run"), *folder.glob("variants/*.run")]:
        with path.open(encoding="utf-8", errors="replace") as file:
            cells = file.readline().split()
        if cells and path.stem.startswith(cells[-1]):
            path.unlink()


def _write_rankings(
    system: RetrievalSystem, agent: RoutingAgent, curated: Partition, settings: RetrieveSettings, stage: Stage
) -> Run:
    """Write the run of a system, the links, and of ``variants`` a run for each formulation; the run."""
    slug = paths.slug(system.name)
    mapping = settings.mapping if system.personal else ""
    run = agent.run(curated, settings.depth, mapping)
    if run:
        stage.counts[system.name] = write_run(stage.path(f"runs/{slug}.run"), run, slug)
    if agent.stock.has("products"):
        write_run(stage.path(f"links/{slug}.run"), agent.links(curated), slug)
    if system.rewriter == VARIANTS:
        by_number: dict[int, Run] = {}
        for name, rankings in agent.rankings(curated, settings.depth, mapping).items():
            for number, ranking in enumerate(rankings, start=1):
                by_number.setdefault(number, {})[name] = ranking
        for number, formulated in by_number.items():
            write_run(stage.path(f"variants/{slug}-{number}.run"), formulated, slug)
    return run


def account(run: str) -> str:
    """The last line of notebook 13: requests of all systems, those without a ranking and why, their list."""
    folder = paths.run_folder(NAME, run)
    number = StoredRun(NAME, run).finished("retrieve", "13_cosrec_retrieve")["counts"]["requests"]
    reasons = tables.read_csv(folder / _LEFT_OUT)["reason"].value_counts().to_dict()
    return balance("requests", number, reasons, paths.shown(folder / _LEFT_OUT))


def topic_table(settings: RetrieveSettings, curated: Partition) -> pd.DataFrame:
    """The requests of all systems, one row a topic, rewriter and query: ``id``, ``user_index``, ``user_id``,
    ``query``, ``rewriter``. The user is missing for search, and for an index that the mapping leaves open.
    """
    rows = []
    for rewriter, name, personal in settings.requested():
        for request in requests(curated, rewriter, settings.mapping, personal=personal):
            user = request.user.id if request.user else None
            for query in request.queries:
                plain = " ".join(query.split())
                rows.append((request.topic.id, request.topic.user_index, user, plain, name))
    return pd.DataFrame(rows, columns=_TOPIC_COLUMNS).astype({"user_index": "Int64"})


def right_modules(curated: Partition, routes: Routes) -> pd.DataFrame:
    """One row a judged intent: intent, conversation, kind, turn, whether its turn went to its module."""
    rows = []
    for judged in dict.fromkeys(topic(name)._replace(id="", user_index=None) for name in curated.topics()):
        modules = routes.get((judged.conversation, judged.turn), [])
        rows.append((judged.intent, judged.conversation, judged.kind, judged.turn, judged.kind in modules))
    return pd.DataFrame(rows, columns=["intent", "conversation", "kind", "turn", "right_module"])


def runs_of(run: str) -> dict[str, Run]:
    """The run files of a run of notebook 13; none where it had no texts to search."""
    folder = paths.run_folder(NAME, run) / "runs"
    return read_runs(folder).runs if folder.is_dir() else {}


def read_runs(folder: Path | str) -> RunFolder:
    """The runs of a folder by system, and the files that are none; InputError where there is no run."""
    folder = Path(folder)
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
