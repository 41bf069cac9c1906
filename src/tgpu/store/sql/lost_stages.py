"""How changes are taken that a silent node brings about once it is heard again (`stages.py` has its loss)."""

from collections.abc import Sequence

from tgpu.domain.lifecycle import (
    AttemptHappening,
    AttemptState,
    Happening,
    Status,
    attempt_after,
    task_after,
    task_sources,
)
from tgpu.store import event_data
from tgpu.store.book import Lineage, standing_returned
from tgpu.store.lost import AttemptGone, AttemptReturned, Superseded
from tgpu.store.sql import codec, moves
from tgpu.store.sql.stage import (
    STANDINGS,
    Happened,
    Numbered,
    Outcomes,
    Stage,
    TaskNow,
    Tried,
    may,
    of_attempt,
    of_task,
)

_RUNS = task_after(Status.PENDING, Happening.RETURNED).value


class LostStages(Stage):
    def come_back(self, changes: Sequence[Numbered[AttemptReturned]]) -> Outcomes:
        taken = [found for found in self._tried(changes) if _may_return(found[2])]
        self._write(moves.RETURN_TASK, [
            of_task(change.attempt_id.task_id) | {
                "old_status": now.task.status,
                "new_status": _RUNS,
                "new_standing": standing_returned(STANDINGS[now.task.standing]).value,
                "reserved": _reserved(now.task, change),
            }
            for _, change, now in taken
        ])  # fmt: skip
        self._write(moves.RETURN_ATTEMPT, [
            of_attempt(change.attempt_id) | {
                "new_state": attempt_after(AttemptState.LOST, AttemptHappening.RETURNED).value,
                "begun": change.started_ms,
            }
            for _, change, _ in taken
        ])  # fmt: skip
        self._write(moves.RETURN_JOB, [
            {
                "job": change.attempt_id.job_id,
                "new_status": _RUNS,
                "where_to": now.node_id,
                "on_devices": now.devices,
                "begun": now.began_ms(change.started_ms),
            }
            for _, change, now in taken if now.task.tasks == 1
        ])  # fmt: skip
        several = [(change, now) for _, change, now in taken if now.task.tasks > 1]
        for (change, now), job in self._sums.each(several, lambda it: it[0].attempt_id.job_id):
            job.moved(Status(now.task.status), Status(_RUNS))
            job.assigned(change.attempt_id, now.node_id)
            job.began(now.began_ms(change.started_ms))
        for _, change, now in taken:
            self._charge_again(now, _reserved(now.task, change))
        return {
            place: Happened(
                Happening.RETURNED.value,
                change.attempt_id.task_id,
                event_data.on_returned(change, now.node_id, codec.devices_from(now.devices)),
                now.task.user,
            )
            for place, change, now in taken
        }

    def _charge_again(self, now: Tried, reserved_gpu_ms: int) -> None:
        """Its run is counted whole when it ends: what was counted when it was lost is taken back until then.
        If another attempt runs by now, its place is this one's."""
        task, charged, counted = now.task, now.task.charged, now.counted

        def come_back(tenants: Lineage) -> None:
            if Status(task.status).waits:
                tenants.come_back(charged, reserved_gpu_ms)
            tenants.count(charged.request, None, counted)

        self._postings.post(task.tenant_id, come_back)

    def supersede(self, changes: Sequence[Numbered[Superseded]]) -> Outcomes:
        allowed = [
            (place, change, now)
            for place, change, now in self._attempts(changes)
            if may(AttemptState(now.state), AttemptHappening.SUPERSEDED)
        ]
        taken = self._taken(moves.SUPERSEDE_ATTEMPT, allowed, [
            of_attempt(change.attempt_id) | {
                "old_state": now.state,
                "new_state": attempt_after(AttemptState(now.state), AttemptHappening.SUPERSEDED).value,
            }
            for _, change, now in allowed
        ])  # fmt: skip
        return {
            place: Happened(
                AttemptHappening.SUPERSEDED.value,
                change.attempt_id.task_id,
                event_data.on_superseded(change, now.node_id),
                now.user,
            )
            for place, change, now in taken
        }

    def let_go(self, changes: Sequence[Numbered[AttemptGone]]) -> Outcomes:
        taken = [found for found in self._tried(changes) if _concerns_no_task(found[2])]
        self._write(moves.END_ATTEMPT, [
            of_attempt(change.attempt_id) | {
                "new_state": attempt_after(now.state, AttemptHappening.GONE).value,
                "begun": change.exit.started_ms,
                "result": codec.text_of(change.exit),
            }
            for _, change, now in taken
        ])  # fmt: skip
        return {
            place: Happened(
                AttemptHappening.GONE.value,
                change.attempt_id.task_id,
                event_data.on_gone(change, now.node_id, codec.devices_from(now.devices)),
                now.task.user,
            )
            for place, change, now in taken
        }


def _may_return(now: Tried) -> bool:
    """It was lost, and its task is not over."""
    if now.is_superseded or not may(now.state, AttemptHappening.RETURNED):
        return False
    return Status(now.task.status) in task_sources(Happening.RETURNED)


def _reserved(task: TaskNow, change: AttemptReturned) -> int:
    """Of GPU-hours, once the task goes on; if another attempt of it has reserved some by now, those."""
    return change.reserve_gpu_ms if Status(task.status).waits else task.reserved_gpu_ms


def _concerns_no_task(now: Tried) -> bool:
    """It is not over, and its task does not wait for its end."""
    left_alone = now.state is AttemptState.LOST or now.is_superseded or Status(now.task.status).is_final
    return left_alone and may(now.state, AttemptHappening.GONE)
