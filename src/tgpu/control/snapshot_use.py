"""Snapshots that tasks on a node run in: a node is given these, and no others."""

from collections.abc import Callable

from tgpu.control.loop import Control
from tgpu.store.port import Store, StoreUnavailableError

MOST_KEPT = 4096


class SnapshotUse:
    def __init__(self, term: Callable[[], Control | None], store: Store) -> None:
        """`term` is the control loop of this server's present term as leader, if it leads."""
        self._term, self._store = term, store
        self._digests: dict[int, str | None] = {}
        """By job: a job keeps the snapshot that it was submitted with."""

    async def __call__(self, node_id: str, user: str, digest: str) -> bool | None:
        """Whether a task of the user, placed on the node, runs in it; None: that is not known now."""
        control = self._term()
        if control is None or not control.leads:
            return None
        place = control.picture.places.get(node_id)
        placed = [] if place is None else list(place.attempts.values())
        jobs = dict.fromkeys(each.task.task_id.job_id for each in placed if each.task.user == user)
        try:
            return digest in [await self._digest_of(job_id) for job_id in jobs]
        except StoreUnavailableError:
            return None

    async def _digest_of(self, job_id: int) -> str | None:
        if job_id not in self._digests:
            job = await self._store.job(job_id)
            if len(self._digests) >= MOST_KEPT:
                self._digests.clear()
            snapshot = None if job is None else job.spec.snapshot
            self._digests[job_id] = None if snapshot is None else snapshot.digest
        return self._digests[job_id]
