"""What encloses the tasks of one supervisor: nothing, where there are no cgroups.

A child is born where its parent stands. So the supervisor steps in, starts the task and steps out again, and
everything holds before the program's first instruction. That costs a few microseconds per controller; a
child that moves itself would cost a hundred, because all that it touches has to be copied first.
"""

import os

from tgpu.runner.cgroups import files
from tgpu.runner.cgroups.bounds import Bounds

SHIELDED = -1000
"""The kernel never ends whoever has this when memory is used up."""
ROOT = 0


_SCORE = "/proc/self/oom_score_adj"


class Scores:
    """How early the kernel ends a task, and how early a supervisor, when memory is used up.

    Made once, in the process from which supervisors are forked: they inherit its score.
    """

    __slots__ = ("supervisors", "tasks")

    def __init__(self) -> None:
        self.tasks = files.read(_SCORE).strip()
        """Unless its order says otherwise: as the agent."""
        if os.getuid() == ROOT:  # it must outlive its task, however much memory that takes
            files.write(_SCORE, str(SHIELDED))  # root in a container often may not
        self.supervisors = files.read(_SCORE).strip()


class Enclosure:
    """What needs no cgroup is done here: who goes first when memory is used up, and the CPUs."""

    by_fork = False
    """Whether a task can only be enclosed by `fork`."""

    def __init__(self, scores: Scores) -> None:
        self.bounds = Bounds()
        self._scores = scores
        self._score = -1
        self._own_cpus: set[int] = set()

    def prepare(self, attempt: str, bounds: Bounds) -> None:  # noqa: ARG002  the others name their groups by it
        """All is in place for a task to be started."""
        self.bounds = bounds

    def enter(self) -> None:
        score = self.bounds.oom_score_adj
        self._write_score(self._scores.tasks if score is None else str(score))
        if self.bounds.cpus:
            self._own_cpus = os.sched_getaffinity(0)
            try:
                os.sched_setaffinity(0, self.bounds.cpu_set())
            except OSError:  # none of them is ours to use
                self._own_cpus = set()

    def leave(self) -> None:
        self._write_score(self._scores.supervisors)
        if self._own_cpus:
            os.sched_setaffinity(0, self._own_cpus)
            self._own_cpus = set()

    def fork(self) -> int:
        return os.fork()

    def keep(self) -> bool:
        """The task lasts. Whether it has groups of its name."""
        return False

    def oom_kills(self) -> int:
        """How many of the task's processes the kernel ended because memory was used up."""
        return 0

    def was_at_limit(self) -> bool:
        """Whether it was its own limit that was reached."""
        return False

    def peak_bytes(self) -> int:
        """The most that a task that lasts has held; 0: nobody knows."""
        return 0

    def cpu_s(self) -> float:
        """CPU time of a task that lasts, including processes for which no parent has waited; 0: not known."""
        return 0.0

    def release(self) -> None:
        """The task is over."""

    def close(self) -> None:
        """No other task will come."""

    def _write_score(self, score: str) -> None:
        try:
            if self._score < 0:
                self._score = os.open(_SCORE, os.O_WRONLY | os.O_CLOEXEC)
            os.pwrite(self._score, score.encode("ascii"), 0)
        except OSError:  # a lower one than ours is not ours to give
            return
