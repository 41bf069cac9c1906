"""Budget of private /tmp directories: tasks that hold more than they may are ended."""

import asyncio
import pwd
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tgpu.agent.disk_budgets import MIB, TmpUse, ended_for_space, in_mib
from tgpu.agent.disk_meter import DiskMeter, OwnedFolder
from tgpu.agent.failed_tmp import FailedTmp
from tgpu.domain.lifecycle import Cause
from tgpu.observe.disk_space import DiskSpace
from tgpu.observe.logs import logger
from tgpu.runner.disk_usage import Usage
from tgpu.runner.journal import TmpLimit


class Writers(Protocol):
    """What runs tasks on this node."""

    def private_tmps(self) -> Mapping[str, tuple[str, TmpLimit]]: ...

    def stop(self, attempt: str, cause: Cause, detail: str, *, at_once: bool = False) -> None: ...


class TmpBudget:
    def __init__(
        self,
        runners: Callable[[], Sequence[Writers]],
        meter: DiskMeter,
        space: DiskSpace,
        kept: FailedTmp,
    ) -> None:
        """`space`: of the filesystem with the directories. `kept`: what failed attempts have left."""
        self._runners, self._meter, self._space, self._kept = runners, meter, space, kept
        self._stopping: dict[str, bool] = {}
        """Attempts that are being stopped, and whether at once."""

    async def check(self) -> None:
        is_short = await asyncio.to_thread(self._space.shortage) is not None
        if is_short:
            await self._kept.sweep()
        for runner in self._runners():
            uses = await self._measured(runner.private_tmps())
            self._stopping = {name: at_once for name, at_once in self._stopping.items() if name in uses}
            await self._make_room(uses)
            over = {attempt: use.excess for attempt, use in uses.items() if use.excess}
            for attempt, words in over.items():
                self._stop(runner, attempt, Cause.DISK_LIMIT, words, at_once=is_short)
            if is_short and not self._stopping:
                self._relieve(runner, uses)

    async def _measured(self, tmps: Mapping[str, tuple[str, TmpLimit]]) -> dict[str, TmpUse]:
        """Without those that could not be measured."""
        users = {tmp.user for _, tmp in tmps.values()}
        accounts = await asyncio.to_thread(lambda: {user: _account(user) for user in users})
        folders: dict[str, OwnedFolder] = {}
        for attempt, (path, tmp) in tmps.items():
            account = accounts[tmp.user]
            if account is not None:
                folders[attempt] = OwnedFolder(path, *account)
        usages = await self._meter.measure(list(folders.values()))
        found = ((attempt, usages.get(folder.path)) for attempt, folder in folders.items())
        return {attempt: _use(attempt, tmps[attempt][1], usage) for attempt, usage in found if usage}

    async def _make_room(self, uses: Mapping[str, TmpUse]) -> None:
        """What earlier attempts of a task have left counts with its own, and goes first."""
        for attempt, use in uses.items():
            task = attempt.rpartition(".")[0]
            kept = self._kept.bytes_of(task)
            if kept and use.limit_mib and use.used_bytes + kept > use.limit_mib * MIB:
                await self._kept.remove_of(task)

    def _relieve(self, runner: Writers, uses: Mapping[str, TmpUse]) -> None:
        reserve = self._space.reserve_bytes
        largest = ended_for_space(uses.values(), reserve)
        if largest is not None:
            free = self._space.free_bytes()
            words = (
                f"its /tmp held {in_mib(largest.used_bytes)} MiB, and {in_mib(free)} MiB were left of the "
                f"{in_mib(reserve)} MiB that are kept free; a job that names --disk is not ended for that"
            )
            self._stop(runner, largest.attempt, Cause.DISK_PRESSURE, words, at_once=True)

    def _stop(self, runner: Writers, attempt: str, cause: Cause, detail: str, *, at_once: bool) -> None:
        if self._stopping.get(attempt) in (True, at_once):
            return
        self._stopping[attempt] = at_once
        logger("agent").warning(str(cause), attempt=attempt, detail=detail)
        runner.stop(attempt, cause, detail, at_once=at_once)


def _use(attempt: str, tmp: TmpLimit, usage: Usage) -> TmpUse:
    return TmpUse(attempt, usage.size, tmp.reserved_mib, tmp.limit_mib, usage.is_countable)


def _account(user: str) -> tuple[int, int] | None:
    """User and group by number; None: there is no such user any more. May wait for a directory service."""
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        return None
    return found.pw_uid, found.pw_gid
