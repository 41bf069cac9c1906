"""What is here from before: compared from the claims, the journals, and who is alive."""

from collections.abc import Callable
from dataclasses import dataclass

from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.runner.cgroups.groups import Cgroups
from tgpu.runner.folders import Folders, end_strays
from tgpu.runner.journal import Claim, Contents, Journals, Message


@dataclass(frozen=True, slots=True)
class Found:
    """One attempt that is not forgotten; it is over if it has an exit."""

    generation: int
    claim: Claim | None
    exit: Exit | None


@dataclass(frozen=True, slots=True)
class Surveyor:
    """Reads the records, and closes the cases that nobody else can close any more."""

    folders: Folders
    journals: Journals
    boot: str
    cluster_id: str
    cgroups: Cgroups | None
    now_ms: Callable[[], int]

    def survey(self) -> tuple[dict[str, Found], set[str]]:
        """What is known, and the forgotten that are still refused. Only for the holder of the lock."""
        claimed = self.folders.claimed()
        before = self.journals.read()
        gone = {name for name in claimed if not self._is_alive(name, before)}
        # The living were counted first: whoever ended in between has recorded it by now.
        contents = self.journals.read() if gone else before
        forgotten = {name for name, inode in claimed.items() if _is_tombstone(name, inode, contents)}
        lost = gone - forgotten - contents.exits.keys()
        here = {name for name in lost if self._is_of_this_boot(name, claimed[name], contents)}
        exits = contents.exits | self.bury({name: contents.claims.get(name) for name in lost}, here)
        found = {
            name: Found(
                _generation(name, claimed[name], contents), contents.claims.get(name), exits.get(name)
            )
            for name in claimed.keys() - forgotten
        }
        self.folders.clear_tmp({name for name, about in found.items() if about.exit is None})
        return found, forgotten

    def bury(self, lost: dict[str, Claim | None], here: set[str]) -> dict[str, Exit]:
        """Records the ends that their supervisors could not, when nothing of them runs any more.

        `here` are those of this life of the machine; the others went down with it.
        """
        if here:
            end_strays(self.cluster_id, here, self.cgroups)
            self.folders.drop_tmp(here)
        exits: dict[str, Exit] = {}
        for attempt, claim in lost.items():
            cause, detail = (
                (Cause.SUPERVISOR_LOST, "the process that watched over it was killed")
                if attempt in here
                else (Cause.REBOOTED, "the machine restarted")
            )
            started_ms = None if claim is None else claim.started_ms
            exits[attempt] = Exit(cause, detail=detail, started_ms=started_ms, ended_ms=self.now_ms())
            self.journals.append(Message(attempt, exit=exits[attempt]))
        if lost:
            self.journals.sync()
        return exits

    def _is_alive(self, attempt: str, contents: Contents) -> bool:
        claim = contents.claims.get(attempt)
        if claim is None or contents.boots.get(contents.generation[attempt]) != self.boot:
            return False
        return claim.is_alive()

    def _is_of_this_boot(self, attempt: str, inode: int, contents: Contents) -> bool:
        return contents.boots.get(_generation(attempt, inode, contents)) == self.boot


def _is_tombstone(attempt: str, inode: int, contents: Contents) -> bool:
    """A claim that leads to no journal: those are removed only when all their attempts are forgotten."""
    if attempt in contents.forgotten:
        return True
    return attempt not in contents.claims and attempt not in contents.exits and inode not in contents.inodes


def _generation(attempt: str, inode: int, contents: Contents) -> int:
    return contents.generation.get(attempt, contents.inodes.get(inode, -1))
