"""One notebook file executed by papermill in a fresh kernel of the running environment."""

import asyncio
import contextlib
import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crs_lib.core import lean, paths, progress
from crs_lib.core.errors import InputError, RunError

if TYPE_CHECKING:
    from jupyter_client.manager import AsyncKernelManager

PREFIX = "CRS_PREFIX"
_TIDY = 1.0  # seconds that an interrupted cell has to store what is finished
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def execute(
    source: Path,
    out: Path,
    values: Mapping[str, Any],
    variables: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> None:
    """Run ``source`` with these parameters and write the executed notebook to ``out``.

    ``variables`` are added to the kernel's environment; ``folder`` is the kernel's working folder (None: the
    current one). A failing cell raises InputError or RunError with one plain text. The notebook up to that
    cell is then stored beside ``out`` as ``<name>.failed.ipynb``, and an earlier ``out`` is untouched.
    ``values`` are not checked here.
    """
    with lean.without_iris():
        import papermill
        from nbclient.exceptions import DeadKernelError

    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # its errors are raised as well
    failed = out.with_name(f"{out.stem}.failed.ipynb")
    started: list[int] = []
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="crs-", ignore_cleanup_errors=True) as settings:
            manager = _kernel_of_this_environment(_environment(settings, variables), started)
            _interruptibly(
                lambda: papermill.execute_notebook(
                    _literal(source),
                    _literal(failed),
                    dict(values),
                    kernel_name="python3",
                    progress_bar=False,
                    start_timeout=300,  # a busy machine may take its time over a kernel's imports
                    cwd=folder,
                    kernel_manager_class=manager,
                    extra_arguments=["--log-level=50"],
                ),
                started,
            )
        failed.replace(out)
    except papermill.PapermillExecutionError as error:
        raise _plain(error, source, failed) from None
    except DeadKernelError as error:
        raise RunError(
            f"{source.stem}: its Python process ended without an answer, often for want of memory; "
            "what was finished is stored, the same command continues"
        ) from error
    except OSError as error:
        raise RunError(f"{source.stem}: could not write {paths.shown(out)} ({error})") from error


def _interruptibly(do: Callable[[], object], kernels: list[int]) -> None:
    """Do the work in a thread: papermill would take Ctrl-C for itself and wait for the cell.

    An interrupt goes on to the kernel, whose cell may store what is finished; then it is raised here.
    """
    outcome: Future[None] = Future()

    def work() -> None:
        try:
            do()
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(None)

    thread = threading.Thread(target=work, name="notebook", daemon=True)
    thread.start()
    try:
        outcome.result()
    except KeyboardInterrupt:
        for kernel in kernels:
            with contextlib.suppress(ProcessLookupError):
                os.kill(kernel, signal.SIGINT)
        thread.join(_TIDY)
        for kernel in kernels:
            with contextlib.suppress(ProcessLookupError):
                os.kill(kernel, signal.SIGKILL)
        raise


def _literal(path: Path) -> str:
    """The path with doubled braces: papermill reads single braces as names of parameters."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _environment(settings: str, variables: Mapping[str, str] | None) -> dict[str, str]:
    """The kernel's environment: this process's, plus the package on the path, without personal settings."""
    plain = {name: value for name, value in os.environ.items() if name != "JPY_SESSION_NAME"}
    found = [str(paths.ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    return {
        **plain,
        "PYTHONPATH": os.pathsep.join(found),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "IPYTHONDIR": settings,
        PREFIX: sys.prefix,
        progress.VARIABLE: os.environ.get(progress.VARIABLE) or progress.terminal() or progress.OFF,
        **(variables or {}),
    }


def _kernel_of_this_environment(
    environment: dict[str, str], started: list[int]
) -> "type[AsyncKernelManager]":
    """A kernel manager whose ``python3`` is this interpreter; installed kernels of that name are ignored.

    The numbers of the processes that it starts are added to ``started``.
    """
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    def handle_unawaited(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report errors of abandoned tasks, except that of the cell that Ctrl-C interrupted."""
        if not isinstance(context.get("exception"), CellExecutionError | DeadKernelError):
            loop.default_exception_handler(context)

    class OwnKernel(AsyncKernelManager):
        def __init__(self, **options: Any) -> None:
            super().__init__(kernel_spec_manager=KernelSpecManager(kernel_dirs=[]), **options)

        async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
            asyncio.get_running_loop().set_exception_handler(handle_unawaited)
            await super().start_kernel(**{**options, "env": environment})
            started.extend(filter(None, [getattr(self.provisioner, "pid", None)]))

    return OwnKernel


def _plain(error: Any, source: Path, out: Path) -> InputError | RunError:
    """The failing cell's error as one plain text with the notebook's name and where the notebook is kept."""
    kept = f"(the notebook as far as it came: {paths.shown(out)})"
    if error.ename == "InputError":
        return InputError(f"{source.stem}: {error.evalue}\n{kept}")
    if error.ename == "RunError":
        return RunError(f"{source.stem}: {error.evalue}\n{kept}")
    line = _failing_line(error)
    text = _COLOUR.sub("", str(error.evalue)).strip() or "no message"
    return RunError(f"{source.stem}, cell [{error.exec_count}]: {error.ename}: {text}{line}\n{kept}")


def _failing_line(error: Any) -> str:
    """The line of the cell that failed, if the traceback marks one with an arrow."""
    with contextlib.suppress(StopIteration):
        lines = _COLOUR.sub("", "\n".join(error.traceback)).splitlines()
        arrow = next(line for line in lines if re.match(r"-+> \d+ ", line))
        return f"\n  at: {arrow.split(' ', 2)[2].strip()}"
    return ""
