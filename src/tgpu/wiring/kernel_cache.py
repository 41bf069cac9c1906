"""Cache of the planner's compiled kernel on disk. `python -m tgpu.wiring.kernel_cache` fills it.

Compiling takes about two minutes of one core, so a process of its own does it and reports its progress,
and only for clusters: see `kernel_keeper`.
"""

import hashlib
import inspect
import os
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tgpu.core.engine import MODULES, PLAIN, Engine, compiled
from tgpu.core.exercise import exercise
from tgpu.core.kernel import shapes

BACKGROUND = "--background"
"""Argument of a process that compiles beside a running server: at low priority."""
_NICENESS = 10
_PROGRESS_EVERY_S = 2.0


def fingerprint() -> str:
    """Digest of the kernel's source. Code compiled from other source is kept in another folder."""
    digest = hashlib.sha256()
    for module in (*MODULES, shapes):
        digest.update(Path(inspect.getfile(module)).read_bytes())
    return digest.hexdigest()[:16]


def directory(environ: Mapping[str, str]) -> Path | None:
    """The first writable folder: beside the installation, or in the user's cache; None if neither is."""
    base = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "/nonexistent") / ".cache"
    for parent in (Path(sys.prefix) / "share" / "tgpu" / "kernel", Path(base) / "tgpu" / "kernel"):
        path = parent / fingerprint()
        if _writable(path):
            return path
    return None


def _writable(path: Path) -> bool:
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return True
    except OSError:
        return False


def load(environ: Mapping[str, str]) -> Engine:
    """The compiled engine, complete and in memory: within seconds from the cache, in minutes without one."""
    path = directory(environ)
    engine = compiled(None if path is None else str(path))
    exercise(engine)
    return engine


@contextmanager
def _progress(names: Collection[str], report: Callable[[str], None]) -> Iterator[None]:
    """Reports how many of the kernel's functions have been compiled, at most every few seconds."""
    from numba.core import event  # noqa: PLC0415  only the process that compiles loads it

    compiled_names: set[str] = set()
    reported_s = time.monotonic()

    class Listener(event.Listener):
        def on_start(self, _event: object) -> None:
            """Only ends are counted."""

        def on_end(self, ended: event.Event) -> None:
            nonlocal reported_s
            compiled_names.add(ended.data["dispatcher"].py_func.__name__)
            done = len(compiled_names.intersection(names))
            if time.monotonic() - reported_s >= _PROGRESS_EVERY_S:
                reported_s = time.monotonic()
                report(f"{done} of {len(names)} functions")

    with event.install_listener("numba:compile", Listener()):
        yield


def main() -> int:
    if BACKGROUND in sys.argv[1:]:
        os.nice(_NICENESS)
    if directory(os.environ) is None:
        print("no writable folder for compiled code: set XDG_CACHE_HOME to one, or make .venv writable")
        return 1
    with _progress(
        vars(PLAIN).keys(), lambda text: print(f"compiling the planner's kernel: {text}", flush=True)
    ):
        load(os.environ)
    return 0


if __name__ == "__main__":
    sys.exit(main())
