"""The systems of a run: an agent each, their run files, routes and links, written for the evaluation."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from crs_lib import runs
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError
from crs_lib.cosrec import corpus
from crs_lib.cosrec.agent import Agent, Routes
from crs_lib.cosrec.collections import passage_search, product_search, read_passages, read_products
from crs_lib.cosrec.intents import MODELS, training
from crs_lib.cosrec.records import MAPPINGS
from crs_lib.cosrec.rewriting import REWRITERS
from crs_lib.retrieval.fusion import FUSIONS
from crs_lib.retrieval.trec import Run, read_run, write_run

STUDY, STAGE = "cosrec", "retrieve"


@dataclass(frozen=True)
class RetrieveConfig:
    """Which systems to run: one for each rewriter and retriever, all with the same router.

    ``retrievers`` are specs (``bm25``, ``dense:hashing``); ``+`` fuses several (``bm25+dense:hashing``).
    """

    run: str = "smoke"
    source: str = "sample"
    retrievers: tuple[str, ...] = ("bm25", "bm25+dense:hashing")
    rewriters: tuple[str, ...] = ("last turn", "first and last")
    fusion: str = "stratum"
    router: str = "views"
    mapping: str = ""
    depth: int = 100

    def __post_init__(self) -> None:
        """Raise InputError for an unknown name or an empty list."""
        for name in self.rewriters:
            REWRITERS.get(name)
        FUSIONS.get(self.fusion)
        MODELS.get(self.router)
        if self.mapping and self.mapping not in MAPPINGS:
            raise InputError(
                f"mapping {self.mapping!r} is not known; use one of {', '.join(MAPPINGS)}, or ''"
            )
        if not self.retrievers or not self.rewriters or self.depth < 1:
            raise InputError("give at least one retriever, one rewriter and a depth of 1")
        paths.run_folder(STUDY, self.run)

    def systems(self) -> list[tuple[str, str, str]]:
        """Name, retriever and rewriter of every system."""
        return [(f"{r}, {w}", r, w) for r in self.retrievers for w in self.rewriters]


def agents(config: RetrieveConfig) -> dict[str, Agent]:
    """The systems by name, over the collections of the config's source; the router learns from the crowd."""
    folder = corpus.locate(config.source)
    products, passages = read_products(folder), read_passages(folder)
    router = MODELS.create(config.router).fit(training(corpus.load(folder, "crowd")))
    indexes = {
        spec: (
            product_search(products, spec.split("+"), config.fusion),
            passage_search(passages, spec.split("+"), config.fusion),
        )
        for spec in config.retrievers
    }
    return {
        name: Agent(router, products, passages, *indexes[retriever], rewriter)
        for name, retriever, rewriter in config.systems()
    }


def retrieve(config: RetrieveConfig) -> Path:
    """Write ``runs/<system>.run``, ``links/<system>.run`` and ``routes.jsonl``; returns the run's folder."""
    folder = corpus.locate(config.source)
    curated = corpus.load(folder, "curated")
    inputs = {f"curated/{name}": digest for name, digest in curated.hashes.items()}
    with runs.stage(STUDY, config.run, STAGE, asdict(config), inputs, fixed=False) as work:
        routes: list[dict[str, Any]] = []
        for name, agent in agents(config).items():
            slug = paths.slug(name)
            found = agent.run(curated, config.depth, config.mapping)
            work.counts[name] = write_run(work.path(f"runs/{slug}.run"), found, slug)
            write_run(work.path(f"links/{slug}.run"), agent.links(curated), slug)
            for (conversation, turn), modules in agent.routes(curated).items():
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
