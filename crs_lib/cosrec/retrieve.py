"""The systems of a run: an agent each, their run files, routes and links, written for the evaluation."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from crs_lib import runs
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError
from crs_lib.cosrec import corpus, index
from crs_lib.cosrec.agent import Routes, RoutingAgent
from crs_lib.cosrec.config import STUDY, RetrieveConfig
from crs_lib.cosrec.intents import MODELS, training
from crs_lib.retrieval.trec import Run, read_run, write_run

STAGE = "retrieve"


def agents(config: RetrieveConfig) -> dict[str, RoutingAgent]:
    """The systems by name, over the collections of the config's source; the router learns from the crowd."""
    folder = corpus.locate(config.source)
    stock = index.opened(folder, config.index, config.k1, config.b)
    router = MODELS.create(config.router).fit(training(corpus.load(folder, "crowd")))
    searches = {
        spec: (
            stock.product_search(spec.split("+"), config.fusion),
            stock.passage_search(spec.split("+"), config.fusion),
        )
        for spec in config.retrievers
    }
    return {
        system.name: RoutingAgent(router, stock, *searches[system.retriever], system.rewriter)
        for system in config.systems()
    }


def retrieve(config: RetrieveConfig) -> Path:
    """Write ``runs/<system>.run``, ``links/<system>.run`` and ``routes.jsonl``; returns the run's folder."""
    folder = corpus.locate(config.source)
    curated = corpus.load(folder, "curated")
    inputs = {f"curated/{name}": digest for name, digest in curated.hashes.items()}
    inputs |= index.digests(folder, config.index)
    personal = {system.name: system.personal for system in config.systems()}
    with runs.stage(STUDY, config.run, STAGE, asdict(config), inputs, fixed=False) as work:
        routes: list[dict[str, Any]] = []
        made = agents(config)
        sent = next(iter(made.values())).routes(curated)  # the router is the same for all
        for name, agent in made.items():
            slug = paths.slug(name)
            found = agent.run(curated, config.depth, config.mapping if personal[name] else "")
            work.counts[name] = write_run(work.path(f"runs/{slug}.run"), found, slug)
            write_run(work.path(f"links/{slug}.run"), agent.links(curated), slug)
            for (conversation, turn), modules in sent.items():
                routes.append(
                    {"system": slug, "conversation": conversation, "turn": turn, "modules": modules}
                )
        tables.write_jsonl(work.path("routes.jsonl"), routes)
    return work.folder


def read_runs(folder: Path) -> dict[str, Run]:
    """The run files of a folder by system, sorted by name; InputError where there is none."""
    found = {path.stem: read_run(path) for path in sorted(folder.glob("*.run"))}
    if not found:
        raise InputError(f"no *.run file in {folder.name!r}; each system is one TREC run file there")
    return found


def read_routes(path: Path) -> dict[str, Routes]:
    """The router's decisions by system: ``{system: {(conversation, turn): modules}}``."""
    out: dict[str, Routes] = {}
    for row in tables.read_jsonl(path):
        out.setdefault(row["system"], {})[row["conversation"], row["turn"]] = list(row["modules"])
    return out
