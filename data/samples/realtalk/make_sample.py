# ruff: noqa: D103, E501 -- a script
"""Makes the chats 11 to 13 of ``data/samples/realtalk`` and their cases in ``arcs.json``.

    python data/samples/realtalk/make_sample.py [--out data/samples/realtalk]

Two people tell one another ten stories of ``sample_stories.py`` over six weeks, five each, an episode a day, among
small talk. Everything follows from the seed and that file; both are ours and in the public domain (CC0). Chat 0 was
written by hand and stays as it is.
"""

import argparse
import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sample_stories as told

from crs_lib.core import safety
from crs_lib.core.rng import stream
from crs_lib.core.tables import write_json
from crs_lib.realtalk.arcs import FORMAT

CHATS = (
    (11, "Noor", "Felix", dt.date(2025, 1, 13)),
    (12, "Ayo", "Greta", dt.date(2025, 2, 3)),
    (13, "Lucia", "Hendrik", dt.date(2025, 9, 1)),
)
SESSIONS, DAYS, EACH, SEED = 26, 44, 5, 11
LINE = re.compile(r"^([TL]): (.*?)(?: \^(\w+))?$")
PHOTO = re.compile(r" ?\[([^\]]+)\] ?")


@dataclass
class Story:
    """A story as it is written: slots, episodes of (who, text, tag), questions and phases."""

    slots: dict[str, list[str]] = field(default_factory=dict)
    episodes: list[list[tuple[str, str, str]]] = field(default_factory=list)
    questions: list[list[str]] = field(default_factory=list)
    phases: list[list[str]] = field(default_factory=list)


@dataclass
class Teller:
    """A story as one person tells it in one chat: its values, and where each tag stands."""

    name: str
    story: Story
    person: str
    values: dict[str, str]
    days: list[int]
    ids: dict[str, str] = field(default_factory=dict)
    dates: dict[str, dt.date] = field(default_factory=dict)


def read(text: str) -> Story:
    """A story from its text; ValueError for a line that has no meaning."""
    found = Story()
    for line in text.strip().splitlines():
        if line == "@":
            found.episodes.append([])
        elif match := LINE.match(line):
            found.episodes[-1].append((match[1], match[2], match[3] or ""))
        elif line[:2] in ("? ", "~ "):
            parts = [part.strip() for part in line[2:].split("|")]
            (found.questions if line[0] == "?" else found.phases).append(parts)
        elif match := re.match(r"^(\w+): (.+)$", line):
            found.slots[match[1]] = [part.strip() for part in match[2].split("|")]
        else:
            raise ValueError(f"no line of a story: {line!r}")
    return found


def spoken(day: dt.date) -> str:
    """A day as people write it in a chat."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10 if day.day not in (11, 12, 13) else 0, "th")
    return f"the {day.day}{ending} of {day:%B}"


def filled(text: str, values: dict[str, str], today: dt.date) -> str:
    """A line with its slots and days filled in; a slot that opens it begins with a capital."""
    out = re.sub(r"\{ago:(\d+)\}", lambda m: f"on {today - dt.timedelta(int(m[1])):%A}", text)
    out = re.sub(r"\bon on\b", "on", out)
    out = re.sub(r"\{in:(\d+)\}", lambda m: spoken(today + dt.timedelta(int(m[1]))), out)
    out = re.sub(r"\{(\w+)\}", lambda m: values[m[1]], out)
    return re.sub(r"(^|[.!?] )([a-z])", lambda m: m[1] + m[2].upper(), out)


def answered(text: str, teller: Teller) -> str:
    """A question or an answer with the teller's name, the values and the days filled in."""

    def day(match: re.Match[str]) -> str:
        found = teller.dates[match[1]] + dt.timedelta(int(match[2] or 0))
        return f"{found.day} {found:%B %Y}"

    out = re.sub(r"\{date:(\w+?)([+-]\d+)?\}", day, text)
    out = re.sub(r"\{(\w+)\}", lambda m: {"T": teller.person, **teller.values}[m[1]], out)
    return out[:1].upper() + out[1:]


def tellers(rng: np.random.Generator, chat: int, people: Sequence[str]) -> list[Teller]:
    """Ten stories and who tells them; a story that comes again in another chat has other values."""
    names = [list(told.STORIES)[i] for i in rng.permutation(len(told.STORIES))[: 2 * EACH]]
    found = []
    for i, name in enumerate(names):
        story = read(told.STORIES[name])
        values = {
            slot: options[(chat + j) % len(options)] for j, (slot, options) in enumerate(story.slots.items())
        }
        days = sorted(rng.choice(SESSIONS, size=len(story.episodes), replace=False).tolist())
        found.append(Teller(name, story, people[i % 2], values, days))
    return found


def session(
    rng: np.random.Generator,
    number: int,
    when: dt.datetime,
    parts: Sequence[tuple[Teller, int]],
    people: Sequence[str],
) -> list[dict[str, Any]]:
    """The messages of a session: small talk first, then episodes, small talk between some of them."""
    out: list[dict[str, Any]] = []

    def say(speaker: str, text: str) -> str:
        nonlocal when
        when += dt.timedelta(seconds=int(rng.integers(20, 200)))
        caption = PHOTO.search(text)
        name = f"D{number}:{len(out) + 1}"
        picture = f"photo_{number}_{len(out) + 1}"
        out.append({
            "clean_text": PHOTO.sub(" ", text).strip(), "speaker": speaker, "dia_id": name,
            "date_time": f"{when:%d.%m.%Y, %H:%M:%S}", "img_url": [],
            "img_file": [f"{picture}.jpg", f"{picture}_opt.jpg"] if caption else [],
            **({"blip_caption": caption[1]} if caption else {}),
        })  # fmt: skip
        return name

    def chatter() -> None:
        first = int(rng.integers(2))
        for line in told.SMALL_TALK[int(rng.integers(len(told.SMALL_TALK)))].split("|"):
            say(people[first if line[0] == "A" else 1 - first], line[3:])

    chatter()
    for teller, episode in parts:
        for who, text, tag in teller.story.episodes[episode]:
            speaker = teller.person if who == "T" else next(p for p in people if p != teller.person)
            name = say(speaker, filled(text, teller.values, when.date()))
            if tag:
                teller.ids[tag], teller.dates[tag] = name, when.date()
        if rng.random() < 0.6:
            chatter()
    return out


def chat(number: int, people: Sequence[str], start: dt.date) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A chat in RealTalk's schema, and its cases."""
    rng = stream(SEED, "realtalk", "sample", number)
    found = tellers(rng, number, people)
    dates = sorted(rng.choice(DAYS, size=SESSIONS, replace=False).tolist())
    record: dict[str, Any] = {"name": {"speaker_1": people[0], "speaker_2": people[1]}}
    for n, after in enumerate(dates):
        hour, minute = int(rng.integers(8, 22)), int(rng.integers(60))
        when = dt.datetime.combine(start + dt.timedelta(after), dt.time(hour, minute))
        parts = [(teller, teller.days.index(n)) for teller in found if n in teller.days]
        messages = session(rng, n + 1, when, parts, people)
        record |= {
            f"session_{n + 1}_date_time": messages[0]["date_time"], f"session_{n + 1}": messages,
            f"events_session_{n + 1}": {person: [] for person in people},
        }  # fmt: skip
    asked, cases = [], []
    for teller in found:
        for category, question, answer, tags in teller.story.questions:
            asked.append({
                "question": answered(question, teller), "answer": answered(answer, teller),
                "evidence": [teller.ids[tag] for tag in tags.split()], "category": int(category),
            })  # fmt: skip
        cases.append({
            "name": f"{teller.person}-{teller.name}", "chat": f"Chat_{number}_{people[0]}_{people[1]}",
            "question": answered(teller.story.questions[0][1], teller),
            "phases": [
                {"title": title, "ids": [teller.ids[tag] for tag in tags.split()]}
                for title, tags in teller.story.phases
            ],
        })  # fmt: skip
    return record | {"qa": asked}, cases


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    out = parser.parse_args().out
    kept = [
        c
        for c in safety.read_object(Path(__file__).with_name("arcs.json"))["cases"]
        if c["chat"].startswith("Chat_0_")
    ]
    for number, one, two, start in CHATS:
        record, cases = chat(number, (one, two), start)
        write_json(out / f"Chat_{number}_{one}_{two}.json", record)
        kept += cases
    write_json(out / "arcs.json", {"format": FORMAT, "cases": kept})


if __name__ == "__main__":
    main()
