"""How changes are taken that a silent node brings about once it is heard again (`stages.py` has its loss)."""

from collections.abc import Sequence

from tgpu.domain.lifecycle import AttemptHappening, AttemptState, Happening, Status, attempt_after, task_after
from tgpu.store import event_data
from tgpu.store.lost import AttemptGone, AttemptReturned, Superseded
from tgpu.store.sql import codec, moves
from tgpu.store.sql.stage import AttemptNow, Happened, Numbered, Outcomes, Stage, may, of_attempt

_RUNS = task_after(Status.PENDING, Happening.RETURNED).value


class LostStages(Stage):
    def come_back(self, changes: Sequence[Numbered[AttemptReturned]]) -> Outcomes:
        taken = self._taken(moves.RETURN_TASK, changes, [
            of_attempt(change.attempt_id) | {"new_status": _RUNS} for _, change in changes
        ])  # fmt: skip
        attempts = self._every(moves.RETURN_ATTEMPT, [
            of_attempt(change.attempt_id) | {
                "new_state": attempt_after(AttemptState.LOST, AttemptHappening.RETURNED).value,
                "begun": change.started_ms,
            }
            for _, change in taken
        ])  # fmt: skip
        owners = self._every(moves.RETURN_JOB, [
            {
                "job": change.attempt_id.job_id,
                "new_status": _RUNS,
                "where_to": node_id,
                "on_devices": devices,
                "begun": started_ms,
            }
            for (_, change), (node_id, devices, started_ms) in zip(taken, attempts, strict=True)
        ])  # fmt: skip
        return {
            place: Happened(
                Happening.RETURNED.value,
                change.attempt_id.task_id,
                event_data.on_returned(change, node_id, codec.devices_from(devices)),
                user,
            )
            for (place, change), (node_id, devices, _), (user,) in zip(taken, attempts, owners, strict=True)
        }

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
        taken = [found for found in self._attempts(changes) if _concerns_no_task(found[2])]
        attempts = self._every(moves.END_ATTEMPT, [
            of_attempt(change.attempt_id) | {
                "new_state": attempt_after(AttemptState(now.state), AttemptHappening.GONE).value,
                "begun": change.exit.started_ms,
                "result": codec.text_of(change.exit),
            }
            for _, change, now in taken
        ])  # fmt: skip
        return {
            place: Happened(
                AttemptHappening.GONE.value,
                change.attempt_id.task_id,
                event_data.on_gone(change, node_id, codec.devices_from(devices)),
                now.user,
            )
            for (place, change, now), (node_id, devices, _) in zip(taken, attempts, strict=True)
        }


def _concerns_no_task(now: AttemptNow) -> bool:
    """It is not over, and its task does not wait for its end."""
    state = AttemptState(now.state)
    left_alone = state is AttemptState.LOST or now.is_superseded or Status(now.status).is_final
    return left_alone and may(state, AttemptHappening.GONE)
