"""Private /tmp of jobs, as the API knows it: whether a job may do without, and what its submitter is told.

What a job writes to a private /tmp is removed when it ends, also if it ends with exit code 0.
"""

import re
import time
from collections.abc import Callable, Sequence

from tgpu.api.problems import unprocessable
from tgpu.config.settings import Settings
from tgpu.dialects.slurm.launching import users_words
from tgpu.domain.job import Group, JobSpec
from tgpu.runner.private_tmp import SHARED, is_for
from tgpu.store.port import Store, StoreUnavailableError

_NODES_FOR_S = 60.0
"""How long it is known whether any node gives jobs a private /tmp."""
_NAMED = re.compile(rf"(?<![\w./~-])(?:{'|'.join(SHARED)})(?![\w.-])")
"""A path below /tmp or /dev/shm in a command or script; not one below /var/tmp."""
_REMOVED = (
    "this job has a private /tmp: what it writes to /tmp and /dev/shm is removed when it ends; write to a "
    "shared directory"
)
_NO_SHARED = ", or ask an administrator to allow shared_tmp"
_SHARED = ", or submit with `tgpu submit --shared-tmp`"
_OF_NODE = (
    "this job uses the /tmp of its node, because its output file is there, while other jobs have a private "
    "/tmp: look for the file on the node that runs the job"
)


def check_shared_tmp(groups: Sequence[Group], *, allowed: bool) -> None:
    """Raises ProblemError."""
    if not allowed:
        raise unprocessable(
            "shared_tmp",
            "shared_tmp: jobs have a private /tmp here, for the setting shared_tmp is off: write to a shared "
            "directory instead, or ask an administrator to set shared_tmp = on",
        )
    if all(group.container is not None for group in groups):
        raise unprocessable(
            "shared_tmp",
            "shared_tmp: a container has a /tmp of its own: leave it out, and mount a directory (mounts)",
        )


class TmpNotes:
    """What submitters are told of their jobs' /tmp."""

    def __init__(self, settings: Settings, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._wanted = settings.private_tmp == "auto"
        self._remedy = _SHARED if settings.shared_tmp == "on" else _NO_SHARED
        self._store, self._clock = store, clock
        self._known: tuple[float, bool] | None = None

    async def of(self, specs: Sequence[JobSpec]) -> str:
        """Of the first job that names a path there; empty: none does, or no node makes a private /tmp."""
        found = next(filter(None, map(self._note, specs)), "") if self._wanted else ""
        return found if found and await self._is_made() else ""

    def _note(self, spec: JobSpec) -> str:
        outside = [group for group in spec.groups if group.container is None]
        if spec.shared_tmp or not outside:
            return ""
        files = (spec.files.output, spec.files.error) if spec.files is not None else ()
        if not is_for(*filter(None, files)):
            return _OF_NODE
        private = [group for group in outside if is_for(group.cwd)]
        if any(_NAMED.search(_words(group.command)) for group in private):
            return _REMOVED + self._remedy
        return ""

    async def _is_made(self) -> bool:
        """Only agents that are root make one; only they serve all users."""
        now = self._clock()
        if self._known is None or now - self._known[0] > _NODES_FOR_S:
            try:
                nodes = await self._store.nodes()
            except StoreUnavailableError:  # the job is recorded, and that is what matters
                return False
            self._known = (now, any(node.serves == "*" for node in nodes))
        return self._known[1]


def _words(command: Sequence[str] | str) -> str:
    return command if isinstance(command, str) else "\n".join(users_words(command))
