"""Secrets in files: `@FILE` in place of the secret, in a file that only its owner can read."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from tgpu.config.settings import Settings, SettingsError
from tgpu.config.settings_file import exposed_password

_MOST_BYTES = 64 * 1024
_OTHERS = 0o077


class ExposedFileError(SettingsError):
    """The file can be read by other users."""


def is_file(said: str) -> bool:
    return said.startswith("@")


def read_secret(path: Path, what: str) -> str:
    """The file's one line. Raises SettingsError; ExposedFileError if other users can read the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise SettingsError(f"cannot read {what} in {path}: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & _OTHERS:
            raise ExposedFileError(f"{path} holds {what} and is open to other users; run: chmod 600 {path}")
        try:
            text = file.read(_MOST_BYTES).decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"cannot read {what} in {path}: {error}") from error
    if not text or len(text.splitlines()) > 1:
        raise SettingsError(f"{path} must hold {what} in one line, and nothing else")
    return text


def check_settings_file(environ: Mapping[str, str], home: Path) -> None:
    """Raises ExposedFileError for one that shows the database's password to other users."""
    exposed = exposed_password(environ, home)
    if exposed is not None:
        raise ExposedFileError(exposed)


def store_url(settings: Settings) -> str:
    """The setting `store`, read from its file if that is `@FILE`. Raises SettingsError."""
    return said_url(settings.store, "store")


def said_url(said: str, name: str) -> str:
    """A database's URL that was given as it is, or as `@FILE`. Raises SettingsError."""
    if not is_file(said):
        return said
    path = Path(said[1:])
    if not path.is_absolute():
        raise SettingsError(
            f"{name} names the file {path}: give its whole path, such as @/etc/tgpu/store.url"
        )
    return read_secret(path, "the database's URL")
