"""What `tgpu doctor` finds out about the place where a server here keeps its facts."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from tgpu.cli import cluster_checks
from tgpu.cli.findings import FAIL, OK, Finding
from tgpu.config import settings as config
from tgpu.config.secret_file import store_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SQLITE = b"SQLite format 3\0"


def of_facts() -> Iterator[Finding]:
    """Where a server here would find its facts, and whether it could use them."""
    try:
        settings = config.load(os.environ)
    except config.SettingsError:
        return  # said before
    try:
        url = store_url(settings)
    except config.SettingsError as error:
        yield Finding("store", FAIL, *_text_and_advice(str(error)))
        return
    if url.startswith(("postgresql:", "postgres:")):
        yield cluster_checks.of_store(url)
        return
    moved = list(of_moved_file(FAIL))
    yield from moved or _database(settings.database)


def _text_and_advice(complaint: str) -> tuple[str, str]:
    """A complaint that ends with the command that removes its cause, in two."""
    text, _, advice = complaint.rpartition("; run: ")
    return (text, advice) if text else (complaint, "run it as the user that runs the server")


def of_moved_file(level: str) -> Iterator[Finding]:
    """After a promotion the settings have to name the database: a server that runs may have been told
    otherwise, the next one that starts is not."""
    try:
        settings = config.load(os.environ)
    except config.SettingsError:
        return  # said before
    moved_to = None if settings.store else _moved_to(settings.database)
    if moved_to is not None:
        text = f"{settings.database} was promoted to {moved_to}, but the settings do not name that database"
        where = settings.home / "tgpu.toml"
        advice = (
            f'put store = "{moved_to}" into {where}; if it needs a password, put the URL with it into a file '
            'of its own (chmod 600), and store = "@FILE"'
        )
        yield Finding("database", level, text, advice)


def _moved_to(path: Path) -> str | None:
    """Looks without touching: SQLite would otherwise change files beside it. None also if it cannot tell."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as file:
            (moved_to,) = file.execute("SELECT moved_to FROM meta").fetchone()
    except (sqlite3.Error, TypeError):
        return None
    return None if moved_to is None else str(moved_to)


def _database(path: Path) -> Iterator[Finding]:
    """Looks without touching, too. An empty one is new."""
    try:
        with path.open("rb") as file:
            head = file.read(len(_SQLITE))
    except OSError:
        return  # there is none yet, or it is another's
    if head not in {b"", _SQLITE}:
        advice = "restore it from a copy, or move it away, with its -wal and -shm, to begin with an empty one"
        yield Finding("database", FAIL, f"{path} is not a SQLite database", advice)
    else:
        yield Finding("database", OK, f"{path} looks like one")
