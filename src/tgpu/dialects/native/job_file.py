"""The jobs of a YAML text: in tgpu's own form, or as Kubernetes manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tgpu.dialects.native import several_jobs, strict_yaml
from tgpu.dialects.native.fields import job_fields
from tgpu.dialects.native.problems import JobFieldError
from tgpu.dialects.native.time_fields import past_begin

if TYPE_CHECKING:
    from typing import Any

    from tgpu.dialects.native.several_jobs import Path

MOST_BYTES = 1 << 20
_FORM = "a job is written as `key: value` lines, such as `command: python train.py`"


class WrittenJob(NamedTuple):
    """One job as it stands in a text."""

    document: int
    path: Path
    """Of the job within its document."""
    given: object

    @property
    def is_manifest(self) -> bool:
        return isinstance(self.given, dict) and ("apiVersion" in self.given or "kind" in self.given)


def written_jobs(text: str) -> list[WrittenJob]:
    """Raises BadYamlError or JobFieldError."""
    found: list[WrittenJob] = []
    for place, document in enumerate(strict_yaml.documents(text)):
        if document is None:
            continue
        try:
            found += [WrittenJob(place, path, job) for path, job in several_jobs.unfolded(document)]
        except JobFieldError as error:
            error.document = place
            raise
    return found


def fields_of(job: WrittenJob) -> tuple[dict[str, Any], list[str]]:
    """The API's fields, and warnings. Raises JobFieldError, or ManifestError of the Kubernetes dialect."""
    given = job.given
    if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
        raise JobFieldError(_FORM)
    if job.is_manifest:
        from tgpu.dialects import kubernetes  # noqa: PLC0415  only who has one

        return kubernetes.job_fields(given), kubernetes.warnings(given)
    said = {key: value for key, value in given.items() if value is not None}
    fields = job_fields(said)
    warning = past_begin(said, fields) if "begin_at" in fields else None
    return fields, [] if warning is None else [warning]
