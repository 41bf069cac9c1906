"""Actions of a caller on a job: the verbs that the endpoints would accept now.

Permissions are judged by the same code as in the endpoints. A verb that would change nothing (holding a held
job) is left out. Retry and rerun submit a new job, which may still be refused by a quota or by what the
cluster can run.
"""

from collections.abc import Sequence
from enum import StrEnum

from tgpu.api.edit_rules import can_be_paced
from tgpu.api.endpoint import Call
from tgpu.api.job_terms import check_priority, under_terms
from tgpu.api.needs import CANCEL_JOB, CHANGE_JOB, ENTER_JOB, READ_OUTPUT, RERUN_JOB, Needs
from tgpu.api.once_more import as_it_was
from tgpu.api.permission import is_allowed, may_undo
from tgpu.api.problems import ProblemError
from tgpu.api.roles import at_least
from tgpu.api.terms import Effective
from tgpu.domain.access import Role
from tgpu.domain.job import Job
from tgpu.domain.lifecycle import Status
from tgpu.store import timings


class JobAction(StrEnum):
    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    RETRY = "retry"
    RERUN = "rerun"
    EDIT = "edit"
    SUSPEND = "suspend"
    RESUME = "resume"
    LOGS = "logs"
    TERMINAL = "terminal"


async def actions_of(call: Call, jobs: Sequence[Job]) -> list[list[JobAction]]:
    """For each job, which the caller may see."""
    pages = await call.book.pages()
    terms = {
        tenant_id: pages.effective_terms(tenant_id)
        for tenant_id in {job.spec.tenant_id for job in jobs} & pages.tenants.keys()
    }
    return [_Judge(call, job, terms.get(job.spec.tenant_id)).actions() for job in jobs]


class _Judge:
    """One job; `terms` are None if its tenant does not exist any more."""

    def __init__(self, call: Call, job: Job, terms: Effective | None) -> None:
        self._call, self._job, self._terms = call, job, terms
        token = call.caller.token
        self._counts_hours = token is not None and token.gpu_ms_left is not None
        self._there = {status for status, number in job.task_counts.items() if number}

    def actions(self) -> list[JobAction]:
        may_change = self._may(CHANGE_JOB)
        found = {
            JobAction.CANCEL: not self._job.status.is_final and self._may(CANCEL_JOB),
            JobAction.HOLD: may_change and timings.may_be_held(self._job),
            JobAction.RELEASE: may_change and self._can_be_released(),
            JobAction.RETRY: may_change and self._can_be_retried(),
            JobAction.RERUN: self._may(RERUN_JOB) and self._can_be_submitted_again(),
            JobAction.EDIT: may_change and self._can_be_edited(),
            JobAction.SUSPEND: may_change and self._can_be_suspended(),
            JobAction.RESUME: may_change and self._can_be_resumed(),
            JobAction.LOGS: self._may(READ_OUTPUT),
            JobAction.TERMINAL: Status.RUNNING in self._there and self._may(ENTER_JOB),
        }
        return [action for action, may in found.items() if may]

    def _may(self, needs: Needs) -> bool:
        return is_allowed(self._job, needs, self._call.caller, self._call.services.settings)

    def _can_be_released(self) -> bool:
        timing = self._job.timing
        if timing is None or timing.held_by is None or self._job.status.is_final:
            return False
        return may_undo(self._call.caller, self._job, timing.held_by)

    def _can_be_edited(self) -> bool:
        if self._job.status.is_final:
            return False
        return all(status.waits for status in self._there) or can_be_paced(self._job.spec)

    def _can_be_suspended(self) -> bool:
        is_suspended = self._job.timing is not None and self._job.timing.suspended_by is not None
        return not (self._job.status.is_final or is_suspended or self._counts_hours)

    def _can_be_resumed(self) -> bool:
        timing = self._job.timing
        if timing is None or timing.suspended_by is None or self._job.status.is_final:
            return False
        return may_undo(self._call.caller, self._job, timing.suspended_by)

    def _can_be_retried(self) -> bool:
        spec, there = self._job.spec, self._there
        restarts = any(status.holds_resources for status in there) and (
            spec.task_count == 1 or spec.gang is not None
        )
        if restarts:
            whole = spec.gang is None or all(status.holds_resources for status in there)
            return whole and not self._counts_hours
        return bool(there & {Status.FAILED, Status.CANCELLED}) and self._can_be_submitted_again()

    def _can_be_submitted_again(self) -> bool:
        job, terms, caller = self._job, self._terms, self._call.caller
        if terms is None or terms.archived:
            return False
        if not at_least(caller.rights.role_in(job.spec.tenant_id), Role.USER):
            return False
        try:
            spec = as_it_was(job)
            check_priority(self._call, spec)
            under_terms(caller, spec, terms)
        except ProblemError:
            return False
        return True
