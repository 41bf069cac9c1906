"""What becomes of tasks that fail: which failures count, how often one is tried again, and after how long."""

from dataclasses import dataclass
from enum import StrEnum

from tgpu.domain.lifecycle import Cause

FIRST_BACKOFF_S = 10
MOST_BACKOFF_S = 360


class FailureAction(StrEnum):
    COUNT = "count"
    """It counts against the limit, and is tried again below that."""
    IGNORE = "ignore"
    """It is tried again, however often."""
    FAIL_INDEX = "fail-index"
    """The task has failed; the others go on."""
    FAIL_JOB = "fail-job"
    """The task has failed, and all others of its job are stopped."""


@dataclass(frozen=True, slots=True)
class FailureRule:
    """What to do about a failure that is like this; what is empty does not ask. What the task did not bring
    about itself is meant only where its cause is named: who is told to go for another's sake may well end
    with the code of an error."""

    action: FailureAction
    exit_codes: tuple[int, ...] = ()
    not_exit_codes: tuple[int, ...] = ()
    """Every code but these, and but 0."""
    signals: tuple[int, ...] = ()
    causes: tuple[Cause, ...] = ()

    def matches(self, cause: Cause, exit_code: int | None, signal: int | None) -> bool:
        """All that it asks for holds."""
        if cause not in self.causes and (self.causes or cause.is_infrastructure or cause is Cause.PREEMPTED):
            return False
        if self.signals and signal not in self.signals:
            return False
        if self.exit_codes and exit_code not in self.exit_codes:
            return False
        return not self.not_exit_codes or (exit_code is not None and exit_code not in self.not_exit_codes)


@dataclass(frozen=True, slots=True)
class Retries:
    limit: int | None = None
    """So many failures of the whole job may be tried again; one more, and the job has failed. None: no such
    limit, if one is set per index; else none is tried again."""
    per_index: int | None = None
    """The same of each task, of which one more fails that task alone."""
    rules: tuple[FailureRule, ...] = ()
    max_failures: int | None = None
    """Once more tasks than this have failed for good, the others are stopped."""

    def action(self, cause: Cause, exit_code: int | None, signal: int | None) -> FailureAction | None:
        """By the first rule that matches; None: none does."""
        return next((rule.action for rule in self.rules if rule.matches(cause, exit_code, signal)), None)

    def exhausts_index(self, failures: int) -> bool:
        """Whether a task with so many failures that count has failed for good, and it alone."""
        if self.per_index is None:
            return self.limit is None
        return failures > self.per_index

    @property
    def tries_again(self) -> bool:
        """Whether there may be a second try of what failed by itself."""
        ignores = any(rule.action is FailureAction.IGNORE for rule in self.rules)
        return bool(self.limit) or bool(self.per_index) or ignores

    def exhausts_job(self, failures: int) -> bool:
        return self.limit is not None and failures > self.limit


def backoff_s(failures: int) -> int:
    """Before the next try: twice as long each time."""
    return min(MOST_BACKOFF_S, FIRST_BACKOFF_S << min(max(failures, 1) - 1, 16))
