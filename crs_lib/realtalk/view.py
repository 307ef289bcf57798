"""The trace of one question as a page: what was asked, what was kept, where each gold message went."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from crs_lib.core.text import shorten
from crs_lib.metrics import evidence
from crs_lib.realtalk import readings
from crs_lib.realtalk.corpus import Chat

_COLOURS = {
    "kept": "#cdeadf",
    "lost at selection": "#fbe0b2",
    "lost at reranking": "#f7d3e5",
    "lost at candidates": "#f9cdbb",
    "not gold": "#fff",
}


@dataclass(frozen=True)
class Trace:
    """One prediction beside its chat and gold; shows itself in JupyterLab, prints as text."""

    chat: Chat
    record: Mapping[str, Any]
    reading: str = readings.VALID

    def rows(self) -> pd.DataFrame:
        """One row a gold message: id, rank as candidate, rank after re-ranking, whether kept, bucket.

        Ranks count from 1; null where the message is not in that checkpoint.
        """
        place = self.chat.position
        candidates = [place[i] for i in self.record["candidates"]]
        ranked = [place[i] for i in self.record["ranked"]][: int(self.record["kept"])]
        chosen = {place[i] for i in self.record["selected"]}
        out = []
        for gold in self._gold():
            out.append({
                "id": self.chat.messages[gold].id,
                "speaker": self.chat.messages[gold].speaker,
                "candidates": candidates.index(gold) + 1 if gold in candidates else None,
                "re-ranked": ranked.index(gold) + 1 if gold in ranked else None,
                "kept": gold in chosen,
                "bucket": evidence.bucket(gold, candidates, ranked, chosen),
            })  # fmt: skip
        columns = ["id", "speaker", "candidates", "re-ranked", "kept", "bucket"]
        return pd.DataFrame(out, columns=columns).astype({"candidates": "Int64", "re-ranked": "Int64"})

    def _gold(self) -> Sequence[int]:
        for question in self.chat.questions:
            if question.index == self.record["qa_index"]:
                return readings.evidence(self.chat, question, self.reading).positions
        return ()

    def to_html(self) -> str:
        """The page: question and plan, selected messages, gold that was lost, phases; all texts escaped."""
        buckets = dict(zip(self.rows()["id"], self.rows()["bucket"], strict=True))
        kept = [name for name in self.record["selected"] if name in self.chat.position]
        lost = [name for name, bucket in buckets.items() if bucket != "kept"]
        plan = self.record["plan"]
        told = html.escape(f"{plan['kind']} · {', '.join(plan['speakers']) or 'nobody named'}")
        searched = html.escape(plan["first_person"])
        parts = [
            f"<h4>{html.escape(self.record['question'])}</h4><div>{told} · searched as “{searched}”</div>",
            self._table("kept as evidence", kept, buckets),
        ]
        if lost:
            parts.append(self._table("gold that was lost", lost, buckets))
        for phase in self.record["phases"]:
            when = " – ".join(str(t)[:10] for t in (phase["start"], phase["end"]) if t)
            parts.append(self._table(f"{phase['title']} ({when})", phase["ids"], buckets))
        return f'<div style="max-width:860px;font-size:14px">{"".join(parts)}</div>'

    def _table(self, title: str, names: Sequence[str], buckets: Mapping[str, str]) -> str:
        rows = "".join(self._row(name, buckets.get(name, "not gold")) for name in names)
        return f'<div style="margin-top:8px;font-weight:600">{html.escape(title)}</div><table>{rows}</table>'

    def _row(self, name: str, bucket: str) -> str:
        message = self.chat.messages[self.chat.position[name]]
        photo = f" [photo: {message.caption}]" if message.photo else ""
        text = html.escape(shorten(message.text, 600) + photo)
        cells = (html.escape(name), html.escape(message.speaker), text, bucket)
        style = f'style="background:{_COLOURS[bucket]};color:#111"'
        return f"<tr {style}>" + "".join(f'<td style="text-align:left">{c}</td>' for c in cells) + "</tr>"

    def _repr_html_(self) -> str:
        return self.to_html()

    def __repr__(self) -> str:
        return f"{self.record['question']}\n{self.rows().to_string(index=False)}"


def page(traces: Sequence[Trace]) -> str:
    """One HTML document of several traces."""
    body = "<hr>".join(trace.to_html() for trace in traces)
    return f'<!doctype html><meta charset="utf-8"><title>RealTalk traces</title><body>{body}</body>'
