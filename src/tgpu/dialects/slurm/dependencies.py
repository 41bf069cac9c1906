"""What a job waits for: `afterok:41:42,afterany:43` as tgpu's `after`."""

from __future__ import annotations

from tgpu.dialects.slurm.array_ids import parted
from tgpu.dialects.slurm.refusal import SlurmError

_KINDS = ("afterok", "afternotok", "afterany", "aftercorr")
_FORMS = "afterok:41, afternotok:41, afterany:41:42, aftercorr:41 or singleton, with commas"


def needs(name: str, text: str) -> list[str]:
    if "?" in text:
        raise SlurmError(f"{name} cannot wait for one of several jobs, only for all: write commas for ?")
    return [_one(name, part.strip()) for part in text.split(",") if part.strip()]


def _one(name: str, part: str) -> str:
    kind, *ids = part.split(":")
    kind = kind.lower()
    if kind == "singleton" and not ids:
        return kind
    if kind.isdigit():  # Slurm's own default
        kind, ids = "afterany", [kind, *ids]
    if kind == "afterburstbuffer":  # of which there are none
        kind = "afterany"
    if kind == "after":
        raise SlurmError(f"{name} cannot wait for a start: say afterany, or afterok; got {part!r}")
    if kind not in _KINDS or not ids:
        raise SlurmError(f"{name} must be like {_FORMS}; got {part!r}")
    for job_id in ids:
        if "_" in job_id or (job_id.isascii() and job_id.isdigit() and parted(int(job_id))[1] is not None):
            raise SlurmError(f"{name} waits for whole arrays, or with aftercorr index by index; got {part!r}")
        if not (job_id.isascii() and job_id.isdigit()):
            raise SlurmError(f"{name} must name jobs by their numbers, such as {kind}:41; got {part!r}")
    return ":".join([kind, *ids])
