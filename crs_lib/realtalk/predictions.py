"""Predictions as lines of JSON: what the pipeline answered, readable by any other program."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from crs_lib.core import tables
from crs_lib.core.errors import InputError
from crs_lib.realtalk import corpus, query, training
from crs_lib.realtalk import index as indexes
from crs_lib.realtalk import ranker as rankers
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.ranker import Ranker

KEYS = ("chat", "qa_index", "question", "plan", "candidates", "ranked", "selected", "phases", "timings")


def predict(
    index: ChatIndex,
    ranker: Ranker,
    settings: query.PipelineSettings | None = None,
    model: query.ModelForm | None = None,
    *,
    timings: bool = False,
    questions: int = 0,
) -> Iterator[dict[str, Any]]:
    """One record a question of the chat, in file order; ids instead of positions.

    ``ranked`` holds 200 ids (all of a shorter chat), best first; ``selected`` the evidence of a fact,
    ``phases`` the evidence of a narrative, ``answer`` its text or null, ``trace`` the state after each node.
    ``questions`` asks only the first n (0: all). ``timings`` says how often the retriever was visited, and
    the     seconds of each node only where asked for: without them equal inputs give equal bytes.
    """
    pipeline = query.Pipeline(index, ranker, settings, model)
    asked = index.chat.questions[: questions or None]
    for question, result in zip(asked, pipeline.ask([q.text for q in asked]), strict=True):
        ids = index.chat.ids
        seconds = {name: round(value, 4) for name, value in result.seconds.items()} if timings else None
        yield {
            "chat": index.chat.name,
            "qa_index": question.index,
            "question": question.text,
            "plan": result.plan.to_json(),
            "candidates": ids(result.candidates),
            "ranked": ids(result.ranked),
            "kept": len(result.kept),
            "selected": ids(result.selected),
            "narrative": ids(result.narrative),
            "phases": [phase.to_json() for phase in result.phases],
            "answer": result.answer.to_json(),
            "trace": list(result.trace),
            "timings": {"rounds": result.rounds, "seconds": seconds},
            "made_with": {
                "encoder": index.encoder,
                "tuned": index.tuned,
                "ranker": ranker.name,
                "learnt_from": ranker.origin,
                "selection": pipeline.settings.selection,
                "mode": pipeline.settings.mode,
                "engine": pipeline.engine,
                "forms": pipeline.settings.forms.by_node(),
                "llm": model.name if model else "",
            },
        }


def write(path: Path, records: Iterable[dict[str, Any]]) -> int:
    """Write predictions as JSON lines, whole or not at all; returns their number."""
    return tables.write_jsonl(path, records)


def read(path: Path, chats: Iterable[Chat]) -> list[dict[str, Any]]:
    """The predictions of a file, checked against their chats.

    Raises InputError for a missing key, an unknown chat, or an id that the chat does not have:
    every id must exist, or groundedness is not 1.
    """
    known = {chat.name: chat for chat in chats}
    out = []
    for number, record in enumerate(tables.read_jsonl(path), start=1):
        where = f"{path.name}, line {number}"
        missing = [key for key in KEYS if key not in record]
        if missing:
            raise InputError(f"{where}: keys {missing} are missing; expected {', '.join(KEYS)}")
        chat = known.get(str(record["chat"]))
        if chat is None:
            raise InputError(f"{where}: chat {record['chat']!r} is not among {', '.join(sorted(known))}")
        named = [*record["candidates"], *record["ranked"], *record["selected"]]
        named += [name for phase in record["phases"] for name in phase["ids"]]
        strange = [name for name in named if name not in chat.position]
        if strange:
            raise InputError(f"{where}: {chat.name} has no message {strange[0]!r}")
        out.append(record)
    return out


def choose_encoder(name: str) -> str:
    """``auto`` is the best that is here: MiniLM, with gte-small and a tuned MiniLM beside it, or hashing."""
    if name != "auto":
        return name
    from crs_lib.retrieval import encoders

    if not (encoders.minilm_installed() or encoders.onnx_available("minilm-onnx")):
        return "hashing"
    return indexes.with_updates(indexes.BOTH if encoders.onnx_available("gte-small") else "minilm")


def choose_ranker(
    name: str, index: ChatIndex, folder: Path | None = None, teachers: str = training.OWN
) -> Ranker:
    """``auto`` takes the ranker that comes with the package, unless this chat taught it.

    Then, and where a folder or other teachers are named, it learns from the train chats where these are
    there; else the hand order. Without LightGBM what is learnt is linear. ``hand`` never learns; ``learned``
    raises InputError where it cannot. The chat itself never teaches its own ranker.
    """
    if name not in ("auto", "hand", "learned"):
        raise InputError(f"ranker {name!r} is not known; expected auto, hand or learned")
    if name == "hand":
        return rankers.Hand()
    if name == "learned":
        rankers.need_trees()
    if name == "auto" and folder is None and teachers == training.OWN:
        ready = rankers.shipped(index.encoder)
        if ready and not any(corpus.resembles(index.chat.sketch, taught) for taught in ready[1]):
            return ready[0]
    own_chats, foreign = training.train_chats(folder, teachers)
    found = training.for_chat(index.chat, own_chats, foreign, lambda c: indexes.build(c, index.encoder))
    if name == "learned" and found.name == rankers.Hand.name:
        raise InputError(
            "no training chats were found; set CRS_MIRROR or download them, or use ranker 'hand'"
        )
    return found
