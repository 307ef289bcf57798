"""The models of a run: one LLM for each spec, with the run's call cache and call log, shared by threads."""

import os
import tempfile
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from crs_lib.core import paths
from crs_lib.core.errors import RunError
from crs_lib.llm.base import BACKENDS, Reply, Request
from crs_lib.llm.cache import Cache
from crs_lib.llm.calls import Recorder
from crs_lib.llm.client import LLM
from crs_lib.llm.errors import LLMError
from crs_lib.llm.settings import Service

CACHE, LOG = "llm_cache.sqlite", "llm_calls.sqlite"


def scratch(name: str) -> Path:
    """A folder of this user on this machine's own disk, for workers that share no disk with the run.

    ``CRS_SCRATCH`` names where; otherwise the system's temporary folder.
    """
    user = os.getuid() if hasattr(os, "getuid") else "user"
    folder = Path(os.environ.get("CRS_SCRATCH") or tempfile.gettempdir()) / f"crs-{user}" / paths.slug(name)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def drain_scratch(name: str) -> list[tuple[str, str]]:
    """The rows of the call log in :func:`scratch`, which are then gone from it."""
    path = scratch(name) / LOG
    if not path.exists():
        return []
    recorder = Recorder(path)
    try:
        return recorder.drain()
    finally:
        recorder.close()


class Pool:
    """One LLM for each spec, made when it is first asked; cache and log lie in ``folder``.

    Safe to share between threads. ``made`` are LLMs given ready (scripted ones). With ``folder`` None
    nothing is cached and nothing is logged.
    """

    def __init__(
        self, folder: Path | None, service: Service | None = None, made: Mapping[str, LLM] | None = None
    ) -> None:
        self.service = service or Service()
        self.cache = Cache(folder / CACHE) if folder else None
        self.recorder = Recorder(folder / LOG) if folder else None
        self._made = dict(made or {})
        self._lock = threading.Lock()
        self._halted = threading.Event()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, spec: str) -> LLM:
        """The LLM of a spec; InputError for one that no backend knows, RunError after :meth:`halt`."""
        if self._halted.is_set():
            raise RunError("the run was stopped before this call; started again, it continues")
        with self._lock:
            if spec not in self._made:
                self._made[spec] = LLM(
                    spec, cache=self.cache, recorder=self.recorder, retry=self.service.retry,
                    slots=self.service.at_once, weights=self.service.weights.get(spec, ""),
                    **self.service.settings_for(spec),
                )  # fmt: skip
            return self._made[spec]

    def complete(self, spec: str, request: Request) -> Reply:
        """The reply of a model; raises LLMError, and RunError after :meth:`halt`."""
        return self(spec).complete(request)

    def width(self, specs: Iterable[str]) -> int:
        """How many sessions at once keep all slots of these models' servers busy; at least 1.

        An engine in this process answers one call at a time, so its sessions come one after the other.
        """
        served = [spec for spec in specs if BACKENDS.get(spec).facts["kind"] != "engine"]
        return max((self.service.at_once * len(self(spec).backend.endpoints) for spec in served), default=1)

    def halt(self) -> None:
        """Refuse all further calls and end pauses, so that threads which call come to an end."""
        self._halted.set()
        for llm in list(self._made.values()):
            llm.halt()

    def release(self, spec: str) -> None:
        """Free a model's memory on its servers; a server that is gone by then is no error."""
        with suppress(LLMError):
            if spec in self._made:
                self._made[spec].unload()

    def close(self) -> None:
        """Close connections and files; using the pool afterwards opens them again."""
        with self._lock:
            for llm in self._made.values():
                llm.close()
        for kept in (self.cache, self.recorder):
            if kept is not None:
                kept.close()
