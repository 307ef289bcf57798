"""The study as a table of stages (corpus, query, evaluate), its log of experiments, and its test split."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from crs_lib import runs
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.metrics.evidence import BUCKETS
from crs_lib.realtalk import arcs, corpus, describe, index, query, scoring
from crs_lib.realtalk.config import COMMAND, SAMPLE, STUDY, RealTalkConfig, traded
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
    """The ARC cases: a user's own file where one is named, else those that the evidence gives. The sample has
    a file of its own beside the questions with evidence in three sessions or more.
    """
    if config.arc_cases:
        return arcs.read(Path(config.arc_cases), found)
    own = paths.samples() / STUDY / "arcs.json"
    given = arcs.read(own, found) if config.data == SAMPLE else []
    asked = {(case.chat, case.question) for case in given}
    derived = [case for chat in found for case in arcs.derive(chat, config.reading)]
    return given + [case for case in derived if (case.chat, case.question) not in asked]


def _corpus(config: RealTalkConfig, stage: runs.Stage) -> Mapping[str, Any]:
    """Stage "corpus": three tables of the chats, and the ARC cases."""
    found = chats(config)
    stage.counts.update(chats=len(found), messages=sum(len(c.messages) for c in found))
    arcs.write(stage.path("arcs.json"), cases(config, found))
    return {
        "chats": describe.chats(found),
        "evidence": describe.evidence(found),
        "quirks": describe.quirks(found),
    }


def _query(config: RealTalkConfig, stage: runs.Stage) -> Mapping[str, Any]:
    """Stage "query": predictions. Chats are answered one by one, each by a ranker that never saw it; the same
    settings give the same predictions, byte for byte.
    """
    calls = paths.run_folder(STUDY, config.run) / "llm_calls.sqlite"
    model = language_model(config, calls)
    out = list(answered(config, chats(config), model))
    if model:
        write_calls(calls, stage.path("llm_calls.jsonl"))
    rankers = sorted({record["made_with"]["ranker"] for record in out})
    stage.counts.update(
        questions=len(out), encoder=index.choose_encoder(config.encoder, config.ranker), rankers=rankers
    )
    return {"predictions": out}


def answered(
    config: RealTalkConfig, found: Sequence[Chat], model: query.ModelForm | None = None
) -> Iterator[dict[str, Any]]:
    """The predictions for chats under a config, one a question; nothing is written."""
    encoder = index.choose_encoder(config.encoder, config.ranker)
    for chat in found:
        built = index.build(chat, encoder)
        ranker = query.choose_ranker(config.ranker, built, teachers=config.teachers)
        yield from query.predict(built, ranker, config, model)
        _LOG.info("%s: %d questions answered by %s/%s", chat.name, len(chat.questions), encoder, ranker.name)


def _evaluate(config: RealTalkConfig, stage: runs.Stage) -> Mapping[str, Any]:
    """Stage "evaluate": all tables of scores."""
    found = chats(config)
    told = query.read(REALTALK.path(config.run, "predictions"), found)
    shown = _score(told, found, config)
    stage.counts.update(_headline(shown), split=config.split, repeated=config.force)
    tables.write_jsonl(stage.path("gold_trace.jsonl"), scoring.gold_ids(told, found, config.reading))
    return shown


def _score(
    told: Sequence[dict[str, Any]], found: Sequence[Chat], config: RealTalkConfig
) -> dict[str, pd.DataFrame]:
    """All tables of a set of predictions; nothing is written. InputError where no question has evidence."""
    rows = scoring.questions(told, found, config.reading)
    scoring.need_gold(rows, config.reading)
    columns = (*scoring.RANKS, *scoring.SETS)
    story = scoring.narratives(told, found, cases(config, found))
    given = scoring.answered(told, found)
    return {
        "questions": rows, "summary": scoring.means(rows, columns),
        "by_category": scoring.means(rows, columns, "category"),
        "by_chat": scoring.means(rows, columns, "chat"),
        "attribution": scoring.attribution(rows, "category", "chat"),
        "intervals": scoring.rank_intervals(rows, _MEASURED, config.seed), "arcs": story,
        "arc_intervals": scoring.intervals(story, scoring.ARCS, "case", seed=config.seed),
        "density": rows.groupby("chat")["density"].mean().reset_index(), "answered": given,
        "answers": scoring.answer_means(given),
        "answer_intervals": scoring.intervals(given, scoring.ANSWERED, "question", seed=config.seed),
        "unmoved": scoring.unmoved(rows),
    }  # fmt: skip


def _headline(shown: dict[str, pd.DataFrame]) -> dict[str, Any]:
    """The figures that the manifest and the log of experiments carry, each with the n it rests on."""
    first, whole, story = shown["summary"].iloc[0], shown["attribution"].iloc[0], shown["arcs"]
    given = shown["answers"].iloc[0]
    named = {"answer token_f1": "token_f1", "answer exact": "exact", "answers abstained": "abstained"}
    return {
        "n": int(first["n"]), "excluded": int(first["excluded"]),
        **{name: float(first[name]) for name in (*scoring.RANKS, *scoring.SETS)},
        **{name: int(whole[name]) for name in BUCKETS if name.startswith("lost ")},
        "density": float(shown["density"]["density"].mean()), "arc cases": len(story),
        **({key: float(given[column]) for key, column in named.items()} if given["n"] else {}),
        **({f"arc {name}": float(story[name].mean()) for name in scoring.ARCS} if len(story) else {}),
    }  # fmt: skip


def _recorded(config: RealTalkConfig) -> dict[str, Any]:
    return {name: value for name, value in config.values().items() if name != "run"}


def _chats_by_digest(config: RealTalkConfig) -> dict[str, str]:
    return {chat.name: chat.digest for chat in chats(config)}


def _scorable(config: RealTalkConfig) -> dict[str, str]:
    """The chats of an evaluation; RunError where they are of the test split and nobody said "final"."""
    check_test_split(config)
    REALTALK.finished(config.run, "query")
    if not config.final and is_test(chats(config)):
        refuse_test_split()
    return _chats_by_digest(config)


def _attribution(run: str) -> pd.DataFrame:
    """The table of a figure: the file of the evaluation with the number of all ids."""
    frame = REALTALK.read(run, "attribution.csv")
    return frame.assign(n_ids=int(frame["ids"].max()) if len(frame) else 0)


_SCORES = (
    "summary", "by_category", "by_chat", "attribution", "intervals", "arcs", "arc_intervals", "answers",
    "answer_intervals", "unmoved",
)  # fmt: skip
REALTALK = runs.Study(
    STUDY,
    [
        runs.StageSpec(
            "corpus", "21_realtalk_corpus", RealTalkConfig, _corpus, needs=_chats_by_digest,
            outputs={name: f"{name}.csv" for name in ("chats", "evidence", "quirks")},
            parameters=lambda config: {"data": config.data, "split": config.split, "reading": config.reading},
        ),
        runs.StageSpec(
            "query", "22_realtalk_query", RealTalkConfig, _query, needs=_chats_by_digest,
            outputs={"predictions": "predictions.jsonl"}, parameters=_recorded,
        ),
        runs.StageSpec(
            "evaluate", "23_realtalk_evaluate", RealTalkConfig, _evaluate, ("predictions.jsonl",),
            needs=_scorable, parameters=_recorded,
            outputs={"questions": "questions.parquet"} | {name: f"{name}.csv" for name in _SCORES},
        ),
    ],
    derived={"attribution": _attribution},
)  # fmt: skip
read = REALTALK.read


def describe_corpus(config: RealTalkConfig) -> dict[str, pd.DataFrame]:
    """Stage "corpus": writes its three tables and ``arcs.json``; returns the tables."""
    return REALTALK.run("corpus", config)


def predict(config: RealTalkConfig) -> list[dict[str, Any]]:
    """Stage "query": writes ``predictions.jsonl``; returns the predictions."""
    made: list[dict[str, Any]] = REALTALK.run("query", config)["predictions"]
    return made


def evaluate(config: RealTalkConfig) -> dict[str, pd.DataFrame]:
    """Stage "evaluate": scores ``predictions.jsonl``, writes the tables and ``experiments.csv``. The test
    split is scored only with ``final``, and a second time for the same levers only with ``force`` (marked as
    repeated). Raises RunError otherwise, before anything is read or written.
    """
    shown = REALTALK.run("evaluate", config.changed(force=check_test_split(config)))
    tables.write_csv(paths.results() / STUDY / "experiments.csv", log())
    return shown


def write_calls(log: Path, target: Path) -> int:
    """The recorded calls of a model as JSON lines; returns their number."""
    from crs_lib.llm import export

    return export([log], target) if log.is_file() else 0


def language_model(config: RealTalkConfig, log: Path | None = None) -> query.ModelForm | None:
    """The model that a config names, its calls recorded in ``log``; None where it names none. Replies are
    kept under ``data/processed/realtalk``: the same question to the same weights is asked once. A missing
    server costs two quick attempts; nothing is sent before the first question.
    """
    if not config.llm:
        return None
    from crs_lib.llm import LLM, Cache, Recorder, Retry
    from crs_lib.realtalk import forms

    llm = LLM(
        config.llm, cache=Cache(paths.data() / "processed" / STUDY / "replies.sqlite"),
        retry=Retry(waits=1, seeds=1, first=0.2, longest=1.0), recorder=Recorder(log) if log else None,
    )  # fmt: skip
    return forms.LLMForm(llm, config.seed, config.view, config.segments, config.prompts)


def of_run(run: str, *, final: bool = False, force: bool = False) -> RealTalkConfig:
    """The settings that the query stage of a run was made with, with permissions to score. Raises RunError
    with the command that makes the stage, where it is not finished.
    """
    asked = REALTALK.finished(run, "query")["parameters"]
    known = {name: value for name, value in asked.items() if name in RealTalkConfig.model_fields}
    return RealTalkConfig(**known | {"run": run, "final": final, "force": force})


# ── the log of experiments ───────────────────────────────────────────────────────────────────────────

COLUMNS = ("experiment_id", "date", "train_recall", "test_recall", "config_changes")
MEASURES = (
    "n", "recall", "precision", "f1", "fuzzy_recall", "size", "r@5", "r@10", "r@20", "r@50", "mrr", "ndcg@10",
    "arc global_recall", "arc coverage_any", "arc coverage_aligned",
    "lost at candidates", "lost at reranking", "lost at selection", "density",
)  # fmt: skip


def log() -> pd.DataFrame:
    """One row a finished evaluation, oldest first: the four thesis columns, then the measures. Everything is
    read off the runs' manifests, so the log cannot disagree with them. A recall stands under the split it was
    measured on and nowhere else (null there); ``config_changes`` names the levers that differ from the
    defaults. Choose by ``train_recall``, never by ``test_recall``.
    """
    made = _evaluations()
    counts = {run: entry["counts"] for run, entry, _ in made}
    rows = [_row(run, entry, manifest, counts) for run, entry, manifest in made]
    columns = [*COLUMNS, "split", "repeated", "commit", "against", "tradeoff", "verdict", *MEASURES]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.sort_values(["date", "experiment_id"], kind="stable").reset_index(drop=True)


def _row(
    run: str, entry: Mapping[str, Any], manifest: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    counts, asked = entry["counts"], entry["parameters"]
    split = asked["split"] if asked["data"] == "realtalk" else "other"
    against, text = (str(asked.get(name, "")) for name in ("against", "tradeoff"))
    return {
        "experiment_id": run, "date": entry.get("ended", ""),
        "train_recall": counts["recall"] if split == corpus.TRAIN else None,
        "test_recall": counts["recall"] if split == corpus.TEST else None,
        "config_changes": _changes(asked), "split": split, "repeated": bool(counts.get("repeated")),
        "commit": str(manifest.get("code", {}).get("commit", ""))[:12],
        "against": against, "tradeoff": text, "verdict": traded(text, others.get(against, {}), counts),
        **{name: counts.get(name) for name in MEASURES},
    }  # fmt: skip


def _changes(asked: Mapping[str, Any]) -> str:
    """Every setting that differs from the command's defaults, ``name=value``, or "defaults"."""
    usual = RealTalkConfig(**COMMAND)
    free = ("run", "against", "tradeoff")
    names = [name for name in sorted(asked) if name not in free and hasattr(usual, name)]
    found = [f"{name}={asked[name]}" for name in names if asked[name] != getattr(usual, name)]
    return " ".join(found) or "defaults"


def is_test(chats: Sequence[Chat]) -> bool:
    """Whether any of the chats belongs to the test split, whatever folder it was read from."""
    return any(corpus.split_of(chat) == corpus.TEST for chat in chats)


def check_test_split(config: RealTalkConfig) -> bool:
    """Whether this is a repeated scoring of the test split; RunError where it is not allowed. Without
    ``final`` the test split is not scored at all. With it, the same levers are scored once; a second time
    needs ``force`` and is marked. Other splits pass freely.
    """
    if config.data != "realtalk" or config.split == corpus.TRAIN:
        return False
    if not config.final:
        refuse_test_split()
    levers = tables.finite(config.levers())
    final = [(run, one["parameters"]) for run, one, _ in _evaluations() if one["parameters"].get("final")]
    done = [run for run, asked in final if levers == {name: asked.get(name) for name in levers}]
    if done and not config.force:
        told = f"the test split was already scored with these levers (run {done[0]!r}); the result is in its"
        again = "Score it again with force=true only if you must: it will be marked as repeated"
        raise RunError(f"{told} manifest. {again}")
    return bool(done)


def refuse_test_split() -> NoReturn:
    """Say why the test split is not scored."""
    raise RunError(
        "chats 8 to 10 are the test split; scoring them needs final=true, once, after all choices were made "
        "on the train split (split=train)"
    )


def _evaluations() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Run, stage entry and manifest of every finished evaluation, by run name."""
    found = []
    for path in sorted((paths.results() / STUDY).glob("*/manifest.json")):
        manifest = runs.manifest_at(path)
        entry = manifest.get("stages", {}).get("evaluate", {})
        if entry.get("status") == "finished":
            found.append((path.parent.name, entry, manifest))
    return found
