"""Judges what a job says of its code and of its output's files."""

from collections.abc import Sequence

from tgpu.api.job_form import JobAsked
from tgpu.domain.job import Group
from tgpu.domain.output_files import OutputFiles, checked_pattern
from tgpu.domain.quantities import BadQuantityError
from tgpu.domain.snapshot import Snapshot, checked_commit, checked_digest


def files_of(asked: JobAsked, groups: Sequence[Group]) -> OutputFiles | None:
    """Raises BadQuantityError, whose text begins with the field."""
    if asked.output is None and asked.error is None:
        if asked.open_mode is not None:
            raise BadQuantityError("open_mode is about a file: name one with output, or leave it out")
        return None
    said = "output" if asked.output is not None else "error"
    if any(group.container is not None for group in groups):
        raise BadQuantityError(
            f"{said} names a file for a process of its node: in a container, write to one of its mounts; "
            "`tgpu logs` has its output anyway"
        )
    if asked.pty and asked.error is not None:
        raise BadQuantityError(
            "error has nothing to name with pty, for a terminal has one output: leave it out"
        )
    return OutputFiles(
        output=None if asked.output is None else checked_pattern("output", asked.output),
        error=None if asked.error is None else checked_pattern("error", asked.error),
        mode=asked.open_mode,
    )


def snapshot_of(asked: JobAsked, groups: Sequence[Group]) -> Snapshot | None:
    """Whether there is such a copy is another question. Raises BadQuantityError."""
    if asked.snapshot is None:
        for field in ("snapshot_root", "snapshot_commit", "snapshot_dirty"):
            if getattr(asked, field):
                raise BadQuantityError(f"{field} is about a snapshot: name it, or leave this out")
        return None
    digest = checked_digest("snapshot", asked.snapshot)
    root = groups[0].cwd if asked.snapshot_root is None else asked.snapshot_root
    if not root.startswith("/") or "\0" in root or ".." in root.split("/"):
        raise BadQuantityError(f"snapshot_root must be an absolute path without ..; got {root[:80]!r}")
    commit = asked.snapshot_commit
    snapshot = Snapshot(
        digest=digest,
        root=root if root == "/" else root.rstrip("/"),
        commit=None if commit is None else checked_commit("snapshot_commit", commit),
        dirty=asked.snapshot_dirty,
    )
    for group in groups:
        if group.container is not None:
            raise BadQuantityError(
                "snapshot is for processes of a node: with an image, put the code into it, or mount it"
            )
        if snapshot.place_of(group.cwd) is None or ".." in group.cwd.split("/"):
            raise BadQuantityError(f"snapshot_root must be above cwd, which is {group.cwd}; got {root}")
    return snapshot
