"""How jobs, tasks and attempts are named: `42`, `42.7`, `42.7.1`."""

import re
from typing import NamedTuple

MAX_JOB_ID = 2**53 - 1  # the largest integer that every JSON reader keeps exact
MAX_INDEX = 2**31 - 1  # what a database's integer holds
_ATTEMPT = re.compile(r"([1-9][0-9]{0,15})\.(0|[1-9][0-9]{0,9})\.([1-9][0-9]{0,9})")
_LONGEST_SHOWN = 60


class TaskId(NamedTuple):
    """One task of a job, written `42.7`."""

    job_id: int
    task_index: int

    def __str__(self) -> str:
        return f"{self.job_id}.{self.task_index}"

    def attempt(self, number: int) -> "AttemptId":
        return AttemptId(self.job_id, self.task_index, number)


class AttemptId(NamedTuple):
    """One try of a task, written `42.7.1`; numbers start at 1 and are never used again."""

    job_id: int
    task_index: int
    number: int

    def __str__(self) -> str:
        return f"{self.job_id}.{self.task_index}.{self.number}"

    @property
    def task_id(self) -> TaskId:
        return TaskId(self.job_id, self.task_index)

    @classmethod
    def parse(cls, text: str) -> "AttemptId":
        """Raises ValueError, also for an id that is written in another way than `str` writes it."""
        found = _ATTEMPT.fullmatch(text)
        if found is not None:
            job_id, task_index, number = map(int, found.groups())
            if job_id <= MAX_JOB_ID and task_index <= MAX_INDEX and number <= MAX_INDEX:
                return cls(job_id, task_index, number)
        raise ValueError(f"{text[:_LONGEST_SHOWN]!r} is not an attempt id such as 42.0.1")
