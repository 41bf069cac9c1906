"""What a job says of its code and of its output's files, as callers write it and as they see it."""

from typing import Annotated, Any

from msgspec import Meta

from tgpu.api.series_form import SeriesAsked, SeriesOut
from tgpu.domain.job import Job
from tgpu.domain.output_files import MAX_PATTERN, OpenMode, OutputFiles

_NO_FILES = OutputFiles()


class ReproducibleAsked(SeriesAsked, forbid_unknown_fields=True, kw_only=True):
    """A part of a job."""

    output: Annotated[
        str | None,
        Meta(
            description="A file to which stdout is written as well, relative to cwd, as the job's user: `%j` "
            "and `%A` are the job's number, `%a` is the task's index, `%x` the job's name, `%N` the node, "
            "`%u` the user, `%%` a percent sign; `%3a` is filled up with zeros.",
            extra_json_schema={"examples": ["out-%j.txt"], "maxLength": MAX_PATTERN},
        ),
    ] = None
    error: Annotated[
        str | None,
        Meta(
            description="The same of stderr; by default where stdout goes.",
            extra_json_schema={"examples": [None], "maxLength": MAX_PATTERN},
        ),
    ] = None
    open_mode: Annotated[
        OpenMode | None,
        Meta(
            description="What becomes of such a file that is there: `truncate` or `append`. By default a "
            "first attempt begins it anew, unless tasks share it, and a later one appends."
        ),
    ] = None
    snapshot: Annotated[
        str | None,
        Meta(
            description="A copy of the code to run in, by its digest: PUT /snapshots/{digest} takes it.",
            extra_json_schema={"examples": [None]},
        ),
    ] = None
    snapshot_root: Annotated[
        str | None,
        Meta(
            description="With snapshot: the directory that was copied; cwd is in it.",
            extra_json_schema={"examples": [None]},
        ),
    ] = None
    snapshot_commit: Annotated[
        str | None,
        Meta(
            description="With snapshot: the commit that was checked out.",
            extra_json_schema={"examples": [None]},
        ),
    ] = None
    snapshot_dirty: Annotated[
        bool, Meta(description="With snapshot: whether it differs from that commit.")
    ] = False


class ReproducibleOut(SeriesOut, kw_only=True):
    """A part of a job."""

    output: str | None
    """A file to which stdout is written as well."""
    error: str | None
    open_mode: OpenMode | None
    snapshot: str | None
    """The copy of the code that it runs in."""
    snapshot_root: str | None
    snapshot_commit: str | None
    """What was checked out when it was submitted."""
    snapshot_dirty: bool
    """Whether the copy differs from that."""


def reproducible_out(job: Job, *, known: bool) -> dict[str, Any]:
    """The fields of this part alone. `known`: whether the caller may know what the job runs."""
    files = job.spec.files or _NO_FILES
    snapshot = job.spec.snapshot if known else None
    return {
        "output": files.output if known else None,
        "error": files.error if known else None,
        "open_mode": files.mode,
        "snapshot": None if snapshot is None else snapshot.digest,
        "snapshot_root": None if snapshot is None else snapshot.root,
        "snapshot_commit": None if snapshot is None else snapshot.commit,
        "snapshot_dirty": snapshot is not None and snapshot.dirty,
    }
