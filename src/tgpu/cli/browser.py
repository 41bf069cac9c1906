"""Opening of a browser without the address in any process's arguments, which all users can read."""

from __future__ import annotations

import contextlib
import html
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

from tgpu.client import private_folder

_KEEP_S = 60
_STALE_S = 600
_PAGE = """\
<!doctype html>
<html><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={0}"><title>tgpu</title></head>
<body><p><a href="{0}">Open the tgpu dashboard</a></p></body></html>
"""
_REMOVE = "import os, sys, time; time.sleep(float(sys.argv[1])); os.unlink(sys.argv[2])"


def is_available() -> bool:
    """Whether a browser that the user sees can be opened: not over SSH, and not as root."""
    environ = os.environ
    has_display = sys.platform == "darwin" or "DISPLAY" in environ or "WAYLAND_DISPLAY" in environ
    return has_display and "SSH_CONNECTION" not in environ and os.geteuid() != 0


def open_page(url: str) -> bool:
    """Opens a file that leads to the URL and is removed soon. Says whether a browser was started."""
    import webbrowser  # noqa: PLC0415  only where there is a display

    try:
        path = write_redirect(url, _folder())
    except OSError:
        return False
    started = webbrowser.open(path.as_uri())
    subprocess.Popen(
        [sys.executable, "-ISc", _REMOVE, str(_KEEP_S), str(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return started


def _folder() -> Path:
    base = os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tgpu"


def write_redirect(url: str, folder: Path) -> Path:
    """A page that only this user can read. Raises OSError."""
    private_folder.make(folder)
    folder.chmod(0o700)
    for old in folder.glob("signin-*.html"):
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > _STALE_S:
                old.unlink()
    path = folder / f"signin-{secrets.token_hex(8)}.html"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
        file.write(_PAGE.format(html.escape(url)))
    return path
