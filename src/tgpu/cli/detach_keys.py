"""The keys that lead out of a job's terminal: found in what is typed, and kept from the job."""

from __future__ import annotations

from tgpu.cli.exits import UsageError

DEFAULT = "ctrl-p,ctrl-q"
_CONTROL = "@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_"


def parse(text: str) -> bytes:
    """`ctrl-p,ctrl-q` as it is typed; empty for `none`."""
    if text == "none":
        return b""
    return b"".join(_key(key) for key in text.split(","))


def _key(key: str) -> bytes:
    prefix, _, name = key.rpartition("-")
    if len(key) == 1 and key.isascii() and key.isprintable():
        return key.encode()
    if prefix.lower() == "ctrl" and len(name) == 1 and name.upper() in _CONTROL:
        return bytes((_CONTROL.index(name.upper()),))
    raise UsageError(
        "--detach-keys must be keys with commas between them, such as ctrl-p,ctrl-q or ctrl-], or none; "
        f"got {key!r}"
    )


class DetachKeys:
    """What may be their beginning is held back until the next key is known."""

    def __init__(self, keys: bytes) -> None:
        self._keys = keys
        self._held = b""
        self.found = False

    def pass_on(self, typed: bytes) -> bytes:
        """What of it, and of what was held back, is for the job."""
        if not self._keys:
            return typed
        data, self._held = self._held + typed, b""
        at = data.find(self._keys)
        if at >= 0:
            self.found = True
            return data[:at]
        for length in range(min(len(self._keys) - 1, len(data)), 0, -1):
            if data.endswith(self._keys[:length]):
                self._held = data[-length:]
                return data[:-length]
        return data
