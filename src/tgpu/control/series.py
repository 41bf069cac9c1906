"""Jobs of many tasks as a whole: they grow as their tasks end, fail together, and are suspended and resumed.

A series is given rows for as many tasks as can be used: between `FEW` and `MANY` of them wait, and no more
are live than may run at once. Who ends and who comes instead are in one transaction.
"""

from dataclasses import replace

from tgpu.control import wishes
from tgpu.control.containment import about_job
from tgpu.control.deadlines import has_begun, too_late, waits_until
from tgpu.control.keeping_back import has_stirred, keep_back
from tgpu.control.series_book import End, Entry, SeriesBook
from tgpu.control.turn import Turn
from tgpu.core.picture import Picture
from tgpu.core.placed import Placed
from tgpu.domain.ids import TaskId
from tgpu.domain.lifecycle import AttemptState, Cause, Happening, Status
from tgpu.domain.quantities import time_in_words
from tgpu.store.port import Changes, Receipt, StopOrdered, TaskClosed, World
from tgpu.store.series_port import Dropped, Grown

FEW = 64
MANY = 512
LOOK_MS = 500
HUNGRY_MS = 1000
"""Of a series that a quota had no room for: it asks again after this, or when one of its tasks ends."""
_ENDS = {
    Happening.SUCCEEDED: Status.COMPLETED,
    Happening.FAILED: Status.FAILED,
    Happening.CANCELLED: Status.CANCELLED,
}

_LATE = (Cause.DEADLINE, Cause.WAITED_TOO_LONG)


def begin(picture: Picture, world: World) -> SeriesBook:
    """The book of a new term."""
    book = SeriesBook()
    book.begin(world.series, world.tasks)
    for placed in picture.placed.values():
        timing = placed.task.timing
        if timing is not None and timing.suspended_by is not None:
            book.owed.append((placed.attempt_id, Cause.SUSPENDED, timing.suspended_by))
    for job_id, task_index, by in world.restarts:
        if (named := picture.placed.get(TaskId(job_id, task_index))) is not None:
            book.owed.append((named.attempt_id, Cause.RESTARTED, by))
    return book


def take_in(picture: Picture, changes: Changes, turn: Turn) -> None:
    """What users want of some tasks of their jobs, or of all that run."""
    book = turn.series
    for asked in changes.cancels:
        book.end(asked.job_id, End(Cause.CANCELLED, f"cancelled by {asked.by}"))
    for some in changes.tasks_cancelled:
        for task_id in book.tasks_of(some.job_id, 0):
            if task_id.task_index in some.positions:
                wishes.cancel(picture, task_id, some.by, turn, now=some.now)
        book.pass_over(some.job_id, some.by, some.positions)
    for job_id, task_index, by in changes.restarts:
        if (placed := picture.placed.get(TaskId(job_id, task_index))) is not None:
            stop(picture, placed, Cause.RESTARTED, by, turn)
    if changes.suspended:
        _suspend(picture, set(changes.suspended), turn)


def _suspend(picture: Picture, jobs: set[int], turn: Turn) -> None:
    """What runs of them is stopped; what waits was parked already."""
    for placed in [each for each in picture.placed.values() if each.task.task_id.job_id in jobs]:
        timing = placed.task.timing
        if timing is not None and timing.suspended_by is not None:
            stop(picture, placed, Cause.SUSPENDED, timing.suspended_by, turn)


def stop(picture: Picture, placed: Placed, cause: Cause, by: str, turn: Turn) -> None:
    if placed.state is not AttemptState.STOPPING:
        placed.stop_detail = f"by {by}" if cause in (Cause.SUSPENDED, Cause.RESTARTED) else by
        picture.stopping(placed, cause)
        turn.batch.stop_ordered.append(StopOrdered(placed.attempt_id, cause, by))


def settle(picture: Picture, turn: Turn) -> None:
    """After all that happened in this turn: who is over, who fails as a whole, and who grows."""
    book = turn.series
    while book.owed:
        attempt_id, cause, by = book.owed.pop()
        if (placed := picture.live(attempt_id)) is not None:
            stop(picture, placed, cause, by, turn)
    if not book:
        return
    _note_ends(turn)
    if picture.now_ms >= book.look_ms:
        _look_at_the_clock(picture, book)
    for job_id in book.crowded - book.touched:
        if (crowded := book.get(job_id)) is not None and has_stirred(picture, crowded):
            book.touched.add(job_id)
    # Whom this concerns in turn is looked at in the next one.
    touched, book.touched = sorted(book.touched), set()
    for job_id in touched:
        if (entry := book.get(job_id)) is not None:
            with about_job(job_id):
                _settle_one(picture, entry, turn)


def _look_at_the_clock(picture: Picture, book: SeriesBook) -> None:
    """Now and then: there may be many, and few of them are due."""
    book.look_ms = picture.now_ms + LOOK_MS
    for entry in book:
        deadline_ms, due = entry.deadline_ms, waits_until(entry)
        if due is not None and due.at_ms <= picture.now_ms and not has_begun(picture, entry):
            book.end(entry.job.job_id, End(due.cause, due.detail))
        if deadline_ms is not None and deadline_ms <= picture.now_ms and entry.end is None:
            allowed = time_in_words(entry.job.spec.active_deadline_s or 0)
            book.end(entry.job.job_id, End(Cause.DEADLINE, f"was not over {allowed} after it began to wait"))
        elif entry.hungry_ms is not None and entry.hungry_ms <= picture.now_ms:
            book.touched.add(entry.job.job_id)


def _note_ends(turn: Turn) -> None:
    book, batch = turn.series, turn.batch
    for ended in batch.ended:
        status = _ENDS.get(ended.happening)
        book.left_its_place(ended.attempt_id.job_id)
        if status is not None:
            book.is_over(ended.attempt_id.task_id, status)
    for closed in batch.closed:
        book.is_over(closed.task_id, _ENDS[closed.happening])
    for lost in batch.lost:
        book.left_its_place(lost.attempt_id.job_id)
        if not lost.requeue:
            book.is_over(lost.attempt_id.task_id, Status.FAILED)


def _settle_one(picture: Picture, entry: Entry, turn: Turn) -> None:
    retries = entry.retries
    most = None if retries is None else retries.max_failures
    if most is not None and entry.failed > most and entry.end is None:
        words = f"{entry.failed} tasks have failed, and max_failures allows {most}"
        entry.end = End(Cause.JOB_FAILED, words, _last_failed(entry, turn))
    if entry.end is not None:
        _end(picture, entry, entry.end, turn)
    elif entry.is_done:
        done = End(Cause.JOB_DONE, "another task has finished the work")
        _close_waiting(picture, entry, done, turn)
        _drop(entry, done, turn)
    elif (due := too_late(entry.job, picture.now_ms)) is not None:
        _drop(entry, End(due.cause, due.detail), turn)  # those that have rows are looked at one by one
    else:
        keep_back(picture, turn.series, entry)
        _grow(picture, entry, turn)
    if not entry.live and not entry.unborn:
        turn.series.forget(entry.job.job_id)


def _end(picture: Picture, entry: Entry, end: End, turn: Turn) -> None:
    """What waits is closed, what runs is stopped, and what has no row never gets one."""
    if end.by is not None:
        _tell_job(end, turn)
        entry.end = end._replace(by=None)
    if end.cause is not Cause.CANCELLED:  # whom users cancel is told so by itself
        _close_waiting(picture, entry, end, turn)
        for task_id in sorted(entry.live):
            if (placed := picture.placed.get(task_id)) is not None:
                stop(picture, placed, end.cause, end.detail, turn)
    _drop(entry, end, turn)


def _last_failed(entry: Entry, turn: Turn) -> TaskId | None:
    failed = [each.attempt_id.task_id for each in turn.batch.ended if each.happening is Happening.FAILED]
    failed += [each.attempt_id.task_id for each in turn.batch.lost if not each.requeue]
    return next((each for each in reversed(failed) if each.job_id == entry.job.job_id), None)


def _tell_job(end: End, turn: Turn) -> None:
    """The job ends as this task did, whoever failed before it, and says why that was the end of all."""
    batch = turn.batch
    for place, ended in enumerate(batch.ended):
        if ended.attempt_id.task_id == end.by:
            batch.ended[place] = replace(ended, fails_job=_with_its_own(ended.detail, end))
    for place, lost in enumerate(batch.lost):
        if lost.attempt_id.task_id == end.by:
            batch.lost[place] = replace(lost, fails_job=_with_its_own(lost.detail, end))


def _with_its_own(words: str, end: End) -> str:
    return end.detail if words in end.detail else f"{words}; {end.detail}"


def _drop(entry: Entry, end: End, turn: Turn) -> None:
    if entry.unborn:
        turn.batch.dropped.append(Dropped(entry.job.job_id, end.cause, end.detail))
        entry.dropped = True


def _close_waiting(picture: Picture, entry: Entry, end: End, turn: Turn) -> None:
    happening = Happening.FAILED if end.cause in _LATE else Happening.CANCELLED
    for task_id in sorted(entry.live):
        if wishes.take_out(picture, task_id):
            turn.batch.closed.append(TaskClosed(task_id, happening, end.cause, end.detail))
            entry.live.discard(task_id)
            entry.kept_back.discard(task_id)


def _grow(picture: Picture, entry: Entry, turn: Turn) -> None:
    entry.hungry_ms = None
    if entry.unborn:
        room = max(0, min(_room(picture, entry), _within_reach(entry, turn.series)))
        if room or entry.passes_over:  # who was cancelled need not wait for room, nor for a release
            turn.batch.grown.append(Grown(entry.job.job_id, room))
            entry.asked, entry.passes_over = room, False


def _room(picture: Picture, entry: Entry) -> int:
    """How many more of its tasks can be used now."""
    series, timing = entry.job.spec.series, entry.job.timing
    if series is None:
        return 0
    if timing is not None and timing.is_parked and not _waits_index_by_index(entry):
        return 0 if entry.live else 1  # else who waits for it could take all of the quota, and wait for ever
    if len(entry.live) - len(picture.placed) > FEW:  # so many wait at least, and few turns look further
        return 0
    waiting = len(entry.live) - sum(map(picture.placed.__contains__, entry.live))
    if waiting > FEW:
        return 0
    return MANY - waiting if series.at_once is None else min(MANY, series.at_once - len(entry.live))


def _within_reach(entry: Entry, book: SeriesBook) -> int:
    """How many more of them have, index by index, somebody to wait for; but one is live, as above, unless it
    would take the place of whom it waits for."""
    reach = book.reach(entry)
    if reach == entry.job.spec.task_count:
        return entry.unborn
    ahead = reach - entry.born - entry.skipped.number_between(entry.born, reach)
    return ahead if entry.live or book.gives_precedence(entry) else max(1, ahead)


def _waits_index_by_index(entry: Entry) -> bool:
    """So that there must be some tasks that do."""
    timing = entry.job.timing
    held = timing is not None and (timing.held_by is not None or timing.suspended_by is not None)
    return not held and entry.goes_index_by_index


def heard(picture: Picture, book: SeriesBook, receipt: Receipt) -> bool:
    """What was committed: the tasks that are new wait from now on. Whether something follows from it."""
    grew = False
    for job_id, born, tasks in receipt.grown:
        entry = book.get(job_id)
        if entry is None:
            continue
        if born > entry.born:
            grew = True
            book.went_on(job_id)
        passed_over = born - entry.born - len(tasks)
        entry.born = born
        for task in tasks:
            if not wishes.is_known(picture, task.task_id):
                picture.add_waiting(task)
                entry.live.add(task.task_id)
        if entry.unborn and len(tasks) < entry.asked:
            entry.hungry_ms = picture.now_ms + HUNGRY_MS
            if passed_over:
                book.touched.add(job_id)
        elif not entry.unborn and not entry.live:
            book.forget(job_id)
    return grew
