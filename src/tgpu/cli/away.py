"""Says once that the server is away, and not every second."""

from __future__ import annotations

import time

from tgpu.cli.screen import note

_PATIENCE_S = 3.0
_FORGET_S = 30.0


class AwayNotes:
    """Called at each failed try to reach the server: a short restart is passed over in silence."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._latest = 0.0
        self._said = False

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if self._since is None or now - self._latest > _FORGET_S:
            self._since, self._said = now, False
        self._latest = now
        if not self._said and now - self._since >= _PATIENCE_S:
            note(f"{text}; still waiting, jobs go on meanwhile")
            self._said = True
