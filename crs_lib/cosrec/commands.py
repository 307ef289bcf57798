"""The CoSRec study: build a product catalogue, index a shop, generate conversations, predict intents.

Options of the published scripts are options here, too, under their own names.
"""

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from crs_lib.cli.commands import Command, Takes, table
from crs_lib.cli.run import show_costs
from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError

_INDEX_FOLDERS = (
    "catalogue_sparse_index_folder",
    "catalogue_dense_index_folder",
    "documents_sparse_index_folder",
)
_STAND_INS = """The design's TCT-ColBERT is not here: dense:minilm stands in (dense:onnx:FOLDER takes it).
Its tokenizer meta-llama/Llama-3.1-8B only counts: give its file by --tokenizer, or bytes bound prompts.
Its context grew with each prompt; here it is one of three sizes, so that a server loads a model once."""
_IN_BRACES = {  # names in the prompts of the published scripts, and ours
    "product_text": "product",
    "query_text": "query",
    "target_title": "target",
    "catalogue_text": "catalogue",
    "corpus_text": "documents",
}
_NOT_APPENDED = "create_output_file False: nothing is appended; a run or file is continued or written whole"


class Catalogue(Command):
    """Build products from metadata and reviews.

    Reads Amazon-Reviews-2023 in bounded memory. A killed run continues with the same command. The filters:
    docs/cosrec.md.
    """

    takes = (Takes("crs_lib.cosrec.catalogue_rules:Options"),)
    also: ClassVar[Mapping[str, str]] = {
        "metas": "metas-folder",
        "reviews": "reviews-folder",
        "out": "output-filename",
        "shortest": "threshold-too-short-description",
        "title_latin": "threshold-english-title-ascii",
        "text_latin": "threshold-english-description-ascii",
    }
    writes = "out"

    metas: Path
    """folder of meta_<category>.jsonl[.gz|.zst]"""
    reviews: Path
    """folder of <category>.jsonl[.gz|.zst]"""
    out: Path
    """output file (.jsonl, .jsonl.gz or .jsonl.zst)"""
    create_output_file: Literal["True", "False"] = "True"
    """of the published script: the file is always written whole"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.cosrec.catalogue import build
        from crs_lib.cosrec.catalogue_rules import Options
        from crs_lib.cosrec.catalogue_tables import LOST
        from crs_lib.cosrec.records import balance

        if self.create_output_file == "False":
            print(_NOT_APPENDED)
        report = build(self.metas, self.reviews, self.out, Options(**settings))
        print(f"products written: {report['products written']:,}")
        for name, counts in report["totals"].items():
            parts = [f"{what} {count:,}" for what, count in counts.items()]
            print(f"{name}: {', '.join(parts)}")
        if report["without a partner"]:
            print(f"ignored, one of the two files is missing: {', '.join(report['without a partner'])}")
        print(f"written: {paths.shown(self.out)}; beside it {self.out.name}.manifest.json")
        lines = dict(report["totals"]["products"])
        for name, count in report["totals"]["reviews"].items():
            lines[name] = lines.get(name, 0) + count
        reasons = {}
        for name, count in lines.items():
            if name not in ("read", "kept", LOST):
                reasons[name.removeprefix("dropped: ")] = count
        for name, count in report["totals"]["joined"].items():
            if name.startswith("duplicate ") or name.endswith(" the limit"):
                reasons[name] = count
        where = f"{paths.shown(self.out)}.manifest.json; unreadable lines: {self.out.name}.quarantine.jsonl"
        last = balance("products and reviews", lines["read"], reasons, where)
        lost = lines.get(LOST, 0)
        print(f"{last}; with U+FFFD, a character that was lost: {lost:,}" if lost else last)


class Index(Command):
    """Index products and passages for search."""

    reads = "products passages"
    writes = "out"

    products: Path
    """products.jsonl[.gz|.zst]"""
    out: Path
    """folder of the index"""
    passages: Path | None = None
    """passages.jsonl[.gz|.zst]"""
    encoder: str = "hashing"
    """of the dense index: hashing, minilm …"""
    k1: float = 1.2
    """BM25: gain of repetition"""
    b: float = 0.75
    """BM25: correction for length"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.cosrec.index import write_index
        from crs_lib.cosrec.records import balance

        note = partial(print, flush=True)
        counts = write_index(
            self.products, self.out, self.passages, encoder=self.encoder, k1=self.k1, b=self.b, note=note
        )
        print(", ".join(f"{number:,} {name}" for name, number in counts.items()))
        print(f"index: {paths.shown(self.out)}")
        read = counts["products"] + counts["passages"]
        print(balance("products and passages", read, {}, paths.shown(self.out / "index.json")))


class Generate(Command):
    """Generate conversations about products.

    A killed run continues with the same command. Lists are written with commas.
    """

    takes = (Takes("crs_lib.cosrec.settings:GenerateSettings"),)
    also: ClassVar[Mapping[str, str]] = {
        "seed": "random-seed",
        "k1": "bm25-k1",
        "b": "bm25-b",
        "source": "catalogue-filename",
        "conversations": "num-random-products",
        "products": "num-products",
        "passages": "num-documents",
        "reviews": "num-reviews",
        "query_words": "query-max-words",
    }
    reads = (
        "query_prompt_filename conv_prompt_filename catalogue_sparse_index_folder "
        "catalogue_dense_index_folder documents_sparse_index_folder"
    )
    writes = "output_filename"

    estimate: bool = False
    """print calls, tokens and hours without running"""
    log: tuple[str, ...] = ()
    """a finished run, for --estimate"""
    preset: Literal["", "design"] = ""
    """design: every value of the published design that no other option changes; they are printed"""
    query_model: str = ""
    """as the published script: of queries, in Ollama"""
    conv_model: str = ""
    """as the published script: of conversations, in Ollama"""
    query_tokenizer: str = ""
    """as the published script; a tokenizer.json counts"""
    conv_tokenizer: str = ""
    """as the published script; a tokenizer.json counts"""
    query_prompt_filename: Path | None = None
    """as the published script, its names in braces"""
    conv_prompt_filename: Path | None = None
    """as the published script, its names in braces"""
    catalogue_sparse_index_folder: Path | None = None
    """a Lucene index, or one of cosrec index"""
    catalogue_dense_index_folder: Path | None = None
    """an encoder in ONNX, or an index of cosrec index"""
    documents_sparse_index_folder: Path | None = None
    """a Lucene index, or one of cosrec index"""
    catalogue_size: int | None = None
    """as the published script; it is counted here"""
    create_output_file: Literal["True", "False"] = "True"
    """as the published script: a run is continued, nothing is appended"""
    output_filename: Path | None = None
    """a copy of generated.jsonl"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib import llm
        from crs_lib.cosrec import generate
        from crs_lib.cosrec.settings import DESIGN, GenerateSettings

        preset = dict(DESIGN) if self.preset else {}
        values = {**preset, **self._of_scripts(settings.get("run", "smoke")), **settings}
        config = GenerateSettings(**values)
        for name in preset:
            print(f"{name}: {getattr(config, name)}")
        if preset:
            print(f"\n{_STAND_INS}\n")
        if self.estimate:
            show_costs("cosrec", config.work(), self.log, "generate a few conversations")
            return
        folder = generate.generate(config)
        print(f"{config.conversations} conversations: {paths.shown(folder / 'generated.jsonl')}")
        if config.models():
            table(llm.usage(folder / "llm_calls.jsonl"), digits=2)
        if self.output_filename:
            shutil.copyfile(folder / "generated.jsonl", self.output_filename)
        print(generate.account(config.run))

    def _of_scripts(self, run: str) -> dict[str, Any]:
        """The settings that the options of the published script stand for; what changes nothing is said."""
        values = self._searches()
        if self.conv_model:
            values["writer"] = _in_ollama(self.conv_model)
        if self.query_model:
            values["query_writer"] = _in_ollama(self.query_model)
        if self.catalogue_size is not None:
            print("catalogue_size: targets are drawn from the products that are there, which are counted")
        if self.create_output_file == "False":
            print(_NOT_APPENDED)
        tokenizers = {name for name in (self.query_tokenizer, self.conv_tokenizer) if name}
        files = {name for name in tokenizers if paths.given(name).is_file()}
        if len(files) > 1:
            raise InputError("query_tokenizer and conv_tokenizer are two files; one counts for all prompts")
        for name in tokenizers:
            if name in files:
                values["tokenizer"] = name
            else:
                print(f"tokenizer {name!r} is no file: prompts are bounded by bytes; give its tokenizer.json")
        prompts = {"product_query": self.query_prompt_filename, "conversation": self.conv_prompt_filename}
        own = {name: path for name, path in prompts.items() if path}
        if own:
            values["prompts"] = str(_own_prompts(own, run))
        return values

    def _searches(self) -> dict[str, Any]:
        """The index and the retrievers that the folders of indexes stand for; nothing without folders."""
        indexes: dict[str, None] = {}
        specs = {}
        for name in _INDEX_FOLDERS:
            folder = getattr(self, name)
            if folder:
                specs[name], index = _search_in(folder, dense="dense" in name)
                if index:
                    indexes[index] = None
        if len(indexes) > 1:
            raise InputError(f"one index of cosrec index serves all searches, got {' and '.join(indexes)}")
        values: dict[str, Any] = {}
        if indexes:
            [values["index"]] = indexes
        products = [spec for name, spec in specs.items() if name.startswith("catalogue")]
        if products:
            values["product_retrievers"] = products
        if _INDEX_FOLDERS[-1] in specs:
            values["passage_retrievers"] = [specs[_INDEX_FOLDERS[-1]]]
        return values


def _search_in(folder: Path, *, dense: bool) -> tuple[str, str]:
    """The retriever that a folder stands for, and the index that it needs: a Lucene index, one of ours, or,
    ``dense``, an encoder in ONNX. Raises InputError for any other, as that of FAISS.
    """
    if any(folder.glob("segments_*")):
        return f"pyserini:{folder}", ""
    if (folder / "index.json").is_file():
        encoder = safety.read_object(folder / "index.json").get("encoder")
        return f"dense:{encoder}" if dense else "bm25", str(folder)
    if dense and any(folder.rglob("model.onnx")):
        return f"dense:onnx:{folder}", ""
    wanted = "a Lucene index, a folder of cosrec index, or, for vectors, one of an encoder in ONNX"
    raise InputError(f"{folder.name!r} is none of: {wanted}; an index of FAISS is not read")


def _own_prompts(files: Mapping[str, Path], run: str) -> Path:
    """The folder, in that of a run, of prompts from files by name; those of the published scripts, whose
    names stand in braces, are put into our form.
    """
    folder = paths.run_folder("cosrec", run) / "prompts"
    for name, file in files.items():
        text = safety.read_text(file)
        if any(f"{{{key}}}" in text for key in _IN_BRACES):
            text = text.replace("$", "$$").replace("{{", "{").replace("}}", "}")
            for key, ours in _IN_BRACES.items():
                text = text.replace(f"{{{key}}}", f"${{{ours}}}")
        tables.write_whole(folder / f"{name}.txt", text)
    return folder


def _in_ollama(model: str) -> str:
    """A model's spec; a bare name is one of Ollama's."""
    from crs_lib.llm import BACKENDS

    return model if model in BACKENDS else f"ollama:{model}"


class Intents(Command):
    """Predict the intents of user turns."""

    reads = "train test"
    writes = "out"

    train: Path
    """folder of an annotated partition (crowd)"""
    test: Path
    """folder of the partition to predict (curated)"""
    out: Path
    """predictions.jsonl, one line a user turn"""
    model: str = ""
    """intent model (default: the one that routes)"""
    seed: int = 0
    """of the intervals"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.cosrec import intents

        scores, account = intents.predict_files(self.train, self.test, self.out, self.model, self.seed)
        print(f"predictions: {paths.shown(self.out)}")
        if scores is not None:
            table(scores)
        print(account)
