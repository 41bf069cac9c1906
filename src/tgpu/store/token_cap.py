"""What a token may still be used for: so many jobs, so many GPU-hours by their time limits and graces."""

from collections.abc import Sequence
from dataclasses import dataclass

from tgpu.domain.job import JobSpec, Request
from tgpu.store.access_port import TokenSpentError
from tgpu.store.demand import Run, demands, longest_of, whole_run_gpu_ms

_GPU_HOUR = 3_600_000
_NO_LIMIT = "the token is good for a number of GPU-hours only: give every job that uses GPUs a time limit"
_AGAIN = (
    "the token is good for a number of GPU-hours only, and nobody knows how many a job takes that is tried "
    "again by itself: submit it without retries (retries 0, backoff_limit 0, no rule that ignores failures) "
    "and without requeue_on_timeout, or get another token"
)


@dataclass(slots=True)
class TokenCap:
    """While a transaction works on it; None is without cap."""

    token_id: int
    jobs_left: int | None
    gpu_ms_left: int | None
    jobs: int = 0
    """What was spent in this transaction."""
    gpu_ms: int = 0

    @property
    def is_capped(self) -> bool:
        return self.jobs_left is not None or self.gpu_ms_left is not None

    def spend(self, specs: Sequence[JobSpec]) -> None:
        """All of them, or TokenSpentError."""
        if self.jobs_left is not None and self.jobs + len(specs) > self.jobs_left:
            raise TokenSpentError(
                f"the token is good for {self.jobs_left - self.jobs} more jobs, and this asks for "
                f"{len(specs)}: submit fewer, or get another token"
            )
        asked = 0 if self.gpu_ms_left is None else sum(map(_asked, specs))
        if self.gpu_ms_left is not None and self.gpu_ms + asked > self.gpu_ms_left:
            raise TokenSpentError(
                f"the token is good for {_hours(self.gpu_ms_left - self.gpu_ms)} more GPU-hours, and this "
                f"asks for {_hours(asked)} by its time limit and grace: give shorter ones, or get another "
                f"token"
            )
        self.jobs += len(specs)
        self.gpu_ms += asked

    def spend_more(self, before: JobSpec, spec: JobSpec) -> None:
        """A job that waits is changed, with those of its tasks that have no rows yet. Raises
        TokenSpentError."""
        if self.gpu_ms_left is None:
            return
        more = _asked(spec) - _asked(before)
        if more > 0 and self.gpu_ms + more > self.gpu_ms_left:
            raise TokenSpentError(
                f"the token that it was submitted with is good for {_hours(self.gpu_ms_left - self.gpu_ms)} "
                f"more GPU-hours, and this asks for {_hours(more)} more: ask for less"
            )
        self.gpu_ms += more


def check_editor(editor_id: int | None, token_id: int | None) -> None:
    """`editor_id`: the token with a cap by which a job is changed, if it is one; `token_id`: that by which it
    was submitted. Raises TokenSpentError."""
    if editor_id is not None and editor_id != token_id:
        raise TokenSpentError(
            "this token has a cap, so it changes only jobs that were submitted with it: use the socket, or a "
            "token without"
        )


def _asked(spec: JobSpec) -> int:
    longest_s, total = longest_of(spec), 0
    for request, tasks in demands(spec):
        asked = whole_run_gpu_ms(request, longest_s)
        if asked is None:
            raise TokenSpentError(_NO_LIMIT)
        total += tasks * asked
    if total and _is_tried_again(spec):
        raise TokenSpentError(_AGAIN)
    return total


def _is_tried_again(spec: JobSpec) -> bool:
    return (spec.retries is not None and spec.retries.tries_again) or (
        spec.timing is not None and spec.timing.again_on_timeout
    )


def unused(request: Request, longest_s: int | None, run: Run) -> int:
    """What a task that is over gives back: its last attempt counts, for the others were not its doing."""
    return max(0, (whole_run_gpu_ms(request, longest_s) or 0) - run.gpu_ms(request))


def _hours(gpu_ms: int) -> str:
    return f"{gpu_ms / _GPU_HOUR:.3f}".rstrip("0").rstrip(".")
