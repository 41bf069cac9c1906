"""With which name and password a registry is asked: from a file as `docker login` writes it."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HUB = "docker.io"
_HUBS_KEYS = ("https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io")
_LOCAL = "localhost"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Read anew each time: whoever logs in again need not start the agent again."""

    path: Path

    def of(self, image: str) -> Mapping[str, str] | None:
        """For the registry of this image; None if there are none."""
        registry = registry_of(image)
        keys = _HUBS_KEYS if registry == _HUB else (registry, f"https://{registry}", f"http://{registry}")
        entries = self._entries()
        entry = next((entries[key] for key in keys if isinstance(entries.get(key), dict)), None)
        if entry is None:
            return None
        if entry.get("identitytoken"):
            return {"identitytoken": str(entry["identitytoken"]), "serveraddress": registry}
        return _name_and_password(str(entry.get("auth", "")), registry)

    def header(self, image: str) -> str | None:
        """As an engine wants to have them."""
        found = self.of(image)
        return None if found is None else base64.urlsafe_b64encode(json.dumps(found).encode()).decode("ascii")

    def _entries(self) -> Mapping[str, Any]:
        try:
            entries = json.loads(self.path.read_text(encoding="utf-8")).get("auths", {})
        except (OSError, ValueError, AttributeError):  # no such file, or none of that kind: then without
            return {}
        return entries if isinstance(entries, dict) else {}


def registry_of(image: str) -> str:
    """`ghcr.io/team/x` → `ghcr.io`; a name without a registry is Docker Hub's."""
    first, slash, _ = image.partition("/")
    is_host = slash and ("." in first or ":" in first or first == _LOCAL or first != first.lower())
    return first if is_host else _HUB


def _name_and_password(encoded: str, registry: str) -> Mapping[str, str] | None:
    try:
        name, colon, password = base64.b64decode(encoded).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    if not colon:
        return None
    return {"username": name, "password": password.rstrip("\0"), "serveraddress": registry}
