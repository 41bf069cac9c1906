"""What a store has to do for jobs that wait for others, are held, or are changed while they wait."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from tgpu.domain.job import Job, JobSpec
from tgpu.domain.lifecycle import Status
from tgpu.domain.needs import NeedKind
from tgpu.store.refusals import StoreError


class UnknownNeedError(StoreError):
    """A job is to wait for one that there is not."""

    def __init__(self, place: int, on_job_id: int) -> None:
        super().__init__(f"there is no job {on_job_id} to wait for")
        self.place, self.on_job_id = place, on_job_id
        """`place`: of the job, among those that are submitted together."""


class NotWaitingError(StoreError):
    """Only what waits whole can be changed, but for how many tasks of a series are live at once."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"job {job.job_id} does not wait: it is {job.status}")
        self.job = job


class ChangedMeanwhileError(StoreError):
    """Somebody else changed the job first: read it again, then decide."""


class NeedRow(NamedTuple):
    """A job waits for another one."""

    job_id: int
    on: int
    """0 of a singleton."""
    kind: NeedKind
    status: Status | None
    """Where the other one stands; None of a singleton, and if there is no such job any more."""
    ends: tuple[tuple[int, Status], ...] = ()
    """Told to the control loop of `aftercorr`: which tasks of the other one are over, and how."""


class NeedsStore(Protocol):
    async def hold(self, job_ids: Sequence[int], by: str, at_ms: int) -> list[Job | None]:
        """What of these jobs waits is not to be started; returns every job as it was before, None for an
        unknown id. One that is held already, or of which nothing waits, stays as it is."""
        ...

    async def release(self, job_ids: Sequence[int], by: str, at_ms: int) -> list[Job | None]:
        """Takes `hold` back, likewise."""
        ...

    async def edit(  # noqa: PLR0917  what becomes of what, by whom and by what right
        self,
        before: Job,
        spec: JobSpec,
        by: str,
        at_ms: int,
        told: Mapping[str, object],
        token_id: int | None = None,
    ) -> Job:
        """Gives a job that waits whole another specification, with as many tasks in as many groups, and
        returns it. Its tenant and its token are charged for the new one instead of the old one in the same
        transaction, or it stays as it was: raises NotWaitingError, ChangedMeanwhileError if it is not as in
        `before` any more, and what `submit` raises. `told` is what the event says.
        `token_id`: the token with a cap that is used, which is good only for jobs submitted with it."""
        ...

    async def needs_around(self, job_ids: Sequence[int]) -> list[NeedRow]:
        """What these jobs wait for or waited for, and who waits for them, each once."""
        ...
