"""How jobs, tasks and attempts are named: `42`, `42.7`, `42.7.1`."""

from typing import NamedTuple

MAX_JOB_ID = 2**53 - 1  # the largest integer that every JSON reader keeps exact


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
        parts = text.split(".")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):  # noqa: PLR2004
            raise ValueError(f"{text!r} is not an attempt id such as 42.0.1")
        return cls(*(int(part) for part in parts))
