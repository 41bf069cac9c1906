"""Which file settings are read from, and whether a password in it can be read by others."""

import re
import stat
from collections.abc import Mapping
from pathlib import Path

SYSTEM_CONFIG = Path("/etc/tgpu/tgpu.toml")
_PASSWORD = re.compile(r"""^\s*store\s*=\s*["'][^"']*(://[^/@"']*:[^@"']+@|[?&]password=)""", re.MULTILINE)


def settings_file(environ: Mapping[str, str], home: Path) -> Path | None:
    """The first that there is; one that TGPU_CONFIG names need not be there."""
    said = environ.get("TGPU_CONFIG")
    if said:
        return Path(said)
    return next((path for path in (home / "tgpu.toml", SYSTEM_CONFIG) if path.is_file()), None)


def exposed_password(environ: Mapping[str, str], home: Path) -> str | None:
    """What to say of a file that shows the database's password to more than its owner; None: nothing."""
    path = settings_file(environ, home)
    try:
        if path is None or not path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            return None
        if _PASSWORD.search(path.read_text(encoding="utf-8")) is None:
            return None
    except (OSError, UnicodeDecodeError):
        return None  # whoever reads it as settings says so
    return f"{path} holds the database's password and can be read by others: chmod 600 {path}"
