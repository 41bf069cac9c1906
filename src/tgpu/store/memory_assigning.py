"""How waiting tasks of a memory store are given their attempts: gangs whole or not at all."""

from collections.abc import Sequence
from dataclasses import replace

from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Attempt, Event
from tgpu.domain.lifecycle import AttemptHappening, Happening, attempt_after, task_after
from tgpu.domain.quota import Standing
from tgpu.store import event_data
from tgpu.store.memory_jobs import JobRows
from tgpu.store.memory_ledger import MemoryBook
from tgpu.store.memory_state import State
from tgpu.store.port import Assigned, Batch


def assign(state: State, batch: Batch, ledger: MemoryBook, rows: JobRows) -> dict[int, Event]:
    """What happened, by the place of the change; what is missing was refused."""
    at_ms = batch.at_ms
    admitted = _admitted(state, _candidates(state, batch.assigned, batch.seen_seq), ledger)
    events: dict[int, Event] = {}
    for place, (change, standing) in admitted.items():
        attempt_id = change.attempt_id
        task, job = state.tasks[attempt_id.task_id], state.jobs[attempt_id.job_id]
        state.tasks[attempt_id.task_id] = replace(
            task,
            status=task_after(task.status, Happening.ASSIGNED),
            attempts=attempt_id.number,
            standing=standing,
            reserved_gpu_ms=change.reserve_gpu_ms,
        )
        begun = attempt_after(None, AttemptHappening.ASSIGNED)
        attempt = Attempt(attempt_id, begun, change.node_id, change.devices, at_ms)
        state.put_attempt(attempt)
        rows.assigned(attempt, task.status)
        data = event_data.on_assigned(change)
        events[place] = state.record(at_ms, Happening.ASSIGNED.value, job, attempt_id.task_index, data)
    return events


def _candidates(state: State, changes: Sequence[Assigned], seen_seq: int) -> list[tuple[int, Assigned]]:
    """Those whose tasks wait for just this attempt, and which nobody wants cancelled, held or otherwise than
    when it was decided; of a gang all for which that holds, or none."""
    found = [
        (place, change)
        for place, change in enumerate(changes)
        if _waits_for(state, change.attempt_id)
        and state.changed_seq.get(change.attempt_id.job_id, 0) <= seen_seq
    ]
    places = {place for place, _ in found}
    torn = {change.attempt_id.job_id for place, change in enumerate(changes) if place not in places}
    return [
        (place, change)
        for place, change in found
        if change.attempt_id.job_id not in torn or not _is_gang(state, change.attempt_id)
    ]


def _waits_for(state: State, attempt_id: AttemptId) -> bool:
    task = state.tasks.get(attempt_id.task_id)
    if task is None or not task.status.waits or attempt_id.number != task.attempts + 1:
        return False
    return state.jobs[attempt_id.job_id].cancel_by is None


def _is_gang(state: State, attempt_id: AttemptId) -> bool:
    return state.jobs[attempt_id.job_id].spec.gang is not None


def _admitted(
    state: State, candidates: Sequence[tuple[int, Assigned]], ledger: MemoryBook
) -> dict[int, tuple[Assigned, Standing]]:
    """Those that every quota has room for, in order, and how they stand then; once per task."""
    admitted: dict[int, tuple[Assigned, Standing]] = {}
    given: set[TaskId] = set()
    torn: set[int] = set()
    for place, change in candidates:
        job_id, task_id = change.attempt_id.job_id, change.attempt_id.task_id
        if task_id in given or job_id in torn:
            continue
        tenants = ledger.of(state.jobs[job_id].spec.tenant_id)
        charged = state.tasks[task_id].charged
        standing = tenants.assign(charged, change.admission, change.reserve_gpu_ms)
        if standing is not None:
            given.add(task_id)
            admitted[place] = (change, standing)
        elif _is_gang(state, change.attempt_id):
            torn.add(job_id)
            theirs = [at for at, (other, _) in admitted.items() if other.attempt_id.job_id == job_id]
            for at in theirs:
                other, stood = admitted.pop(at)
                mine = state.tasks[other.attempt_id.task_id].charged
                tenants.unassign(mine, stood, other.reserve_gpu_ms)
    return admitted
