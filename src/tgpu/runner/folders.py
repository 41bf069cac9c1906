"""The agent's side of the folders `claims` and `stops`, of the lease, and of what dead supervisors left."""

import os
import signal
import sys
import time
from collections.abc import Container, Iterable
from contextlib import suppress
from pathlib import Path

from tgpu.domain.ids import AttemptId
from tgpu.observe.disk_space import is_full
from tgpu.runner import private_tmp, process_signals, records, removing
from tgpu.runner.cgroups.groups import Cgroups
from tgpu.runner.lease import NS, NUMBER_BYTES, read_lease

STRAY_ROUNDS = 100
SPARES, SPARE_BYTES = 4, 4096
"""Files with space for a stop, so that the reason is recorded when a task fills the disk."""


def renew_lease(folder: Path, stamp_ns: int, lease_s: float) -> None:
    """Supervisors see the new one whole, or the old one."""
    draft = folder / f".{records.HEARD}"
    numbers = (stamp_ns, round(lease_s * NS))
    draft.write_bytes(b"".join(number.to_bytes(NUMBER_BYTES, sys.byteorder) for number in numbers))
    draft.rename(folder / records.HEARD)


def forget_other_boots(folder: Path) -> None:
    """A moment that lies ahead was of another life of the machine: its clock has begun anew since."""
    heard = folder / records.HEARD
    if read_lease(str(heard))[0] > time.clock_gettime_ns(time.CLOCK_BOOTTIME):
        heard.unlink()


class Folders:
    """Which attempts were claimed, and which are to be stopped."""

    def __init__(self, folder: Path) -> None:
        self._claims = folder / records.CLAIMS
        self._stops = folder / records.STOPS
        self._draft = self._stops / ".draft"
        self._drafted: str | None = None
        """What stands in it."""
        self._tmp = folder / private_tmp.FOLDER
        for path in (self._claims, self._stops):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._spares = [self._stops / f".spare{number}" for number in range(SPARES)]
        self._keep_spares()

    def claimed(self) -> dict[str, int]:
        """The inode to which each claim leads."""
        with os.scandir(self._claims) as entries:
            return {entry.name: entry.inode() for entry in entries if is_attempt(entry.name)}

    def is_claimed(self, attempt: str) -> bool:
        return (self._claims / attempt).exists()

    def order_stop(self, attempt: str, cause: str, detail: str, at_once: bool) -> bool:
        """Written whole before the supervisor can see it, which looks for it before it starts its task. On a
        full disk it is written into space that was allocated before. False: that is used up, too, and there
        is only a short link, which needs no space of its own."""
        text = _stop_text(cause, detail, at_once)
        try:
            self._write_stop(attempt, text)
        except OSError as error:
            if not is_full(error):
                raise
            if self._spared_stop(attempt, text):
                return True
            self._link_stop(attempt, cause, detail, at_once)
            return False
        self._keep_spares()
        return True

    def _keep_spares(self) -> None:
        for path in self._spares:
            if not path.exists():
                with suppress(OSError):  # a full disk: with the next stop
                    path.write_bytes(bytes(SPARE_BYTES))

    def _spared_stop(self, attempt: str, text: str) -> bool:
        spare = next((path for path in self._spares if path.exists()), None)
        if spare is None:
            return False
        data = text.encode(errors="replace")
        with spare.open("r+b") as file:
            file.write(data)
            file.truncate()
        spare.rename(self._stops / attempt)
        return True

    def _link_stop(self, attempt: str, cause: str, detail: str, at_once: bool) -> None:
        text = f"{records.LINK_AT_ONCE if at_once else ''}{cause}\n{detail}".encode(errors="replace")
        beside = self._stops / ".link"
        beside.unlink(missing_ok=True)
        beside.symlink_to(text[: records.LINK_MAX].replace(b"\0", b"").decode(errors="ignore"))
        beside.rename(self._stops / attempt)

    def _write_stop(self, attempt: str, text: str) -> None:
        """Many are often stopped for one reason: they share a file, since a name costs less than an inode."""
        if text != self._drafted:
            self._write_draft(text)
        try:
            os.link(self._draft, self._stops / attempt)
        except OSError:  # it was stopped for another reason before, or no more names can be had
            self._write_draft(text)
            self._drafted = None
            self._draft.rename(self._stops / attempt)

    def _write_draft(self, text: str) -> None:
        """Anew: the last one has other names by now."""
        self._drafted = None
        self._draft.unlink(missing_ok=True)
        self._draft.write_text(text, "utf-8", errors="replace")
        self._drafted = text

    def drop_tmp(self, attempts: Iterable[str]) -> None:
        for attempt in attempts:
            removing.remove(str(self._tmp / attempt))

    def clear_tmp(self, keep: Container[str]) -> None:
        """Removes what tasks left in a /tmp of their own, if their supervisors could not."""
        for path in self._tmp.iterdir() if self._tmp.is_dir() else ():
            if path.name not in keep:
                removing.remove(str(path))

    def drop(self, attempts: Iterable[str]) -> None:
        """From now on they could be run again."""
        for attempt in attempts:
            for folder in (self._claims, self._stops):
                (folder / attempt).unlink(missing_ok=True)


def _stop_text(cause: str, detail: str, at_once: bool) -> str:
    return f"{cause}\n{detail[: records.DETAIL_MAX]}{records.AT_ONCE if at_once else ''}"


def is_attempt(name: str) -> bool:
    """Names come from elsewhere and become paths here."""
    try:
        AttemptId.parse(name)
    except ValueError:
        return False
    return True


def end_strays(cluster_id: str, attempts: set[str], cgroups: Cgroups | None) -> None:
    """Ends what a dead supervisor left behind: by cgroup, and by the mark in each process's environment."""
    if cgroups is not None:
        for attempt in attempts:
            cgroups.kill(attempt)
    marks = {f"TGPU_ATTEMPT_KEY={cluster_id}:{attempt}".encode() for attempt in attempts}
    for _ in range(STRAY_ROUNDS):
        strays = _marked(marks)
        if not strays:
            break
        for number in (signal.SIGSTOP, signal.SIGKILL):  # what is stopped cannot fork meanwhile
            for pid in strays:
                process_signals.send(pid, number, lambda pid: _is_marked(pid, marks))
        time.sleep(0.01)
    if cgroups is not None:
        for attempt in attempts:
            cgroups.remove(attempt)


def _marked(marks: set[bytes]) -> list[int]:
    pids = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    return [pid for pid in pids if _is_marked(pid, marks)]


def _is_marked(pid: int, marks: set[bytes]) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()  # empty for the dead
    except OSError:
        return False
    return b"TGPU_ATTEMPT_KEY=" in environ and not marks.isdisjoint(environ.split(b"\0"))
