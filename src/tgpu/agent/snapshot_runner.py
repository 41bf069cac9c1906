"""A runner whose tasks stand in a copy of their code, if their job has one: made and removed by attempt.

Everything else is the other runner's, whatever that is. An attempt that is being prepared here is not known
there yet: whoever stops it stops the preparation.
"""

import asyncio
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tgpu.agent import snapshot_unpack
from tgpu.agent.snapshot_fetch import SnapshotFetch
from tgpu.agent.user_folder import user_folder
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.domain.snapshot import MAX_FILES, Snapshot
from tgpu.observe.disk_space import is_full
from tgpu.runner import checkpoint_folder, removing, task
from tgpu.runner.cgroups.preparation import Preparation
from tgpu.runner.disk_words import DISK_FULL
from tgpu.runner.look import Look
from tgpu.runner.port import (
    AttemptEnded,
    AttemptNoted,
    CouldNotPrepareError,
    LaunchSpec,
    LogPart,
    Runner,
    RunnerEvent,
)
from tgpu.runner.shell_port import Shell, ShellOrder

UNPACK_S = 600.0
"""After which time an archive is given up; the unpacking process has limits of its own on memory and CPU."""
_UNPACKED_AT_ONCE = 4
"""By user: archives of one user do not fill the node's memory, nor delay those of another."""
_ATTEMPT = re.compile(r"\d+\.\d+\.\d+")
SNAPSHOT, SUBMIT_DIR = "TGPU_SNAPSHOT", "TGPU_SUBMIT_DIR"
"""What such a task finds in its environment: which copy it runs in, and the directory that it stands for."""


_STEP_IN = """
import os, sys
count = int(sys.argv[1])
for door in sys.argv[2 : 2 + count]:
    with open(door, "w") as file:
        file.write("0")
os.execv(sys.argv[2 + count], sys.argv[2 + count :])
"""
"""The program is loaded inside: its memory is the job's, too. A door that is not there ends it."""


class _KilledError(Exception):
    """A signal ended the program that unpacks."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class SnapshotRunner:
    """See the port."""

    def __init__(
        self,
        inner: Runner,
        folder: Path,
        fetch: SnapshotFetch,
        most_bytes: int,
        *,
        now_ms: Callable[[], int],
        preparation: Callable[[LaunchSpec], Preparation | None] = lambda _: None,
    ) -> None:
        """`folder`: below which each attempt has its own. `preparation`: the cgroups of an attempt, in which
        its archive is unpacked."""
        self._inner, self._folder, self._fetch = inner, folder, fetch
        self._most_bytes, self._now_ms = most_bytes, now_ms
        self._preparation = preparation
        self._groups: dict[str, Preparation] = {}
        """Of attempts that are not launched yet."""
        self._preparing: dict[str, asyncio.Task[None]] = {}
        self._removing: set[asyncio.Task[None]] = set()
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(_UNPACKED_AT_ONCE)
        )

    async def open(self, on_event: Callable[[RunnerEvent], None]) -> list[RunnerEvent]:
        self._loop, self._on_event = asyncio.get_running_loop(), on_event
        found = await self._inner.open(self._heard)
        live = {event.attempt for event in found if not isinstance(event, AttemptEnded)}
        await asyncio.to_thread(_remove_others, self._folder, live)
        return found

    async def close(self) -> None:
        for work in (*self._preparing.values(), *self._removing):
            work.cancel()
        await asyncio.gather(*self._preparing.values(), *self._removing, return_exceptions=True)
        await self._inner.close()

    async def prepare(self, spec: LaunchSpec) -> None:
        if spec.snapshot is not None:
            await self._unpack(spec, spec.snapshot)
        await self._inner.prepare(spec)

    def drop(self, attempt: str) -> None:
        self._inner.drop(attempt)
        self._remove(attempt)

    def launch(self, spec: LaunchSpec) -> None:
        if spec.snapshot is None:
            self._inner.launch(spec)
        elif spec.attempt not in self._preparing:
            work = self._loop.create_task(self._launch(spec, spec.snapshot))
            self._preparing[spec.attempt] = work

    async def _launch(self, spec: LaunchSpec, snapshot: Snapshot) -> None:
        try:
            if not self._place(spec).is_dir():  # of a gang it was prepared
                self._on_event(AttemptNoted(spec.attempt, "fetching its snapshot"))
                await self._unpack(spec, snapshot)
            self._groups.pop(spec.attempt, None)  # from here on its supervisor's
            self._inner.launch(self._moved(spec, snapshot))
        except CouldNotPrepareError as error:
            self._over(spec.attempt, error.cause, str(error))
        finally:
            self._preparing.pop(spec.attempt, None)

    def stop(self, attempt: str, cause: Cause, detail: str, *, at_once: bool = False) -> None:
        work = self._preparing.get(attempt)
        if work is None:
            self._inner.stop(attempt, cause, detail, at_once=at_once)
            return
        work.cancel()
        work.add_done_callback(lambda _: self._over(attempt, cause, detail or "stopped before it started"))

    def forget(self, attempt: str) -> None:
        self._inner.forget(attempt)

    def heard(self, stamp_ns: int, lease_s: float) -> None:
        self._inner.heard(stamp_ns, lease_s)

    def read_log(self, attempt: str, stream: str, offset: int, max_bytes: int) -> LogPart | None:
        return self._inner.read_log(attempt, stream, offset, max_bytes)

    async def look(self, attempts: Collection[str]) -> Mapping[str, Look]:
        return await self._inner.look(attempts)

    async def open_shell(self, order: ShellOrder) -> Shell:
        return await self._inner.open_shell(order)

    def _heard(self, event: RunnerEvent) -> None:
        if isinstance(event, AttemptEnded):
            self._remove(event.attempt)
        self._on_event(event)

    def _over(self, attempt: str, cause: Cause, detail: str) -> None:
        self._remove(attempt)
        self._on_event(AttemptEnded(attempt, Exit(cause, detail=detail, ended_ms=self._now_ms())))

    def _place(self, spec: LaunchSpec) -> Path:
        """Below a folder of its user, as for checkpoints: others cannot learn whose attempt it is."""
        return self._folder / user_folder(spec.user) / spec.attempt

    def _moved(self, spec: LaunchSpec, snapshot: Snapshot) -> LaunchSpec:
        cwd = str(self._place(spec) / (snapshot.place_of(spec.cwd) or "."))
        env = {**spec.env, SNAPSHOT: snapshot.digest, SUBMIT_DIR: spec.cwd}
        return replace(spec, cwd=cwd, env=env)

    async def _unpack(self, spec: LaunchSpec, snapshot: Snapshot) -> None:
        """Raises CouldNotPrepareError."""
        archive = await self._fetch.archive(spec.user, snapshot.digest)
        folder = self._place(spec)
        is_whole = False
        try:
            account = task.Account(spec.user)
            if account.uid != os.geteuid() != task.ROOT:
                raise CouldNotPrepareError(
                    f"this agent is not root, so it cannot run a job of user {spec.user!r}"
                )
            await asyncio.to_thread(_made_anew, folder, account)
            async with self._turns[spec.user]:
                await self._unpack_inside(spec, snapshot, archive, folder)
            is_whole = True
        except task.Refusal as refusal:
            raise CouldNotPrepareError(str(refusal)) from None
        except OSError as error:
            if is_full(error):
                raise CouldNotPrepareError(DISK_FULL, Cause.NODE_LOST) from error
            raise CouldNotPrepareError(f"its snapshot cannot be unpacked: {error.strerror}") from error
        finally:
            if not is_whole:
                self._remove(spec.attempt)

    async def _unpack_inside(self, spec: LaunchSpec, snapshot: Snapshot, archive: Path, folder: Path) -> None:
        """In the cgroups of the attempt, where its limits hold. A container will have others."""
        group = self._preparation(spec)
        doors: list[str] = []
        if group is not None:
            self._groups[spec.attempt] = group
            await asyncio.to_thread(group.open)
            doors = group.doors
        try:
            await self._run_unpacking(spec, snapshot, archive, folder, doors)
        except _KilledError as error:
            raise CouldNotPrepareError(*_why_killed(error.number, group)) from None
        if spec.container is not None:
            await self._remove_group(spec.attempt)

    async def _run_unpacking(
        self, spec: LaunchSpec, snapshot: Snapshot, archive: Path, folder: Path, doors: Sequence[str]
    ) -> None:
        place = snapshot.place_of(spec.cwd) or "."
        program = [sys.executable, "-I", "-m", snapshot_unpack.__name__]
        with archive.open("rb") as file:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                "-c",
                _STEP_IN,
                str(len(doors)),
                *doors,
                *program,
                spec.user,
                place,
                str(self._most_bytes),
                str(MAX_FILES),
                stdin=file,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                cwd=folder,
                env={},
            )
        try:
            async with asyncio.timeout(UNPACK_S):
                _, said = await process.communicate()
        except TimeoutError:
            raise CouldNotPrepareError(
                f"its snapshot cannot be unpacked: it took more than {UNPACK_S:.0f} s"
            ) from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode == snapshot_unpack.DISK_FULL:
            raise CouldNotPrepareError(DISK_FULL, Cause.NODE_LOST)
        if process.returncode and process.returncode < 0:
            raise _KilledError(-process.returncode)
        if process.returncode:
            words = said.decode(errors="replace").strip().splitlines()
            raise CouldNotPrepareError(
                f"its snapshot cannot be unpacked: {(words or ['no reason was given'])[-1][:500]}"
            )

    async def _remove_group(self, attempt: str) -> None:
        group = self._groups.pop(attempt, None)
        if group is not None:
            await asyncio.to_thread(group.remove)

    def _remove(self, attempt: str) -> None:
        if attempt in self._groups:
            self._aside(self._remove_group(attempt))
        for folder in (path for path in _copies(self._folder) if path.name == attempt):
            self._aside(asyncio.to_thread(_removed, folder))

    def _aside(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._removing.add(task)
        task.add_done_callback(self._removing.discard)


def _why_killed(number: int, group: Preparation | None) -> tuple[str, Cause]:
    if group is not None and group.oom_kills():
        limit = f" of {group.memory_limit_mib} MiB" if group.memory_limit_mib else ""
        why = f"its snapshot could not be unpacked within its memory limit{limit}: ask for more with --memory"
        return why, Cause.OUT_OF_MEMORY
    why = f"its snapshot cannot be unpacked: signal {number} ended it: it takes too much CPU time"
    return why, Cause.COULD_NOT_START


def _made_anew(folder: Path, account: task.Account) -> None:
    _removed(folder)
    checkpoint_folder.make_hidden(str(folder), account.uid, account.gid)


def _remove_others(folder: Path, live: Collection[str]) -> None:
    for path in _copies(folder):
        if path.name not in live:
            _removed(path)


def _copies(folder: Path) -> list[Path]:
    """Those of older versions are beside the users' folders."""
    beside = list(folder.iterdir()) if folder.is_dir() else []
    of_users = [path for path in beside if not _ATTEMPT.fullmatch(path.name) and path.is_dir()]
    return [
        *(path for path in beside if path not in of_users),
        *(path for user in of_users for path in user.iterdir()),
    ]


def _removed(folder: Path) -> None:
    """What cannot be removed is tried again when the agent starts."""
    removing.remove(str(folder))
