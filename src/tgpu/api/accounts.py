"""The machine's accounts: who a uid is, where a name lives, and to which groups it belongs."""

import asyncio
import grp
import os
import pwd
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

_KEEP_S = 5.0
_KEEP_GROUPS_S = 60.0
_MOST = 10_000  # entries kept: a caller can make us look up names, not fill our memory


class Account(NamedTuple):
    name: str
    uid: int
    gid: int
    home: str

    def groups(self) -> list[int]:
        return os.getgrouplist(self.name, self.gid)

    def group_names(self) -> frozenset[str]:
        """A group without a name is nobody's to speak of."""
        found = set()
        for gid in self.groups():
            with suppress(KeyError):
                found.add(grp.getgrgid(gid).gr_name)
        return frozenset(found)


def _account(row: pwd.struct_passwd) -> Account:
    return Account(row.pw_name, row.pw_uid, row.pw_gid, row.pw_dir)


class Accounts:
    """Answers are kept for a few seconds, "nobody" too; the lookups run beside the event loop."""

    def __init__(
        self,
        find_uid: Callable[[int], pwd.struct_passwd] = pwd.getpwuid,
        find_name: Callable[[str], pwd.struct_passwd] = pwd.getpwnam,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find_uid, self._find_name, self._clock = find_uid, find_name, clock
        self._kept: dict[int | str, tuple[float, Account | None]] = {}
        self._groups: dict[str, tuple[float, frozenset[str]]] = {}

    async def by_uid(self, uid: int) -> Account | None:
        kept = self._kept.get(uid)
        if kept is not None and kept[0] > self._clock():
            return kept[1]
        return await self._look_up(uid, lambda: self._find_uid(uid))

    async def by_name(self, name: str) -> Account | None:
        kept = self._kept.get(name)
        if kept is not None and kept[0] > self._clock():
            return kept[1]
        return await self._look_up(name, lambda: self._find_name(name))

    async def groups_of(self, account: Account) -> frozenset[str]:
        kept = self._groups.get(account.name)
        if kept is not None and kept[0] > self._clock():
            return kept[1]
        groups = await asyncio.to_thread(account.group_names)
        if len(self._groups) >= _MOST:
            self._groups.clear()
        self._groups[account.name] = (self._clock() + _KEEP_GROUPS_S, groups)
        return groups

    async def _look_up(self, key: int | str, find: Callable[[], pwd.struct_passwd]) -> Account | None:
        try:
            account = _account(await asyncio.to_thread(find))
        except (KeyError, ValueError, OverflowError):  # no such account, or nothing that could be one
            account = None
        if len(self._kept) >= _MOST:
            self._kept.clear()
        self._kept[key] = (self._clock() + _KEEP_S, account)
        return account
