"""Which databases this version can work on, by the revision of their tables.

A newer version's database is accepted if that version says so: it keeps in the database the oldest revision
whose servers may go on using it. So servers of two versions can run at the same time, while one after the
other is replaced.
"""

from tgpu.store.port import StoreUnusableError

HEAD = "0015"
"""The newest revision below `migrations/versions`: a database that is there is opened without Alembic."""


OLDEST_BESIDE = "0013"
"""What migrations leave as `oldest_server`: a server of an older revision must not work beside this one."""


def must_be_upgraded(revision: str | None, oldest_server: str | None, shown: str) -> bool:
    """`revision` is None for an empty database. Raises StoreUnusableError if it is too new."""
    if revision is None or revision < HEAD:
        return True
    if revision > HEAD and (oldest_server or revision) > HEAD:
        raise StoreUnusableError(
            f"{shown} was written by a newer version of tgpu (revision {revision}): install that version or a"
            " newer one"
        )
    return False
