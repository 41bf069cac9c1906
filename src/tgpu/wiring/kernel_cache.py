"""Where compiled code is kept between runs: `python -m tgpu.wiring.kernel_cache` fills it."""

import hashlib
import inspect
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tgpu.core.engine import MODULES, Engine, compiled
from tgpu.core.exercise import exercise
from tgpu.core.kernel import shapes


def fingerprint() -> str:
    """Of the kernel's source: code made from other source is kept elsewhere, and never taken for this."""
    digest = hashlib.sha256()
    for module in (*MODULES, shapes):
        digest.update(Path(inspect.getfile(module)).read_bytes())
    return digest.hexdigest()[:16]


def directory(environ: Mapping[str, str]) -> Path | None:
    """The first that can be written to: beside the installation, or in the user's cache; else None."""
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
    """The compiled engine, all of it in memory: in a second from the cache, in a minute without one."""
    path = directory(environ)
    engine = compiled(None if path is None else str(path))
    exercise(engine)
    return engine


def main() -> int:
    path = directory(os.environ)
    if path is None:
        print("tgpu: nowhere to keep compiled code: every server of a cluster will compile it at its start")
        return 0
    load(os.environ)
    return 0


if __name__ == "__main__":
    sys.exit(main())
