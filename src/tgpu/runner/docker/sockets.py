"""Where this node's container engine listens: as the settings say, else where engines usually do."""

import os
from collections.abc import Mapping
from pathlib import Path

OFF = "off"
AUTO = "auto"
_EVERYBODYS = ("/var/run/docker.sock", "/run/podman/podman.sock")


def address(said: str, environ: Mapping[str, str]) -> str | None:
    """As a URL, such as `unix:///var/run/docker.sock`; None if there is none, or none is wanted."""
    if said == OFF:
        return None
    if said != AUTO:
        return said
    if environ.get("DOCKER_HOST"):
        return environ["DOCKER_HOST"]
    return next((f"unix://{path}" for path in _candidates(environ) if Path(path).is_socket()), None)


def _candidates(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The user's own engine comes first: what root offers, most users may not use."""
    own = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    if os.geteuid() == 0:
        return _EVERYBODYS
    return (f"{own}/docker.sock", f"{own}/podman/podman.sock", *_EVERYBODYS)
