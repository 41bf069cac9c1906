"""Jobs from YAML files, one per document or several: in tgpu's own form, or as Kubernetes has them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tgpu.cli import jobs_in_one, strict_yaml
from tgpu.cli.exits import UsageError
from tgpu.cli.fields import job_fields
from tgpu.cli.screen import note

if TYPE_CHECKING:
    from typing import Any

_MOST_BYTES = 1 << 20
_MOST_JOBS = 10_000


def read(paths: list[str]) -> list[dict[str, Any]]:
    """The API's fields of each job in the files; `-` is standard input."""
    jobs = [job for path in paths for job in _of_file(path)]
    if len(jobs) > _MOST_JOBS:
        raise UsageError(f"{', '.join(paths)} hold {len(jobs)} jobs; {_MOST_JOBS} are possible at once")
    return jobs


def _of_file(path: str) -> list[dict[str, Any]]:
    text = _text(path)
    try:
        documents = strict_yaml.documents(text)
    except strict_yaml.BadYamlError as error:
        raise UsageError(f"{path} is not a job file: {error}") from None
    given = [document for document in documents if document is not None]
    jobs = [job for document in given for job in jobs_in_one.unfolded(path, document)]
    if not jobs or len(jobs) > _MOST_JOBS:
        raise UsageError(f"{path} holds {len(jobs)} jobs; 1 to {_MOST_JOBS} are possible")
    return [_job(path, at, job, alone=len(jobs) == 1) for at, job in enumerate(jobs, start=1)]


def _job(path: str, at: int, job: object, *, alone: bool) -> dict[str, Any]:
    where = f"{path}: " if alone else f"{path}, job {at}: "
    if not isinstance(job, dict) or not all(isinstance(key, str) for key in job):
        raise UsageError(f"{where}a job is written as `key: value` lines, such as `command: python train.py`")
    if "apiVersion" in job or "kind" in job:
        return _of_manifest(job, where)
    return job_fields({key: value for key, value in job.items() if value is not None}, where)


def _of_manifest(manifest: dict[str, Any], where: str) -> dict[str, Any]:
    from tgpu.dialects import kubernetes  # noqa: PLC0415  only who has one

    try:
        fields, warnings = kubernetes.job_fields(manifest), kubernetes.warnings(manifest)
    except kubernetes.ManifestError as error:
        raise UsageError(f"{where}{error}") from None
    for text in warnings:
        note(f"{where}{text}")
    return fields


def _text(path: str) -> str:
    try:
        if path == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise UsageError(f"{path} is larger than {_MOST_BYTES >> 20} MiB, the most a job file may have")
        return data.decode("utf-8")
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder: name its files, each with -f") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text") from None
