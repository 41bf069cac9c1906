"""What becomes of a task whose attempt failed: it is tried again after a while, or its job fails with it."""

from typing import NamedTuple

from tgpu.control.series_book import End, SeriesBook
from tgpu.domain.job import Exit, TaskBrief
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.quantities import time_in_words
from tgpu.domain.retries import FailureAction, Retries, backoff_s

_AGAIN = (Happening.REQUEUED, Happening.PREEMPTED)
_FOR_GOOD = (Cause.DEADLINE, Cause.GANG_BROKEN)
_WISHED = (Cause.SUSPENDED, Cause.RESTARTED, Cause.GANG_RESTARTED)


class Verdict(NamedTuple):
    happening: Happening
    words: str
    counts: bool = False
    eligible_ms: int = 0


def judge(how: Exit, task: TaskBrief, plain: Verdict, book: SeriesBook, now_ms: int) -> Verdict:
    """`plain`: what would become of it without retries. What infrastructure brought about never counts, but a
    rule may make it the end of the task or of the job."""
    retries, entry = task.retries, book.get(task.task_id.job_id)
    tried_again = plain.happening in _AGAIN
    asked_for = task.cancel_by is not None or how.cause in (*_FOR_GOOD, *_WISHED)
    if retries is None or asked_for or not (tried_again or plain.happening is Happening.FAILED):
        return plain
    if entry is not None and (entry.end is not None or entry.is_done):
        return plain if not tried_again else Verdict(Happening.FAILED, plain.words)
    action = retries.action(how.cause, how.exit_code, how.signal)
    if action is FailureAction.FAIL_JOB:
        _fail_job(book, task, f"{plain.words}, and a rule says that this fails the job")
    if action in (FailureAction.FAIL_JOB, FailureAction.FAIL_INDEX):
        return Verdict(Happening.FAILED, plain.words)
    if tried_again or how.cause.is_infrastructure or how.cause is Cause.PREEMPTED:
        return plain
    if action is FailureAction.IGNORE:
        return _again(plain.words, task.attempts, now_ms, counts=False)
    return _counted(retries, task, plain, book, now_ms)


def _counted(retries: Retries, task: TaskBrief, plain: Verdict, book: SeriesBook, now_ms: int) -> Verdict:
    entry, failures = book.get(task.task_id.job_id), task.failures + 1
    of_job = failures
    if entry is not None and entry.job.spec.task_count > 1:
        entry.failures += 1
        of_job = entry.failures
    if retries.exhausts_job(of_job):
        words = f"{plain.words}; it was tried {_times(of_job)}, and backoff_limit is {retries.limit}"
        _fail_job(book, task, words)
        return Verdict(Happening.FAILED, words if retries.limit else plain.words, counts=True)
    if retries.exhausts_index(failures):
        return Verdict(Happening.FAILED, plain.words, counts=True)
    return _again(plain.words, failures, now_ms, counts=True)


def _again(words: str, failures: int, now_ms: int, *, counts: bool) -> Verdict:
    pause_s = backoff_s(failures)
    told = f"{words}; it is tried again in {time_in_words(pause_s)}"
    return Verdict(Happening.REQUEUED, told, counts, now_ms + 1000 * pause_s)


def _fail_job(book: SeriesBook, task: TaskBrief, words: str) -> None:
    entry = book.get(task.task_id.job_id)
    if entry is not None and entry.job.spec.task_count > 1:
        index = entry.job.spec.index_at(task.task_id.task_index)
        book.end(task.task_id.job_id, End(Cause.JOB_FAILED, f"task {index} failed: {words}", task.task_id))


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
