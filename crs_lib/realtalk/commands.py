"""The RealTalk study: find the evidence for questions, score it, compare settings."""

import html
import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from crs_lib.cli.commands import Command, Takes, table, typed
from crs_lib.core import paths, prompts, tables
from crs_lib.core.errors import InputError
from crs_lib.core.settings import fields_of

_CONFIG = "crs_lib.realtalk.config:RealTalkConfig"
_MODEL = (
    "teachers seed encoder ranker engine share keep single listed most narrative phase_least phase_most "
    "margin window nodes covered llm forms view segments prompts questions"
)
_WORDS = "realtalk/command"  # headings of printed tables, and hints at what is not installed
_AUTO = {"encoder": "auto", "ranker": "auto"}


class Predict(Command):
    """Find the evidence for every question of a chat, or answer one question; show a chat as a page."""

    takes = (Takes(_CONFIG, _MODEL),)
    usual: ClassVar[dict[str, Any]] = _AUTO
    reads = "chat train"
    writes = "out page"

    chat: Path
    """a chat file in RealTalk's, LoCoMo's or LongMemEval's schema"""
    out: Path | None = None
    """where the predictions go (.jsonl)"""
    ask: str = ""
    """a question of one's own in place of the file's; prints the answer, its messages and how sure it is"""
    page: Path | None = None
    """where a page of the chat goes (.html): questions, arcs, threads, segments, messages"""
    train: Path | None = None
    """a folder with realtalk/ to learn from"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.realtalk import agent, corpus, index, learning, study
        from crs_lib.realtalk.config import RealTalkConfig

        logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
        config = RealTalkConfig(**settings)
        if not (self.out or self.ask or self.page):
            raise InputError("nothing to do: name --out FILE, --page FILE or --ask QUESTION")
        if self.train and not self.train.is_dir():
            raise InputError(f"--train {str(self.train)!r} is no folder; it must hold realtalk/")
        chat = corpus.read_chat(self.chat)
        if self.ask:
            question = corpus.ChatQuestion(0, self.ask, None, (), 0)
            chat = replace(chat, questions=(question,))
        built = index.build(chat, index.choose_encoder(config.encoder, config.ranker))
        ranker = learning.choose_ranker(config.ranker, built, self.train, config.teachers)
        log = None
        if self.out:
            log = self.out.with_name(f"{self.out.stem}.calls.sqlite")
            paths.apart([log, log.with_suffix(".jsonl")], [self.chat])
        model = study.language_model(config, log)
        records = list(agent.predict(built, ranker, config, model))
        if self.page:
            _page(self.page, built, records)
        count = tables.write_jsonl(self.out, records) if self.out else len(records)
        if self.ask:
            _answer(built, records[0])
            print(_account([chat]))
            return
        places = " and ".join(paths.shown(path) for path in (self.out, self.page) if path)
        print(f"{chat.name}: {len(chat.messages)} messages, {count} questions answered -> {places}")
        makers = made_with(built.encoder, [ranker.name], config.encoder, config.ranker)
        print("\n".join(makers))
        print(f"learnt from: {ranker.origin}")
        if records:
            print(_agent(records))
        if log and model:
            print(f"calls: {study.write_calls(log, log.with_suffix('.jsonl'))}")
        _show_quirks(chat.quirks)
        print(_account([chat]))


def _account(chats: Sequence[Any]) -> str:
    """The last line: what was read of chats, left out and why, and where the list lies."""
    messages = 0
    quirks = []
    notes = []
    for chat in chats:
        messages += len(chat.messages)
        quirks += chat.quirks
        notes.append(chat.time_note)
    kinds = Counter(quirk.kind for quirk in quirks if "left out" in quirk.detail)
    reasons = ", ".join(f"{kind} {count}" for kind, count in kinds.items()) or "nothing"
    line = f"read: {messages} messages; left out: {reasons}; odd: {len(quirks)}"
    if quirks:
        line += f" (first: {quirks[0].kind}, {quirks[0].place[-1]}; all: quirks.csv of notebook 21)"
    return "; ".join([line, *filter(None, notes)])


def _show_quirks(quirks: Sequence[Any]) -> None:
    """Print how often each kind of quirk occurs, and where first."""
    by_kind: dict[str, list[Any]] = {}
    for quirk in quirks:
        by_kind.setdefault(quirk.kind, []).append(quirk)
    for kind, cases in sorted(by_kind.items()):
        print(f"{kind}: {len(cases)} (first: {cases[0].place[-1]}; {cases[0].detail})")


def _page(path: Path, built: Any, records: Sequence[dict[str, Any]]) -> None:
    """Write the page of a chat."""
    from crs_lib.realtalk import page as pages
    from crs_lib.report.page import document

    lead = html.escape(f"{' and '.join(built.chat.speakers)}, {built.size} messages.")
    title = "Where in the chat does the answer stand?"
    parts = pages.sections(built, records)
    tables.write_whole(path, document(built.chat.name, title, lead, parts, "chat.css"))


def _answer(built: Any, record: dict[str, Any]) -> None:
    """Print the answer to a question, its messages with their days, and how sure it is."""
    from crs_lib.realtalk import agent

    sure = agent.confidence(built, record)
    words = prompts.lists(_WORDS)["answer"]
    answer = record["answer"]["text"]
    if answer and sure >= agent.SURE:
        print(words["found"].format(answer=answer))
    else:
        print(words["none"])
    print(words["sure"].format(sure=100 * sure, least=100 * agent.SURE))
    for name in record["selected"]:
        message = built.chat.messages[built.chat.position[name]]
        day = f"{message.time:%d %B %Y %H:%M}" if message.time else ""
        text = message.text or message.caption
        print(words["message"].format(id=name, day=day, speaker=message.speaker, text=text))


def _agent(records: Sequence[dict[str, Any]]) -> str:
    """The engine, how its nodes decided, how often it abstained and fell back to a rule."""
    settings = records[0]["made_with"]
    forms = ", ".join(f"{node} {form}" for node, form in settings["forms"].items())
    silent = 0
    notes = []
    for record in records:
        silent += record["answer"]["text"] is None
        notes += [entry["note"] for entry in record["trace"] if "note" in entry]
    lines = [f"engine: {settings['engine']}; nodes: {forms}"]
    lines.append(f"no answer found: {silent} of {len(records)}")
    if notes:
        lines.append(f"rule instead of the model: {len(notes)} times (first: {notes[0]})")
    return "\n".join(lines)


def made_with(encoder: str, rankers: Sequence[str], encoder_setting: str, ranker_setting: str) -> list[str]:
    """The encoder and ranker that answered; where ``auto`` fell back, the way to the better one."""
    learned = ranker_setting == "auto"
    automatic = encoder_setting == "auto"
    minilm = automatic and ranker_setting != "hand" and encoder.startswith("minilm")
    missing = {}
    missing["minilm"] = automatic and encoder == "hashing"
    missing["gte"] = minilm and "gte-small" not in encoder
    missing["weights"] = minilm and "tuned" not in encoder
    missing["chats"] = learned and "hand" in rankers
    missing["lightgbm"] = learned and "linear" in rankers
    lines = [f"encoder: {encoder}; ranker: {', '.join(rankers)}"]
    hints = prompts.lists(_WORDS)["hints"]
    return lines + [text for name, text in hints.items() if missing[name]]


class Evaluate(Command):
    """Score chats, the test split once; or compare settings."""

    takes = (
        Takes(
            _CONFIG,
            f"run data against tradeoff selection reading with_unanswerable arc_cases final force {_MODEL}",
        ),
    )
    usual: ClassVar[dict[str, Any]] = {**_AUTO, "run": "train", "data": "realtalk"}

    train_only: bool = False
    """chats 1 to 7, as without it"""
    test_only: bool = False
    """chats 8 to 10 instead of 1 to 7; requires --final"""
    teach: bool = False
    """moved to benchmarks/teach_ranker.py"""
    compare: tuple[str, ...] = ()
    """a setting and its values (selection, ranker, encoder, …), or: ladder, BM25 to the fusion"""
    protocol: str = ""
    """moved to benchmarks/lmeb.py"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.realtalk import experiments, study
        from crs_lib.realtalk.config import RealTalkConfig

        if self.teach or self.protocol:
            script = "teach_ranker.py" if self.teach else "lmeb.py"
            option = "--teach" if self.teach else "--protocol"
            raise InputError(
                f"{option} moved out of the package in 0.4: PYTHONPATH=. python benchmarks/{script}"
            )
        if self.train_only and self.test_only:
            raise InputError("--train-only and --test-only exclude each other; give one of them")
        split = "train" if self.train_only or settings["data"] == "realtalk" else "all"
        if self.compare:
            del settings["run"]
            lever, *choices = self.compare
            _compare(lever, choices, RealTalkConfig(**settings, split=split))
            return
        config = RealTalkConfig(**settings, split="test" if self.test_only else split)
        experiments.check_test_split(config)
        start = time.perf_counter()
        records = [record["made_with"] for record in study.predict(config)]
        _report(study.evaluate(config), config.reading)
        rankers = sorted({record["ranker"] for record in records})
        makers = made_with(records[0]["encoder"], rankers, config.encoder, config.ranker)
        print("\n".join(makers))
        folder = paths.shown(paths.run_folder("realtalk", config.run))
        print(f"\n{time.perf_counter() - start:.0f} s; tables: {folder}/")
        print(_account(study.chats(config)))


def _compare(lever: str, choices: Sequence[str], config: Any) -> None:
    """Print the measures of a setting's values, of BM25 to the fusion (``ladder``)."""
    from crs_lib.realtalk import compare as levers
    from crs_lib.realtalk import index, study
    from crs_lib.realtalk.config import RealTalkConfig

    if lever == "ladder":
        encoder = index.choose_encoder(config.encoder)
        rows = levers.ladder_rows(study.chats(config), encoder)
        table(_percent(levers.ladder(rows)), digits=1)
        return
    values: list[Any] = [*choices]
    for field in fields_of(RealTalkConfig):
        if field.name == lever:
            values = [typed(field, value) for value in choices]
    measures = levers.table(config, lever, values).round(3)
    print(measures.T.to_string(header=False))


def _report(shown: dict[str, pd.DataFrame], reading: str) -> None:
    """Print the tables of an evaluation, shares in percent, whose columns are named after the measures."""
    for name, heading in prompts.lists(_WORDS)["headings"].items():
        frame = shown[name].drop(columns=["questions", "p@5", "p@10"], errors="ignore")
        if name == "arc_intervals":
            frame = frame[~frame["measure"].isin(["phases", "size"])]
        if len(frame):
            table(_percent(frame), heading.format(reading=reading), 1)


def _percent(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns that hold shares, in percent; counts, sizes and percentages as they are."""
    shown = frame.copy()
    for name in frame.select_dtypes("float"):
        if name != "size" and not name.endswith("%"):
            shown[name] = 100 * frame[name]
    return shown
