"""A server on a real SQLite file, and people with roles, each with a token."""

import asyncio
import atexit
import pwd
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from tests.api.conftest import ServerUnderTest, serving
from tgpu.api.accounts import Accounts
from tgpu.api.authenticators import digest_of, new_token
from tgpu.domain.access import EVERYWHERE, Actor, Member, Role
from tgpu.domain.tenant import Tenant
from tgpu.protocol.job_keys import JobKeys
from tgpu.store.access_port import Token
from tgpu.store.sqlite import SqliteStore

SERVER = Actor("root", "server")
FIRST_UID = 60_001
KEYS = JobKeys(b"of this house")


class People:
    """Accounts that there are for this server alone."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._later_s = 0.0

    def add(self, name: str) -> None:
        if name not in self._names:
            self._names.append(name)

    def remove(self, name: str) -> None:
        """A minute later: what was found before is known for a while."""
        self._names[self._names.index(name)] = ""
        self._later_s += 60

    def clock(self) -> float:
        return time.monotonic() + self._later_s

    def by_name(self, name: str) -> pwd.struct_passwd:
        if name in self._names:
            return self._row(self._names.index(name))
        return pwd.getpwnam(name)

    def by_uid(self, uid: int) -> pwd.struct_passwd:
        if FIRST_UID <= uid < FIRST_UID + len(self._names):
            return self._row(uid - FIRST_UID)
        return pwd.getpwuid(uid)

    def _row(self, index: int) -> pwd.struct_passwd:
        uid = FIRST_UID + index
        return pwd.struct_passwd((self._names[index], "x", uid, uid, "", "/tmp", "/bin/sh"))


class House:
    def __init__(self, server: ServerUnderTest, people: People, database: Path) -> None:
        self.server, self._people, self.database = server, people, database
        self._clients: list[httpx.Client] = []

    def tenants(self, *names: str, **more: Any) -> None:
        for name in names:
            self.server.run(self.server.store.create_tenant(Tenant(name, **more), SERVER, 1))
        self.read_again()

    def person(self, name: str, role: Role | None = None, tenant_id: str = EVERYWHERE) -> str:
        """Somebody with an account, and with that role there."""
        self._people.add(name)
        if role is not None:
            self.server.run(self.server.store.set_member(Member(name, tenant_id, role, "root", 1), SERVER, 1))
            self.read_again()
        return name

    def gone(self, name: str) -> None:
        """Their account is removed."""
        self._people.remove(name)

    def read_again(self) -> None:
        """A server that makes every change itself need not look; here the test made it behind its back."""
        with self.server.unix() as root:
            assert root.patch("/tenants/default", json={"weight": 1}).status_code == 200

    def token_of(self, name: str, **more: Any) -> str:
        text = new_token()
        token = Token(
            0,
            name,
            **{"role": "admin", **more},
            digest=digest_of(text),
            note="",
            created_ms=1,
            expires_ms=None,
        )
        self.server.run(self.server.store.create_token(token, SERVER, 1))
        return text

    def caller(self, name: str, **more: Any) -> httpx.Client:
        """Over TCP, by a token that narrows nothing unless that is said."""
        opened = self.server.tcp(self.token_of(name, **more))
        self._clients.append(opened)
        return opened

    def job(self, job_id: int, number: int = 1) -> httpx.Client:
        """The job itself, by the key of that attempt."""
        opened = self.server.tcp(KEYS.of(f"{job_id}.0.{number}"))
        self._clients.append(opened)
        return opened

    def close(self) -> None:
        for client in self._clients:
            client.close()


@cache
def _fresh_file() -> Path:
    """A new database: copying it is faster than migrating another one."""
    path = Path(tempfile.mkdtemp(prefix="tgpu-fresh-")) / "fresh.db"
    atexit.register(shutil.rmtree, path.parent)
    asyncio.run(asyncio.run(SqliteStore.open(path, cluster_id="c")).close())
    return path


@contextmanager
def house(known: dict[str, Any] | None = None, /, **settings: Any) -> Iterator[House]:
    """`known`: what else the server knows of itself, by the names of Services."""
    people = People()
    with tempfile.TemporaryDirectory(prefix="tgpu-house-") as folder:
        path = Path(shutil.copy(_fresh_file(), Path(folder) / "tgpu.db"))
        store = asyncio.run(SqliteStore.open(path))
        accounts = Accounts(people.by_uid, people.by_name, people.clock)
        keys = None if settings.get("job_keys") == "off" else KEYS
        more = {"accounts": accounts, "job_keys": keys, **(known or {})}
        with serving(store, more, **settings) as server:
            found = House(server, people, path)
            yield found
            found.close()
        asyncio.run(store.close())
