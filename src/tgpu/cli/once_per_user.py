"""Note about a private /tmp, shown once to each user.

That it was shown is remembered by an empty file in the user's own cache directory.
"""

# pathlib costs 7 ms of every start:
# ruff: noqa: PTH103, PTH110, PTH116, PTH118, PTH120

from __future__ import annotations

import os

from tgpu.cli.screen import note

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable

MARKER = "private-tmp-noted"


def tell(text: str, *, quiet: bool, say: Callable[[str], None] = note) -> None:
    """`text`: what the server has to say about the job's /tmp; empty: nothing."""
    if not text or quiet:
        return
    marker = _marker()
    if marker is not None and os.path.exists(marker):
        return
    say(text)
    if marker is not None:
        _remember(marker)


def _marker() -> str | None:
    """None: there is no directory of this user's own. Under sudo, HOME may be another user's."""
    home = os.environ.get("HOME") or ""
    try:
        if os.stat(home).st_uid != os.geteuid():
            return None
    except OSError:
        return None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    return os.path.join(base, "tgpu", MARKER)


def _remember(marker: str) -> None:
    """Where that fails, the note is shown again."""
    try:
        os.makedirs(os.path.dirname(marker), 0o700, exist_ok=True)
        os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
    except OSError:
        return
