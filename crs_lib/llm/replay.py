"""``replay:<run>``: the replies that a run logged, without any model."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from crs_lib.core import paths, safety
from crs_lib.core.errors import RunError
from crs_lib.core.tables import read_jsonl
from crs_lib.llm import calls
from crs_lib.llm.base import BACKENDS, Backend, LLMError, Reply, Request

_STUDY = "movies"  # where the spec names none
_COLUMNS = "text stop tokens_in tokens_out digest thinking probabilities".split()


@BACKENDS.register("replay", argument="a run", example="thesis", kind="offline", choices=True)
class ReplayBackend(Backend):
    """Answers from a run's ``llm_calls.jsonl``: ``replay:thesis``, or ``replay:realtalk/thesis``.

    Without a study it is a run of ``movies``; a name that no run has may be that of a log that comes with the
    package (``data/samples/calls``), e.g. ``replay:smollm2``. ``replay:thesis@ollama:gemma:2b``
    keeps to the calls of one spec, for a run in which several models were asked the same. Only whole texts
    are given back; a call that failed, or whose text the log had to cut, counts as not recorded.
    """

    def __init__(self, argument: str) -> None:
        self.spec = f"replay:{argument}"
        name, _, model = argument.partition("@")
        study, _, run = name.rpartition("/")
        path = paths.run_folder(study or _STUDY, run) / "llm_calls.jsonl"
        if not path.exists() and not study and calls.kept(run).exists():
            path = calls.kept(run)
        if not path.exists():
            writes = "a run with LLM roles writes it when its stage ends"
            raise RunError(f"no {paths.shown(path)} to replay; {writes}")
        rows = [row for row in read_jsonl(path) if not model or row.get("model") == model]
        self._replies = _replies(rows)
        self._without_tools = {row["request"] for row in rows if row.get("error") == "no tools"}

    def digest(self) -> str:
        """The name of the run; each reply carries the digest that was logged."""
        return self.spec

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        """The logged reply to the same request; LLMError for none, or several where no model was named."""
        if request.tools and request.digest in self._without_tools:
            raise LLMError("no tools", f"{self.spec} holds no tool calls: the model could not make any")
        replies = self._replies.get(request.digest, {})
        if len(replies) == 1:
            return next(iter(replies.values()))
        remedy = "name one model" if replies else "seed, options and prompts must be those of the run"
        fault = f"{self.spec} holds {len(replies)} different replies to this {request.role} call"
        raise LLMError("not recorded", f"{fault}; {remedy}")


@safety.reader("a call log")
def _replies(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Reply]]:
    """Reply texts by request; equal texts of several models are one reply."""
    replies: dict[str, dict[str, Reply]] = defaultdict(dict)
    for row in rows:
        if row.get("error") or row.get("text_cut"):
            continue
        record = {name: row[name] for name in _COLUMNS if row.get(name) is not None}
        record["calls"] = row.get("tool_calls") or ()
        reply = calls.REPLY.validate_python(record)
        content = json.dumps([row["text"], reply.calls])
        replies[row["request"]].setdefault(content, reply)
    return dict(replies)
