"""Opens the store that an address names: a file of SQLite, or a database of PostgreSQL."""

from pathlib import Path
from urllib.parse import unquote

from tgpu.store.port import Store, StoreUnusableError
from tgpu.store.sqlite import SqliteStore

_SQLITE = "sqlite://"


async def open_store(where: str | Path, *, cluster_id: str | None = None) -> Store:
    """`cluster_id` is for a new store. Raises StoreUnusableError, or StoreUnavailableError if it may pass."""
    address = str(where)
    scheme, is_url, _ = address.partition("://")
    if isinstance(where, Path) or not is_url:
        return await SqliteStore.open(Path(where), cluster_id=cluster_id)
    if scheme in ("postgresql", "postgres"):
        # Who keeps jobs in a file need not load what speaks to PostgreSQL.
        from tgpu.store.postgres import PostgresStore  # noqa: PLC0415

        return await PostgresStore.open(address, cluster_id=cluster_id)
    if scheme == "sqlite":
        return await SqliteStore.open(_file_of(address), cluster_id=cluster_id)
    raise StoreUnusableError(
        f"the database's address begins with {scheme}://, which is not known: write a path, sqlite:///path or"
        " postgresql://user@host/name"
    )


def _file_of(url: str) -> Path:
    """`sqlite:///x.db` is below the current directory, `sqlite:////x.db` at the root."""
    path = url.removeprefix(_SQLITE)
    if not path.startswith("/") or path == "/":
        raise StoreUnusableError(f"{url} names no file: write sqlite:///path, or the path alone")
    return Path(unquote(path[1:]))
