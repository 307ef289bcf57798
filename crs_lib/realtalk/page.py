"""The page of a chat: questions with arcs, threads, and the messages by segment."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, Template

from crs_lib.realtalk.corpus import ChatMessage
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.scoring import Record

_LABELLED = 3  # words of a thread


@dataclass(frozen=True)
class _SegmentView:
    """A segment as the page shows it: its day, words, messages, and the number of its thread or None."""

    number: int
    day: str
    label: tuple[str, ...]
    messages: tuple[ChatMessage, ...]
    thread: int | None


@dataclass(frozen=True)
class _ThreadView:
    """A thread as the page shows it: its commonest label words and its segments."""

    words: list[str]
    segments: list[_SegmentView]


def sections(index: ChatIndex, records: Sequence[Record]) -> list[tuple[str, str, str]]:
    """The parts of a chat's page as (title, anchor, HTML): questions with arcs, threads, and the messages.
    ``records`` are the predictions for the chat; all texts are escaped, ids and threads lead to messages.
    """
    segments = _segments(index)
    threads = [_thread(segments, thread) for thread in index.threads]
    template = _template()
    questions = template.render(part="questions", records=records)
    listed = template.render(part="threads", threads=threads)
    messages = template.render(part="messages", segments=segments)
    return [
        (f"Questions and arcs ({len(records)})", "questions", questions),
        (f"Threads ({len(threads)})", "threads", listed),
        (f"Segments and messages ({len(segments)}, {index.size})", "messages", messages),
    ]


@cache
def _template() -> Template:
    return Environment(loader=PackageLoader("crs_lib.realtalk", ""), autoescape=True).get_template(
        "chat.html"
    )


def _segments(index: ChatIndex) -> list[_SegmentView]:
    """Each segment of a chat as the page shows it, with the number of its thread."""
    thread_of: dict[int, int] = {}
    for number, thread in enumerate(index.threads):
        thread_of.update(dict.fromkeys(thread, number))
    views = []
    for number, segment in enumerate(index.segments):
        messages = index.chat.messages[segment.start : segment.end]
        views.append(_SegmentView(number, _day(messages[0]), segment.label, messages, thread_of.get(number)))
    return views


def _thread(segments: Sequence[_SegmentView], numbers: Sequence[int]) -> _ThreadView:
    """A thread as the page shows it: its segments, and the words that most of their labels share."""
    own = [segments[number] for number in numbers]
    counts: Counter[str] = Counter()
    for segment in own:
        counts.update(segment.label)
    return _ThreadView([word for word, _ in counts.most_common(_LABELLED)], own)


def _day(message: ChatMessage) -> str:
    return f"{message.time:%d %B %Y}" if message.time else f"session {message.session}"
