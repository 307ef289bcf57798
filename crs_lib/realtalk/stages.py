"""The three stages of a run: corpus tables, predictions, scores; each reads files of the one before."""

import logging
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib import runs
from crs_lib.core import hashes, paths, tables
from crs_lib.core.errors import InputError
from crs_lib.realtalk import (
    arcs,
    corpus,
    describe,
    experiments,
    index,
    predictions,
    query,
    scoring,
)
from crs_lib.realtalk.config import SAMPLE, STUDY, RealTalkConfig
from crs_lib.realtalk.corpus import Chat

_MEASURED = ("r@5", "r@10", "r@20", "mrr", "ndcg@10", "recall", "f1")
_LOG = logging.getLogger("crs_lib.realtalk")


def chats(config: RealTalkConfig) -> list[Chat]:
    """The chats that a run is about; InputError where the data or the split has none."""
    found = _read(config.data)
    if config.split != "all":
        found = [chat for chat in found if corpus.split_of(chat) == config.split]
    if not found:
        raise InputError(f"data {config.data!r} has no chat of split {config.split!r}; use split 'all'")
    return found


def _read(data: str) -> list[Chat]:
    if data == SAMPLE:
        return [corpus.read_chat(path) for path in sorted((paths.samples() / STUDY).glob("Chat_*.json"))]
    if data in ("realtalk", "locomo"):
        from crs_lib import data as datasets

        return corpus.read_folder(datasets.locate(data))
    place = Path(data)
    if place.is_dir():
        return corpus.read_folder(place)
    if place.is_file():
        return [corpus.read_chat(place)]
    raise InputError(f"data {data!r} is no file or folder; use sample, realtalk, locomo or a path")


def cases(config: RealTalkConfig, found: Sequence[Chat]) -> list[arcs.Arc]:
    """The ARC cases: a user's own file where one is named, else those that the evidence gives.

    The sample has a file of its own beside the questions with evidence in three sessions or more.
    """
    if config.arc_cases:
        return arcs.read(Path(config.arc_cases), found)
    own = paths.samples() / STUDY / "arcs.json"
    given = arcs.read(own, found) if config.data == SAMPLE else []
    asked = {(case.chat, case.question) for case in given}
    derived = [case for chat in found for case in arcs.derive(chat, config.reading)]
    return given + [case for case in derived if (case.chat, case.question) not in asked]


def describe_corpus(config: RealTalkConfig) -> dict[str, pd.DataFrame]:
    """Stage "corpus": writes its four tables and ``arcs.json``; returns the tables."""
    found = chats(config)
    shown = {
        "chats": describe.chats(found),
        "evidence": describe.evidence(found),
        "quirks": describe.quirks(found),
        "regularities": describe.regularities(found),
    }
    asked = {"data": config.data, "split": config.split, "reading": config.reading}
    with runs.stage(STUDY, config.run, "corpus", asked, _inputs(found), fixed=False) as stage:
        for name, frame in shown.items():
            tables.write_csv(stage.path(f"{name}.csv"), frame)
        arcs.write(stage.path("arcs.json"), cases(config, found))
        stage.counts.update(chats=len(found), messages=sum(len(c.messages) for c in found))
    return shown


def predict(config: RealTalkConfig) -> list[dict[str, Any]]:
    """Stage "query": writes ``predictions.jsonl`` and ``timings.jsonl``; returns the predictions.

    Chats are answered one by one, each by a ranker that never saw it. The same settings give the same
    predictions, byte for byte; seconds go to the file of timings.
    """
    found = chats(config)
    encoder = predictions.choose_encoder(config.encoder)
    out: list[dict[str, Any]] = []
    with runs.stage(STUDY, config.run, "query", _asked(config), _inputs(found), fixed=False) as stage:
        calls = paths.run_folder(STUDY, config.run) / "llm_calls.sqlite"
        model = language_model(config, calls)
        for chat in found:
            built = index.build(chat, encoder)
            ranker = predictions.choose_ranker(config.ranker, built, teachers=config.teachers)
            out += predictions.predict(
                built, ranker, config.settings(), model, timings=True, questions=config.questions
            )
            _LOG.info(
                "%s: %d questions answered by %s/%s", chat.name, len(chat.questions), encoder, ranker.name
            )
        seconds = [
            {"chat": r["chat"], "qa_index": r["qa_index"], **(r["timings"]["seconds"] or {})} for r in out
        ]
        for record in out:
            record["timings"]["seconds"] = None
        predictions.write(stage.path("predictions.jsonl"), out)
        tables.write_jsonl(stage.path("timings.jsonl"), seconds)
        rankers = sorted({record["made_with"]["ranker"] for record in out})
        if model:
            write_calls(calls, stage.path("llm_calls.jsonl"))
        stage.counts.update(questions=len(out), encoder=encoder, rankers=rankers)
    return out


def evaluate(config: RealTalkConfig) -> dict[str, pd.DataFrame]:
    """Stage "evaluate": scores ``predictions.jsonl``, writes the tables and ``experiments.csv``.

    The test split is scored only with ``final``, and a second time for the same levers only with
    ``force`` (marked as repeated). Raises RunError otherwise, before anything is read or written.
    """
    repeated = experiments.check_test_split(
        config.data, config.split, config.levers(), config.final, config.force
    )
    runs.finished(STUDY, config.run, "query", "22_realtalk_query")
    found = chats(config)
    if experiments.is_test(found) and not config.final:
        experiments.refuse()
    source = runs.output(STUDY, config.run, "query", "22_realtalk_query", "predictions.jsonl")
    told = predictions.read(source, found)
    shown = score(told, found, config)
    inputs = {"predictions.jsonl": hashes.sha256(source), **_inputs(found)}
    with runs.stage(STUDY, config.run, "evaluate", _asked(config), inputs, fixed=False) as stage:
        tables.write_parquet(stage.path("questions.parquet"), shown["questions"])
        for name in (
            "summary",
            "by_category",
            "by_chat",
            "attribution",
            "intervals",
            "arcs",
            "arc_intervals",
            "answers",
            "answer_intervals",
            "unmoved",
        ):
            tables.write_csv(stage.path(f"{name}.csv"), shown[name])
        stage.counts.update(headline(shown), split=config.split, repeated=repeated)
    experiments.write_log()
    return shown


def score(
    told: Sequence[dict[str, Any]], found: Sequence[Chat], config: RealTalkConfig
) -> dict[str, pd.DataFrame]:
    """All tables of a set of predictions; nothing is written. InputError where no question has evidence."""
    rows = scoring.questions(told, found, config.reading)
    scoring.need_gold(rows, config.reading)
    columns = (*scoring.RANKS, *scoring.SETS)
    story = scoring.narratives(told, found, cases(config, found))
    given = scoring.answered(told, found)
    given = given.assign(question=given["chat"] + " " + given["qa_index"].astype(str))
    return {
        "questions": rows,
        "summary": scoring.means(rows, columns),
        "by_category": scoring.means(rows, columns, "category"),
        "by_chat": scoring.means(rows, columns, "chat"),
        "attribution": scoring.attribution(rows, "category", "chat"),
        "intervals": scoring.intervals(
            rows, ("r@5", "r@10", "r@20", "mrr", "ndcg@10", "recall", "f1"), seed=config.seed
        ),
        "arcs": story,
        "arc_intervals": scoring.mean_intervals(story, scoring.ARCS, "case", seed=config.seed),
        "density": scoring.checkpoint_density(rows),
        "answered": given,
        "answers": scoring.answer_means(given),
        "answer_intervals": scoring.mean_intervals(given, scoring.ANSWERED, "question", seed=config.seed),
        "unmoved": scoring.unmoved(rows),
    }


def headline(shown: dict[str, pd.DataFrame]) -> dict[str, Any]:
    """The figures that the manifest and the log of experiments carry, each with the n it rests on."""
    first = shown["summary"].iloc[0]
    whole = shown["attribution"].iloc[0]
    story = shown["arcs"]
    told = {f"arc {name}": float(story[name].mean()) for name in scoring.ARCS} if len(story) else {}
    return {
        "n": int(first["n"]),
        "excluded": int(first["excluded"]),
        **{name: float(first[name]) for name in (*scoring.RANKS, *scoring.SETS)},
        **{
            name: int(whole[name])
            for name in whole.index
            if str(name).startswith("lost ") and "%" not in str(name)
        },
        "density": float(shown["density"]["density"].mean()),
        "arc cases": len(story),
        **_answered(shown["answers"]),
        **told,
    }


def _answered(table: pd.DataFrame) -> dict[str, float]:
    """The answers' figures of all questions; empty where no question has an annotated answer."""
    first = table.iloc[0]
    if not first["n"]:
        return {}
    named = {"answer token_f1": "token_f1", "answer exact": "exact", "answers abstained": "abstained"}
    return {key: float(first[column]) for key, column in named.items()}


def _asked(config: RealTalkConfig) -> dict[str, Any]:
    return {key: value for key, value in asdict(config).items() if key != "run"}


def _inputs(found: Sequence[Chat]) -> dict[str, str]:
    return {chat.name: chat.digest for chat in found}


def write_calls(log: Path, target: Path) -> int:
    """The recorded calls of a model as JSON lines; returns their number."""
    from crs_lib.llm import export

    return export([log], target) if log.is_file() else 0


def language_model(config: RealTalkConfig, log: Path | None = None) -> query.ModelForm | None:
    """The model that a config names, its calls recorded in ``log``; None where it names none.

    Replies are kept under ``data/processed/realtalk``: the same question to the same weights is asked once. A
    missing server costs two quick attempts; nothing is sent before the first question.
    """
    if not config.llm:
        return None
    from crs_lib.llm import LLM, Cache, Recorder, Retry
    from crs_lib.realtalk import forms

    llm = LLM(
        config.llm,
        cache=Cache(paths.data() / "processed" / STUDY / "replies.sqlite"),
        retry=Retry(waits=1, seeds=1, first=0.2, longest=1.0),
        recorder=Recorder(log) if log else None,
    )
    return forms.LLMForm(llm, config.seed, config.view, config.segments)


def of_run(run: str, *, final: bool = False, force: bool = False) -> RealTalkConfig:
    """The settings that the query stage of a run was made with, with permissions to score.

    Raises RunError with the command that makes the stage, where it is not finished.
    """
    asked = runs.finished(STUDY, run, "query", "22_realtalk_query")["parameters"]
    known = {f.name for f in fields(RealTalkConfig)}
    return RealTalkConfig(
        **{k: v for k, v in asked.items() if k in known} | {"run": run, "final": final, "force": force}
    )
