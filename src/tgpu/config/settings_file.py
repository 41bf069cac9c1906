"""Which file settings are read from, and whether a password in it can be read by others."""

import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tgpu.config.url_password import has_password

SYSTEM_CONFIG = Path("/etc/tgpu/tgpu.toml")


def settings_file(environ: Mapping[str, str], home: Path) -> Path | None:
    """The first that there is; one that TGPU_CONFIG names need not be there."""
    said = environ.get("TGPU_CONFIG")
    if said:
        return Path(said)
    return next((path for path in (home / "tgpu.toml", SYSTEM_CONFIG) if path.is_file()), None)


def exposed_password(environ: Mapping[str, str], home: Path) -> str | None:
    """The complaint about a settings file that shows the database's password to other users; None: none."""
    path = settings_file(environ, home)
    try:
        if path is None or not path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            return None
        store = tomllib.loads(path.read_text(encoding="utf-8")).get("store")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return None  # reported when it is read as settings
    if not isinstance(store, str) or not has_password(store):
        return None
    return f"{path} holds the database's password and can be read by other users: chmod 600 {path}"
