"""What a job says of other jobs and of time, as callers write it and as they see it."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from tgpu.api.edge import optional_rfc3339
from tgpu.domain.job import Job
from tgpu.domain.needs import MAX_NEEDS, words_of
from tgpu.domain.timing import Timing

_MOMENT = "2030-01-31T12:00:00Z"


class TimingAsked(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A part of a job."""

    after: Annotated[
        list[str],
        Meta(
            description="Other jobs that it waits for, by their numbers: `41` or `afterok:41:42` (they "
            "completed), `afternotok:41` (failed or cancelled), `afterany:41` (over), `aftercorr:41` (index "
            "by index, between series), `singleton` (no older job of the same user and name is live). If "
            "that can never be, it has failed.",
            extra_json_schema={"examples": [[]], "maxItems": MAX_NEEDS},
        ),
    ] = []
    needs: Annotated[
        list[str],
        Meta(
            description="The same of other jobs in this request, by their names: `prepare`, "
            "`afterany:prepare`.",
            extra_json_schema={"examples": [[]], "maxItems": MAX_NEEDS},
        ),
    ] = []
    begin_at: Annotated[
        str | None,
        Meta(description="Not to be started before.", extra_json_schema={"examples": [_MOMENT]}),
    ] = None
    deadline_at: Annotated[
        str | None,
        Meta(
            description="To be over by then: one that cannot be any more has failed, and one that runs is "
            "stopped.",
            extra_json_schema={"examples": [None]},
        ),
    ] = None
    requeue_on_timeout: Annotated[
        bool, Meta(description="Whether it waits again when it has run into its time limit.")
    ] = False
    hold: Annotated[bool, Meta(description="Not to be started until somebody releases it.")] = False


class TimingOut(msgspec.Struct, kw_only=True):
    """A part of a job."""

    after: Sequence[str]
    """Other jobs that it waits for, or waited for."""
    needs_met: bool
    """Whether it need not wait for them any more."""
    begin_at: str | None
    deadline_at: str | None
    requeue_on_timeout: bool
    held_by: str | None
    """Who wants it not to be started for now."""


def timing_out(job: Job) -> TimingOut:
    timing = job.timing or Timing()
    return TimingOut(
        after=[words_of(need) for need in job.spec.needs],
        needs_met=not timing.unmet,
        begin_at=optional_rfc3339(timing.begin_ms),
        deadline_at=optional_rfc3339(timing.deadline_ms),
        requeue_on_timeout=timing.again_on_timeout,
        held_by=timing.held_by,
    )
