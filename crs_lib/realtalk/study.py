"""The study as a table of stages: corpus, query, evaluate."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib import data as datasets
from crs_lib import runs
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError
from crs_lib.metrics.evidence import BUCKETS
from crs_lib.realtalk import agent, arcs, corpus, describe, experiments, index, learning, scoring
from crs_lib.realtalk.agent import ModelForm
from crs_lib.realtalk.config import SAMPLE, STUDY, RealTalkConfig
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.search import Hand, Ranker

_MEASURED = ("r@5", "r@10", "r@20", "mrr", "ndcg@10", "recall", "f1")
_LOG = logging.getLogger("crs_lib.realtalk")


def chats(config: RealTalkConfig) -> list[Chat]:
    """The chats that a run is about.

    Parameters
    ----------
    config : RealTalkConfig
        ``data`` names the chats, ``split`` the part of them.

    Returns
    -------
    list of Chat
        In order of their numbers; never empty.

    Raises
    ------
    InputError
        The data or the split has no chat.
    """
    selected = _read(config.data)
    if config.split != "all":
        selected = [chat for chat in selected if corpus.split_of(chat) == config.split]
    for chat in selected:
        if chat.time_note:
            _LOG.warning(chat.time_note)
    if not selected:
        cure = "use split 'all' (in the command: leave --train-only out)"
        if config.split == corpus.TEST:
            cure = "get chats 8 to 10 with: python -m crs_lib data get realtalk-test"
        raise InputError(f"data {config.data!r} has no chat of split {config.split!r}; {cure}")
    return selected


def _read(data: str) -> list[Chat]:
    """All chats of the sample, of a data set, or of a file or folder; InputError where there is none."""
    if data == SAMPLE:
        files = sorted((paths.samples() / STUDY).glob("Chat_*.json"))
        return [corpus.read_chat(path) for path in files]
    path = Path(data)
    if data in (corpus.REALTALK, corpus.LOCOMO):
        path = datasets.locate(data)
    if path.is_dir():
        return corpus.read_folder(path)
    if path.is_file():
        return corpus.read_chats(path)
    raise InputError(f"data {data!r} is no file or folder; use sample, realtalk, locomo or a path")


def cases(config: RealTalkConfig, of_chats: Sequence[Chat]) -> list[arcs.Arc]:
    """The ARC cases: a user's own file where one is named, else those that the evidence gives.

    The sample has a file of its own beside the questions with evidence in three sessions or more.

    Parameters
    ----------
    config : RealTalkConfig
        ``arc_cases`` names a file, ``reading`` the interpretation of the evidence.
    of_chats : sequence of Chat
        The chats that the cases are about.

    Returns
    -------
    list of Arc

    Raises
    ------
    InputError
        A file holds a case that does not fit the chats.
    """
    if config.arc_cases:
        return arcs.read(Path(config.arc_cases), of_chats)
    every: list[arcs.Arc] = []
    if config.data == SAMPLE:
        every = arcs.read(paths.samples() / STUDY / "arcs.json", of_chats)
    written = {(case.chat, case.question) for case in every}
    for chat in of_chats:
        for case in arcs.derive(chat, config.reading):
            if (case.chat, case.question) not in written:
                every.append(case)
    return every


# ── stages ───────────────────────────────────────────────────────────────────────────────────────────


def _corpus(config: RealTalkConfig, stage: runs.Stage) -> Mapping[str, Any]:
    """Stage "corpus": three tables of the chats, and the ARC cases."""
    selected = chats(config)
    stage.counts["chats"] = len(selected)
    stage.counts["messages"] = sum(len(chat.messages) for chat in selected)
    arcs.write(stage.path("arcs.json"), cases(config, selected))
    return {
        "chats": describe.chats(selected),
        "evidence": describe.evidence(selected),
        "quirks": describe.quirks(selected),
    }


def _answer_questions(config: RealTalkConfig, stage: runs.Stage) -> Mapping[str, Any]:
    """Stage "query", of notebook 22: predictions. Chats are answered one by one, each by a ranker that never
    saw it; the same settings give the same predictions, byte for byte.
    """
    calls = paths.run_folder(STUDY, config.run) / "llm_calls.sqlite"
    model = language_model(config, calls)
    predictions = list(answered(config, chats(config), model))
    if model:
        write_calls(calls, stage.path("llm_calls.jsonl"))
    stage.counts["questions"] = len(predictions)
    stage.counts["encoder"] = index.choose_encoder(config.encoder, config.ranker)
    stage.counts["rankers"] = _makers(predictions, "ranker")
    return {"predictions": predictions}


def answered(
    config: RealTalkConfig, of_chats: Sequence[Chat], model: ModelForm | None = None
) -> Iterator[dict[str, Any]]:
    """The predictions for chats under a config, one a question; nothing is written."""
    encoder = index.choose_encoder(config.encoder, config.ranker)
    for chat in of_chats:
        chat_index = index.build(chat, encoder)
        ranker: Ranker = Hand()
        if config.ranker != Hand.name:
            ranker = learning.choose_ranker(config.ranker, chat_index, teachers=config.teachers)
        yield from agent.predict(chat_index, ranker, config, model)
        _LOG.info("%s: %d questions answered by %s/%s", chat.name, len(chat.questions), encoder, ranker.name)


def _evaluate(config: RealTalkConfig, stage: runs.Stage) -> Mapping[str, Any]:
    """Stage "evaluate": all tables of scores."""
    selected = chats(config)
    predictions = scoring.read(REALTALK.path(config.run, "predictions"), selected)
    scores = _scores(predictions, selected, config)
    stage.counts.update(_headline(scores), split=config.split, repeated=config.force)
    for name in ("encoder", "ranker"):
        stage.counts[name] = ", ".join(_makers(predictions, name))
    gold = scoring.gold_ids(predictions, selected, config.reading)
    tables.write_jsonl(stage.path("gold_trace.jsonl"), gold)
    return scores


def _scores(
    predictions: Sequence[scoring.Record], of_chats: Sequence[Chat], config: RealTalkConfig
) -> dict[str, pd.DataFrame]:
    """All tables of a set of predictions; nothing is written. InputError where no question has evidence."""
    questions = scoring.questions(predictions, of_chats, config.reading)
    scoring.need_gold(questions, config.reading)
    columns = (*scoring.RANKS, *scoring.SETS)
    every_case = cases(config, of_chats)
    stories = scoring.narratives(predictions, of_chats, every_case)
    if len(stories) < len(every_case):
        _LOG.warning("%d of %d ARC cases have a prediction", len(stories), len(every_case))
    answers = scoring.answered(predictions, of_chats, config.with_unanswerable)
    seed = config.seed
    scores = {"questions": questions, "arcs": stories, "answered": answers}
    scores["by_category"] = scoring.means(questions, columns, "category")
    questions = scoring.counted(questions, config.with_unanswerable)
    scoring.need_gold(questions, config.reading)
    scores["summary"] = scoring.means(questions, columns)
    scores["by_chat"] = scoring.means(questions, columns, "chat")
    scores["attribution"] = scoring.attribution(questions, "category", "chat")
    scores["intervals"] = scoring.rank_intervals(questions, _MEASURED, seed)
    scores["arc_intervals"] = scoring.intervals(stories, scoring.ARCS, "case", seed=seed)
    scores["density"] = questions.groupby("chat")["density"].mean().reset_index()
    scores["answers"] = scoring.answer_means(answers)
    measures = [*scoring.ANSWERED]
    if answers["unanswerable"].any():
        measures.append(scoring.RESISTED)
    scores["answer_intervals"] = scoring.intervals(answers, measures, "question", seed=seed)
    scores["unmoved"] = scoring.unmoved(questions)
    return scores


def _headline(scores: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """The figures that the manifest and the log of experiments carry, each with the n it rests on."""
    summary = scores["summary"].iloc[0]
    losses = scores["attribution"].iloc[0]
    answers = scores["answers"].iloc[0]
    stories = scores["arcs"]
    headline: dict[str, Any] = {"n": int(summary["n"])}
    headline["excluded"] = int(summary["excluded"])
    headline |= summary[[*scoring.RANKS, *scoring.SETS]].astype(float).to_dict()
    headline |= losses[list(BUCKETS[1:-1])].astype(int).to_dict()
    headline["density"] = float(scores["density"]["density"].mean())
    headline["arc cases"] = len(stories)
    if answers["n"]:
        headline["answer token_f1"] = float(answers["token_f1"])
        headline["answer exact"] = float(answers["exact"])
        headline["answers abstained"] = float(answers["abstained"])
    if answers["unanswerable"]:
        headline["traps resisted"] = float(answers[scoring.RESISTED])
    if len(stories):
        means = stories[list(scoring.ARCS)].astype(float).mean()
        headline |= means.add_prefix("arc ").to_dict()
    return headline


def _makers(predictions: Sequence[scoring.Record], name: str) -> list[str]:
    """The encoders or rankers that predicted: where the setting is "auto" those that it stood for."""
    return sorted({record["made_with"][name] for record in predictions})


def _corpus_settings(config: RealTalkConfig) -> dict[str, Any]:
    return {"data": config.data, "split": config.split, "reading": config.reading}


def _settings(config: RealTalkConfig) -> dict[str, Any]:
    settings = config.values()
    del settings["run"]
    return settings


def _digests(config: RealTalkConfig) -> dict[str, str]:
    return {chat.name: chat.digest for chat in chats(config)}


def _answerable(config: RealTalkConfig) -> dict[str, str]:
    """The chats whose questions are answered; InputError where a user's own ARC cases cannot be scored."""
    of_chats = chats(config)
    if config.arc_cases:
        cases(config, of_chats)
    return {chat.name: chat.digest for chat in of_chats}


def _scorable(config: RealTalkConfig) -> dict[str, str]:
    """The chats of an evaluation; RunError where they are of the test split and nobody said "final"."""
    experiments.check_test_split(config)
    REALTALK.finished(config.run, "query")
    if not config.final and experiments.is_test(chats(config)):
        experiments.refuse_test_split()
    return _digests(config)


def _attribution(run: str) -> pd.DataFrame:
    """The table of a figure: the file of the evaluation with the number of all ids."""
    frame = REALTALK.read(run, "attribution.csv")
    return frame.assign(n_ids=int(frame["ids"].max()) if len(frame) else 0)


def _csv(*names: str) -> dict[str, str]:
    return {name: f"{name}.csv" for name in names}


_CORPUS = runs.StageSpec(
    "corpus",
    "21_realtalk_corpus",
    RealTalkConfig,
    _corpus,
    needs=_digests,
    outputs=_csv("chats", "evidence", "quirks"),
    parameters=_corpus_settings,
)
_QUERY = runs.StageSpec(
    "query",
    "22_realtalk_query",
    RealTalkConfig,
    _answer_questions,
    needs=_answerable,
    outputs={"predictions": "predictions.jsonl"},
    parameters=_settings,
)
_SUMMARIES = _csv("summary", "by_category", "by_chat", "attribution", "intervals", "unmoved")
_STORIES = _csv("arcs", "arc_intervals", "answers", "answer_intervals")
_EVALUATE = runs.StageSpec(
    "evaluate",
    "23_realtalk_evaluate",
    RealTalkConfig,
    _evaluate,
    ("predictions.jsonl",),
    needs=_scorable,
    parameters=_settings,
    outputs={"questions": "questions.parquet", **_SUMMARIES, **_STORIES},
)
REALTALK = runs.Study(STUDY, [_CORPUS, _QUERY, _EVALUATE], derived={"attribution": _attribution})
read = REALTALK.read


def describe_corpus(config: RealTalkConfig) -> dict[str, pd.DataFrame]:
    """Stage "corpus": writes its three tables and ``arcs.json``.

    Returns
    -------
    dict of DataFrame
        ``chats`` (a row a chat), ``evidence`` (a row an interpretation), ``quirks`` (a row a kind).

    Raises
    ------
    InputError
        The data has no chat.
    """
    return REALTALK.run("corpus", config)


def predict(config: RealTalkConfig) -> list[dict[str, Any]]:
    """Stage "query": writes ``predictions.jsonl``.

    Returns
    -------
    list of dict
        The predictions, a record a question; their keys are those of :func:`crs_lib.realtalk.agent.predict`.

    Raises
    ------
    InputError
        The data has no chat, or a setting needs what is not installed.
    """
    predictions: list[dict[str, Any]] = REALTALK.run("query", config)["predictions"]
    return predictions


def evaluate(config: RealTalkConfig) -> dict[str, pd.DataFrame]:
    """Stage "evaluate": scores ``predictions.jsonl``, writes the tables and ``experiments.csv``.

    Returns
    -------
    dict of DataFrame
        ``questions`` (a row a question), ``summary``, ``by_category``, ``by_chat``, ``attribution``,
        ``intervals``, ``arcs``, ``answers`` and others; shares in [0, 1].

    Raises
    ------
    RunError
        The test split without ``final``, or a second time for the same levers without ``force`` (which marks
        it as repeated); before anything is read or written.
    """
    repeated = experiments.check_test_split(config)
    scores = REALTALK.run("evaluate", config.changed(force=repeated))
    tables.write_csv(paths.results() / STUDY / "experiments.csv", experiments.log())
    return scores


def write_calls(log: Path, target: Path) -> int:
    """The recorded calls of a model as JSON lines; returns their number."""
    from crs_lib.llm import export

    return export([log], target) if log.is_file() else 0


def language_model(config: RealTalkConfig, log: Path | None = None) -> ModelForm | None:
    """The model that a config names, its calls recorded in ``log``; None where it names none.

    Replies stay under ``data/processed/realtalk``: the same question to the same weights is asked once. A
    missing server costs two quick attempts; nothing is sent before the first question. InputError where the
    folder of own prompts does not exist.
    """
    if config.prompts and not Path(config.prompts).is_dir():
        raise InputError(f"prompts {config.prompts!r} is no folder; give one with select.txt, plan.txt, …")
    if not config.llm:
        return None
    from crs_lib.llm import LLM, Cache, Recorder, Retry
    from crs_lib.realtalk import forms

    cache = Cache(paths.data() / "processed" / STUDY / "replies.sqlite")
    retry = Retry(waits=1, seeds=1, first=0.2, longest=1.0)
    recorder = Recorder(log) if log else None
    llm = LLM(config.llm, cache=cache, retry=retry, recorder=recorder)
    return forms.LLMForm(llm, config)


def of_run(
    run: str,
    *,
    final: bool = False,
    force: bool = False,
    arc_cases: str = "",
    against: str = "",
    tradeoff: str = "",
) -> RealTalkConfig:
    """The settings that the query stage of a run was made with, with permissions to score.

    Parameters
    ----------
    run : str
        Name of the run.
    final, force : bool
        Permission to score the test split, and to score it again.
    arc_cases, against, tradeoff : str
        What to score by in place of the run's own settings; empty for those.

    Raises
    ------
    RunError
        The stage is not finished; the message names the command that makes it.
    """
    settings = dict(REALTALK.finished(run, "query")["parameters"])
    settings.update(run=run, final=final, force=force)
    for name, value in {"arc_cases": arc_cases, "against": against, "tradeoff": tradeoff}.items():
        settings[name] = value or settings.get(name, "")
    return RealTalkConfig(
        **{name: settings[name] for name in settings if name in RealTalkConfig.model_fields}
    )
